"""The window's actions, each defined once for the menus, the header and the keyboard, and when they
are enabled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from PySide6.QtGui import QAction, QActionGroup, QKeySequence, QUndoStack
from PySide6.QtWidgets import QWidget

from ace_gui.gui.control.operations.merge_operation import MergeOperation
from ace_gui.gui.state.activity import State
from ace_gui.gui.state.session import Session
from ace_gui.gui.theme import icon

_Key = QKeySequence.StandardKey
WHY: Final = "why"
"""The action property that holds the reason why it is disabled."""
BUSY = (State.MERGING, State.EXPORTING)
_CANCELLABLE = (
    State.PLANNING,
    State.ANALYSING,
    State.REPORTING,
    State.SCORING,
    State.COMPARING,
    State.TUNING,
)
NO_MODEL: Final = "Open a base model first."
NO_EXPERT: Final = "Add an expert first."
NO_MERGE: Final = "Merge first."
WAIT: Final = "Wait for the merge or the export to end, or cancel it."
_PLANNING: Final = "The models are still being read."


class Actions:
    """The window's actions as attributes. The window connects and enables them."""

    def __init__(self, window: QWidget, steps: QUndoStack) -> None:
        self._window = window
        self._add_models()
        self._add_editing(steps)
        self._add_merging()
        self._add_view()
        self._add_help()

    def _add_models(self) -> None:
        make = self._make
        self.open_base = make(
            "Open &base model…",
            "Choose the folder of the base model",
            key="Ctrl+O",
            picture="open",
        )
        self.add_experts = make(
            "Add &experts…",
            "Choose fine-tuned models: folders, files, or a folder that contains them",
            key="Ctrl+E",
            picture="add",
        )
        self.open_cached = make(
            "From the &Hugging Face cache…",
            "Choose models that were downloaded before; nothing is downloaded now",
        )
        self.open_recipe = make("Open &recipe…", "Choose a recipe (.yaml)", key="Ctrl+Shift+O")
        self.scan = make("S&can a folder…", "Search a folder and its subfolders for models")
        self.reopen = make("Reopen &last session", "Open what the last session had open")
        self.save_recipe = make("&Save", "Save models and settings as a recipe", key=_Key.Save)
        self.save_recipe_as = make(
            "Save &as…",
            "Save as another recipe, or as one for mergekit",
            key="Ctrl+Shift+S",
        )
        self.sample = make("&Try the sample", "Open a small trained model with its experts")
        self.stop_opening = make(
            "S&top opening",
            "Cancel opening and keep what is loaded",
            key="Esc",
        )
        self.close_models = make("&Close models", "Unload everything", key="Ctrl+W")
        self.quit = make("&Quit", "Close the window", key=_Key.Quit)

    def _add_editing(self, steps: QUndoStack) -> None:
        self.undo = self._make("&Undo", "Undo the last change", key=_Key.Undo)
        self.redo = self._make("&Redo", "Redo the last undone change", key=_Key.Redo)
        undoing = "There is nothing to undo.", steps.canUndo, steps.canUndoChanged
        redoing = "There is nothing to redo.", steps.canRedo, steps.canRedoChanged
        for action, (why, can, changed), named in (
            (self.undo, undoing, steps.undoTextChanged),
            (self.redo, redoing, steps.redoTextChanged),
        ):
            set_allowed(action, "" if can() else why)
            changed.connect(lambda on, a=action, why=why: set_allowed(a, "" if on else why))
            named.connect(partial(_name_step, action, action.text()))
        self.connect(self.undo, steps.undo)
        self.connect(self.redo, steps.redo)
        self.preferences = self._make(
            "&Preferences…", "Device, threads, folders, appearance, messages", key="Ctrl+,"
        )
        self.clean_up = self._make(
            "&Clean up kept merges…", "Choose which kept merges to delete from disk"
        )

    def _add_merging(self) -> None:
        make = self._make
        self.merge = make(
            "&Merge", "Merge the experts into the base", key="Ctrl+Return", picture="merge"
        )
        self.cancel = make("&Cancel", "Stop the running work", key="Ctrl+.", picture="cancel")
        self.choose_method = make(
            "&Method…", "Choose the merge method, and read what it does", key="Ctrl+M"
        )
        self.compare = make(
            "C&ompare methods…",
            "Merge with several methods or values, and compare the results in a table",
            key="Ctrl+Shift+M",
        )
        self.export = make(
            "&Export…",
            "Write the merged model as a folder",
            key="Ctrl+Shift+E",
            picture="export",
        )
        self.report = make(
            "&Report…", "Write a report of the merge as one HTML file", key="Ctrl+Shift+R"
        )

    def _add_view(self) -> None:
        make = self._make
        self.find = make("&Find layer", "Filter the layers by name", key=_Key.Find)
        self.next_layer = make("&Next layer", "Select the next layer", key="Alt+Down")
        self.previous_layer = make("&Previous layer", "Select the layer before", key="Alt+Up")
        self.top_layer = make(
            "&Most heterogeneous layer", "Select the layer with the largest γ", key="Ctrl+G"
        )
        self.inputs = make("Show &inputs", "Show or hide models and method", key="Ctrl+B")
        self.inputs.setCheckable(True)
        self.inputs.setChecked(True)
        self.maximise = make(
            "Ma&ximise panel",
            "Show only the focused panel, or all again",
            key="F11",
        )
        self.detach = make(
            "Panel in its &own window",
            "Move the focused panel to its own window, or back",
            key="Shift+F11",
        )
        self.reset_layout = make("&Reset layout", "Restore the initial layout")
        self.schemes = self._make_schemes()

    def _add_help(self) -> None:
        make = self._make
        self.palette = make("&Commands…", "Find any command by its name", key="Ctrl+K")
        self.help = make(
            "&Help pages",
            "Start, recipes, methods, limits; or the glossary term of the focused control",
            key=_Key.HelpContents,
        )
        self.tutorial = make(
            "&Tutorial", "From the sample to a merged model, step by step in the window"
        )
        self.glossary = make("&Glossary", "What γ, τ, ε, regime and the other terms mean")
        self.shortcuts = make("&Keyboard shortcuts", "All keyboard shortcuts", key="Ctrl+F1")
        self.log = make("&Log", "Messages of the engine and the window", key="Ctrl+Shift+L")
        self.diagnostics = make(
            "Copy &diagnostics",
            "Copy versions, device, memory and platform; nothing about your models",
        )
        self.problem = make(
            "&Report a problem…",
            "Collect information about a problem as text; nothing is sent",
        )
        self.about = make("&About", "Version and licence")

    def _make(
        self, text: str, tip: str, *, key: str | _Key | None = None, picture: str = ""
    ) -> QAction:
        action = QAction(text, self._window)
        action.setToolTip(tip)
        if key is not None:
            action.setShortcut(QKeySequence(key))
        if picture:
            action.setIcon(icon(picture))
        action.setIconText(text.replace("&", ""))
        self._window.addAction(action)
        return action

    def _make_schemes(self) -> QActionGroup:
        group = QActionGroup(self._window)
        for scheme, text, tip in (
            ("system", "Same as &system", "Colours: same as the system"),
            ("light", "&Light", "Colours: light"),
            ("dark", "&Dark", "Colours: dark"),
        ):
            action = group.addAction(text)
            action.setCheckable(True)
            action.setData(scheme)
            action.setToolTip(tip)
        return group

    def connect(self, action: QAction, slot: Callable[[], object]) -> None:
        """Call ``slot``, without the checked flag, when the action is triggered."""
        action.triggered.connect(lambda _=False: slot())


def set_allowed(action: QAction, why: str) -> None:
    """Enable an action, or disable it with a reason in its tooltip and its ``WHY`` property."""
    if action.property(WHY) != why:
        tip = action.toolTip().removesuffix(f"\n{action.property(WHY)}")
        action.setProperty(WHY, why)
        action.setToolTip(f"{tip}\n{why}" if why else tip)
    action.setEnabled(not why)


def _name_step(action: QAction, word: str, step: str) -> None:
    """``Undo change of τ``."""
    action.setText(f"{word} {step}".strip())


def allow(a: Actions, session: Session, merge: MergeOperation) -> None:
    """Update the actions to match the session."""
    running = session.activity.is_running
    busy = running(*BUSY)
    inputs, plan = session.draft.inputs, session.draft.plan
    loaded = inputs.base is not None
    waits = WAIT if busy else ""
    no_model = "" if loaded else NO_MODEL
    no_expert = no_model or ("" if inputs.experts else NO_EXPERT)
    for action in (a.open_base, a.open_cached, a.open_recipe, a.scan, a.sample):
        set_allowed(action, waits)
    for action in (a.add_experts, a.close_models):
        set_allowed(action, no_model or waits)
    looks = (
        a.find,
        a.next_layer,
        a.previous_layer,
        a.top_layer,
        a.inputs,
        a.maximise,
        a.detach,
        a.reset_layout,
    )
    for action in looks:
        set_allowed(action, no_model)
    set_allowed(a.stop_opening, "" if running(State.PLANNING) else "Nothing is being opened.")
    for action in (a.save_recipe, a.save_recipe_as):
        set_allowed(action, no_expert)
    set_allowed(a.merge, "" if session.can_merge else no_expert or waits or _PLANNING)
    done = session.merge_is_current and session.results.is_merged
    goes_on = loaded and not busy and not done and merge.can_continue
    a.merge.setText("Continue &merge" if goes_on else "&Merge")
    comparable = plan is not None and bool(plan.experts)
    set_allowed(a.compare, "" if comparable else no_expert or _PLANNING)
    set_allowed(a.cancel, "" if busy or running(*_CANCELLABLE) else "Nothing is running.")
    set_allowed(a.export, "" if session.can_export else waits or NO_MERGE)
    written = "A report is being written." if session.can_export else waits or NO_MERGE
    set_allowed(a.report, "" if session.can_report else written)
    starting = "The engine is still starting."
    set_allowed(a.choose_method, "" if session.engine is not None else starting)
