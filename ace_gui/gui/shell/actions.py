"""The window's actions, each declared once for the menus, the header and the keyboard, with when it
is enabled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from PySide6.QtGui import QAction, QActionGroup, QKeySequence, QUndoStack
from PySide6.QtWidgets import QWidget

from ace_gui.gui.control.merge_operation import MergeOperation
from ace_gui.gui.state.activity import State
from ace_gui.gui.state.session import NO_EXPERT, NO_MODEL, STILL_READ, WAIT, Session
from ace_gui.gui.theme import icon

_Key = QKeySequence.StandardKey
WHY: Final = "why"
"""The action property that holds the reason why it is disabled."""
BUSY = (State.MERGING, State.EXPORTING)
_NO_MERGE: Final = "Merge first."


# Reasons why an action is disabled; empty: it is enabled


def _waits(session: Session) -> str:
    return WAIT if session.activity.is_running(*BUSY) else ""


def _no_model(session: Session) -> str:
    return "" if session.draft.inputs.base is not None else NO_MODEL


def _no_expert(session: Session) -> str:
    return _no_model(session) or ("" if session.draft.inputs.experts else NO_EXPERT)


def _not_loaded(session: Session) -> str:
    return _no_model(session) or _waits(session)


def _cannot_merge(session: Session) -> str:
    return session.merge_obstacle


def _cannot_compare(session: Session) -> str:
    plan = session.draft.plan
    return "" if plan is not None and plan.experts else _no_expert(session) or STILL_READ


def _cannot_export(session: Session) -> str:
    return "" if session.can_export else _waits(session) or _NO_MERGE


def _cannot_report(session: Session) -> str:
    written = "" if session.can_report else "A report is being written."
    return _cannot_export(session) or written


def _nothing_runs(session: Session) -> str:
    return "" if session.activity.foremost is not None else "Nothing is running."


def _nothing_opens(session: Session) -> str:
    return "" if session.activity.is_running(State.PLANNING) else "Nothing is being opened."


def _starting(session: Session) -> str:
    return "" if session.engine is not None else "The engine is still starting."


@dataclass(frozen=True)
class _Declared:
    text: str
    tip: str
    why: Callable[[Session], str] | None
    key: str | _Key | None
    picture: str

    def make(self, window: QWidget) -> QAction:
        action = QAction(self.text, window)
        action.setToolTip(self.tip)
        action.setIconText(self.text.replace("&", ""))
        if self.key is not None:
            action.setShortcut(QKeySequence(self.key))
        if self.picture:
            action.setIcon(icon(self.picture))
        window.addAction(action)
        return action


def _action(
    text: str,
    tip: str,
    why: Callable[[Session], str] | None = None,
    key: str | _Key | None = None,
    picture: str = "",
) -> QAction:
    """Declare an action. ``why`` returns the reason why it is disabled; None: it always works, or
    others enable it."""
    return cast(QAction, _Declared(text, tip, why, key, picture))


class Actions:
    """The window's actions. The window connects them."""

    open_base = _action(
        "Open &base model…", "Choose the folder of the base model", _waits, "Ctrl+O", "open"
    )
    add_experts = _action(
        "Add &experts…",
        "Choose fine-tuned models: folders, files, or a folder that contains them",
        _not_loaded,
        "Ctrl+E",
        "add",
    )
    open_cached = _action(
        "From the &Hugging Face cache…",
        "Choose models that were downloaded before; nothing is downloaded now",
        _waits,
    )
    open_recipe = _action("Open &recipe…", "Choose a recipe (.yaml)", _waits, "Ctrl+Shift+O")
    scan = _action("Sca&n a folder…", "Search a folder and its subfolders for models", _waits)
    reopen = _action("Reopen &last session", "Open what the last session had open")
    save_recipe = _action("&Save", "Save models and settings as a recipe", _no_expert, _Key.Save)
    save_recipe_as = _action(
        "Save &as…", "Save as another recipe, or as one for mergekit", _no_expert, "Ctrl+Shift+S"
    )
    sample = _action("Tr&y the sample", "Open a small trained model with its experts", _waits)
    stop_opening = _action(
        "Stop openin&g", "Cancel opening and keep what is loaded", _nothing_opens, "Esc"
    )
    close_models = _action("&Close models", "Unload everything", _not_loaded, "Ctrl+W")
    quit = _action("&Quit", "Close the window", key=_Key.Quit)
    undo = _action("&Undo", "Undo the last change", key=_Key.Undo)
    redo = _action("&Redo", "Redo the last undone change", key=_Key.Redo)
    preferences = _action(
        "&Preferences…", "Device, threads, folders, appearance, messages", key="Ctrl+,"
    )
    clean_up = _action("&Clean up kept merges…", "Choose which kept merges to delete from disk")
    merge = _action(
        "&Merge", "Merge the experts into the base", _cannot_merge, "Ctrl+Return", "merge"
    )
    cancel = _action("&Cancel", "Stop the running work", _nothing_runs, "Ctrl+.", "cancel")
    choose_method = _action(
        "Me&thod…", "Choose the merge method, and read what it does", _starting, "Ctrl+M"
    )
    compare = _action(
        "C&ompare methods…",
        "Merge with several methods or values, and compare the results in a table",
        _cannot_compare,
        "Ctrl+Shift+M",
    )
    export = _action(
        "E&xport…", "Write the merged model as a folder", _cannot_export, "Ctrl+Shift+E", "export"
    )
    report = _action(
        "Re&port…", "Write a report of the merge as one HTML file", _cannot_report, "Ctrl+Shift+R"
    )
    find = _action("&Find layer", "Filter the layers by name", _no_model, _Key.Find)
    next_layer = _action("&Next layer", "Select the next layer", _no_model, "Alt+Down")
    previous_layer = _action("&Previous layer", "Select the layer before", _no_model, "Alt+Up")
    top_layer = _action(
        "&Most heterogeneous layer", "Select the layer with the largest γ", _no_model, "Ctrl+G"
    )
    inputs = _action("Show &inputs", "Show or hide models and method", _no_model, "Ctrl+B")
    maximise = _action(
        "Ma&ximise panel", "Show only the focused panel, or all again", _no_model, "F11"
    )
    detach = _action(
        "Panel in its &own window",
        "Move the focused panel to its own window, or back",
        _no_model,
        "Shift+F11",
    )
    reset_layout = _action("&Reset layout", "Restore the initial layout", _no_model)
    palette = _action("&Commands…", "Find any command by its name", key="Ctrl+K")
    help = _action(
        "&Help pages",
        "Start, recipes, methods, limits; or the glossary term of the focused control",
        key=_Key.HelpContents,
    )
    tutorial = _action("&Tutorial", "From the sample to a merged model, step by step in the window")
    glossary = _action("&Glossary", "What γ, τ, ε, regime and the other terms mean")
    shortcuts = _action("&Keyboard shortcuts", "All keyboard shortcuts", key="Ctrl+F1")
    log = _action("&Log", "Messages of the engine and the window", key="Ctrl+Shift+L")
    diagnostics = _action(
        "Copy &diagnostics", "Copy versions, device, memory and platform; nothing about your models"
    )
    problem = _action(
        "&Report a problem…", "Collect information about a problem as text; nothing is sent"
    )
    about = _action("&About", "Version and licence")

    def __init__(self, window: QWidget, steps: QUndoStack) -> None:
        self._declared = {k: v for k, v in vars(Actions).items() if isinstance(v, _Declared)}
        for name, declared in self._declared.items():
            setattr(self, name, declared.make(window))
        self.inputs.setCheckable(True)
        self.inputs.setChecked(True)
        self.schemes = QActionGroup(window)
        for scheme, text in (("system", "Same as &system"), ("light", "&Light"), ("dark", "&Dark")):
            action = self.schemes.addAction(text)
            action.setCheckable(True)
            action.setData(scheme)
            action.setToolTip(f"Colours: {text.replace('&', '').lower()}")
        self._follow_steps(self.undo, steps.undo, steps.canUndoChanged, steps.undoTextChanged)
        self._follow_steps(self.redo, steps.redo, steps.canRedoChanged, steps.redoTextChanged)

    def _follow_steps(
        self, action: QAction, go: Callable[[], object], possible: Any, named: Any
    ) -> None:
        """Name the step in the text: ``Undo change of τ``."""
        verb = action.text()
        none = f"There is nothing to {verb.replace('&', '').lower()}."
        set_allowed(action, none)
        possible.connect(lambda can: set_allowed(action, "" if can else none))
        named.connect(lambda step: action.setText(f"{verb} {step}".strip()))
        self.connect(action, go)

    def connect(self, action: QAction, slot: Callable[[], object]) -> None:
        """Call ``slot``, without the checked flag, when the action is triggered."""
        action.triggered.connect(lambda _=False: slot())

    def update(self, session: Session, merge: MergeOperation) -> None:
        """Enable what the session's state permits, with reasons for the rest."""
        for name, declared in self._declared.items():
            if declared.why is not None:
                set_allowed(getattr(self, name), declared.why(session))
        done = session.merge_is_current and session.results.is_merged
        goes_on = not _not_loaded(session) and not done and merge.can_continue
        self.merge.setText("Continue &merge" if goes_on else "&Merge")


def set_allowed(action: QAction, why: str) -> None:
    """Enable an action, or disable it with a reason in its tooltip and its ``WHY`` property."""
    if action.property(WHY) != why:
        tip = action.toolTip().removesuffix(f"\n{action.property(WHY)}")
        action.setProperty(WHY, why)
        action.setToolTip(f"{tip}\n{why}" if why else tip)
    action.setEnabled(not why)
