"""The window's actions, and the menus that are built from them. Each action is declared once, with
when it is enabled, for the menus, the header and the keyboard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAction, QActionGroup, QKeySequence, QUndoStack
from PySide6.QtWidgets import QInputDialog, QMainWindow, QMenu, QMenuBar, QWidget

from ace_gui.engine.contract.events import DeviceInfo
from ace_gui.formatting import counted
from ace_gui.gui.control.merge_operation import MergeOperation
from ace_gui.gui.state.activity import ActivityState
from ace_gui.gui.state.session import CLUSTER, NO_EXPERT, NO_MODEL, STILL_READ, WAIT, Session
from ace_gui.gui.text import plain, short_name, tooltip
from ace_gui.gui.theme import icon
from ace_gui.gui.widgets.file_dialogs import show_once

_Key = QKeySequence.StandardKey
WHY: Final = "why"
"""The property of an action with the reason why it is disabled."""
_NO_MERGE: Final = "Merge first."


# The reason why an action is disabled, or "" if it is enabled


def _waits(session: Session) -> str:
    return WAIT if session.activity.is_writing else ""


def _no_model(session: Session) -> str:
    return "" if session.draft.inputs.base is not None else NO_MODEL


def _no_expert(session: Session) -> str:
    return _no_model(session) or ("" if session.draft.inputs.experts else NO_EXPERT)


def _not_loaded(session: Session) -> str:
    return _no_model(session) or _waits(session)


def _cannot_compare(session: Session) -> str:
    plan = session.draft.plan
    return "" if plan is not None and plan.experts else _no_expert(session) or STILL_READ


def _cannot_export(session: Session) -> str:
    return "" if session.can_export else _waits(session) or _NO_MERGE


def _cannot_report(session: Session) -> str:
    if session.can_report:
        written = ""
    else:
        written = "A report is being written."
    return _cannot_export(session) or written


def _nothing_runs(session: Session) -> str:
    return "" if session.activity.foremost is not None else "Nothing is running."


def _nothing_opens(session: Session) -> str:
    return "" if session.activity.is_running(ActivityState.PLANNING) else "Nothing is being opened."


def _starting(session: Session) -> str:
    return "" if session.engine is not None else "The engine is still starting."


@dataclass(frozen=True)
class _Action:
    """A declared action. ``why``: returns the reason why it is disabled, None if it always works or
    is enabled elsewhere."""

    text: str
    tip: str
    why: Callable[[Session], str] | None = None
    key: str | _Key | None = None
    picture: str = ""

    def __get__(self, actions: Actions, _: type[Actions]) -> QAction:
        return actions.made[self]

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


class Actions:
    """The window's actions, which the window connects."""

    open_base = _Action(
        "Open &base model…", "Choose the folder of the base model", _waits, "Ctrl+O", "open"
    )
    add_experts = _Action(
        "Add &experts…",
        "Choose fine-tuned models: folders, files, or a folder that contains them",
        _not_loaded,
        "Ctrl+E",
        "add",
    )
    open_cached = _Action(
        "From the &Hugging Face cache…",
        "Choose models that were downloaded before; nothing is downloaded now",
        _waits,
    )
    open_recipe = _Action("Open &recipe…", "Choose a recipe (.yaml)", _waits, "Ctrl+Shift+O")
    scan = _Action("Sca&n a folder…", "Search a folder and its subfolders for models", _waits)
    reopen = _Action("Reopen &last session", "Open what the last session had open")
    save_recipe = _Action("&Save", "Save models and settings as a recipe", _no_expert, _Key.Save)
    save_recipe_as = _Action(
        "Save &as file…",
        "Write the recipe for others, or for mergekit",
        _no_expert,
        "Ctrl+Shift+S",
    )
    sample = _Action("Tr&y the sample", "Open a small trained model with its experts", _waits)
    stop_opening = _Action(
        "Stop openin&g", "Cancel opening and keep what is loaded", _nothing_opens, "Esc"
    )
    close_models = _Action("&Close models", "Unload everything", _not_loaded, "Ctrl+W")
    quit = _Action("&Quit", "Close the window", key=_Key.Quit)
    undo = _Action("&Undo", "Undo the last change", key=_Key.Undo)
    redo = _Action("&Redo", "Redo the last undone change", key=_Key.Redo)
    preferences = _Action(
        "&Preferences…", "Device, threads, folders, appearance, messages", key="Ctrl+,"
    )
    memory = _Action("Memor&y for merging…", "How much memory a merge may use")
    clean_up = _Action("&Clean up runs…", "Choose which finished merges to delete from disk")
    merge = _Action(
        "&Merge",
        "Merge the experts into the base",
        lambda s: s.merge_obstacle,
        "Ctrl+Return",
        "merge",
    )
    cancel = _Action("&Cancel", "Stop the running work", _nothing_runs, "Ctrl+.", "cancel")
    choose_method = _Action(
        "Me&thod…", "Choose the merge method, and read what it does", _starting, "Ctrl+M"
    )
    compare = _Action(
        "C&ompare methods…",
        "Merge with several methods or values, and compare the results in a table",
        _cannot_compare,
        "Ctrl+Shift+M",
    )
    export = _Action(
        "E&xport…", "Write the merged model as a folder", _cannot_export, "Ctrl+Shift+E", "export"
    )
    report = _Action(
        "Re&port…", "Write a report of the merge as one HTML file", _cannot_report, "Ctrl+Shift+R"
    )
    find = _Action("&Find layer", "Filter the layers by name", _no_model, _Key.Find)
    next_layer = _Action("&Next layer", "Select the next layer", _no_model, "Alt+Down")
    previous_layer = _Action("&Previous layer", "Select the layer before", _no_model, "Alt+Up")
    top_layer = _Action(
        "&Most heterogeneous layer", "Select the layer with the largest γ", _no_model, "Ctrl+G"
    )
    inputs = _Action("Show &inputs", "Show or hide models and method", _no_model, "Ctrl+B")
    maximise = _Action(
        "Ma&ximise panel", "Show only the focused panel, or all again", _no_model, "F11"
    )
    detach = _Action(
        "Panel in its &own window",
        "Move the focused panel to its own window, or back",
        _no_model,
        "Shift+F11",
    )
    reset_layout = _Action("&Reset layout", "Restore the initial layout", _no_model)
    palette = _Action("&Commands…", "Find any command by its name", key="Ctrl+K")
    help = _Action(
        "&Help pages",
        "Start, recipes, methods, limits; or the glossary term of the focused control",
        key=_Key.HelpContents,
    )
    tutorial = _Action("&Tutorial", "From the sample to a merged model, step by step in the window")
    glossary = _Action("&Glossary", "What γ, τ, ε, regime and the other terms mean")
    shortcuts = _Action("&Keyboard shortcuts", "All keyboard shortcuts", key="Ctrl+F1")
    log = _Action("&Log", "Messages of the engine and the window", key="Ctrl+Shift+L")
    diagnostics = _Action(
        "Copy &diagnostics", "Copy versions, device, memory and platform; nothing about your models"
    )
    problem = _Action(
        "&Report a problem…", "Collect information about a problem as text; nothing is sent"
    )
    about = _Action("&About", "Version and licence")

    def __init__(self, window: QWidget, steps: QUndoStack) -> None:
        declared = (entry for entry in vars(Actions).values() if isinstance(entry, _Action))
        self.made = {entry: entry.make(window) for entry in declared}
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
        """Name the step in the text of undo and redo: ``Undo change of τ``."""
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
        """Enable the actions that the session's state allows; disable the others with reasons."""
        for declared, action in self.made.items():
            if declared.why is not None:
                set_allowed(action, declared.why(session))
        is_merged = session.merge_is_current and session.results.is_merged
        goes_on = not _not_loaded(session) and not is_merged and merge.can_continue
        self.merge.setText("Continue &merge" if goes_on else "&Merge")


def set_allowed(action: QAction, why: str) -> None:
    """Enable an action, or disable it with a reason in its tooltip and its ``WHY`` property."""
    if action.property(WHY) != why:
        tip = action.toolTip().removesuffix(f"\n{action.property(WHY)}")
        action.setProperty(WHY, why)
        action.setToolTip(f"{tip}\n{why}" if why else tip)
    action.setEnabled(not why)


Entry = QAction | QMenu | None

SAFETY: Final = (
    "Anyone who can reach a Ray cluster can run programs in it: keep it in a closed "
    "network. Workers on this machine cannot be reached from outside."
)


class DeviceMenu(QMenu):
    """The device menu, with exactly one checked entry.

    ``chosen`` carries the argument of ``Session.choose_device``. ``explained`` carries an
    explanation that the user has asked for.
    """

    chosen = Signal(str)
    explained = Signal(str)

    def __init__(self, window: QMainWindow) -> None:
        super().__init__("&Device", window)
        self._window = window
        self._group = QActionGroup(self)
        self._clusters = QMenu("Workers of a &cluster", self)
        for menu in (self, self._clusters):
            menu.setToolTipsVisible(True)
        self._chosen = "auto"

    @property
    def title_chosen(self) -> str:
        """The title of the checked entry, or an empty string."""
        action = self._group.checkedAction()
        return "" if action is None else action.text()

    def offer(
        self,
        devices: Sequence[DeviceInfo],
        chosen: str,
        not_used: Sequence[str] = (),
        threads: int = 0,
    ) -> None:
        """Offer the engine's devices, with an entry that explains why others are missing.

        ``threads``: of the engine. The menu offers so many workers, but at least two.
        """
        self._chosen = chosen
        self.clear()
        for action in self._group.actions():
            self._group.removeAction(action)
        if "auto" not in {device.name for device in devices}:
            self._add(self, "auto", "Automatic", "The fastest available device")
        for listed_device in devices:
            self._add(self, listed_device.name, listed_device.title, listed_device.title)
        if threads:
            self._offer_clusters(max(2, threads))
        if not_used:
            self.addSeparator()
            if len(devices) == 1:
                title = "&Why no GPU?"
            else:
                title = "&Why not every GPU?"
            why = self.addAction(title)
            why.setToolTip(tooltip("\n".join(not_used)))
            why.triggered.connect(lambda: self.explained.emit(" ".join(not_used)))

    def _add(self, menu: QMenu, name: str, title: str, explanation: str) -> None:
        action = menu.addAction(title)
        action.setCheckable(True)
        action.setChecked(name == self._chosen)
        action.setToolTip(tooltip(explanation))
        action.triggered.connect(lambda: self.chosen.emit(name))
        self._group.addAction(action)

    def _offer_clusters(self, workers: int) -> None:
        local = counted(workers, "worker on this machine", "workers on this machine")
        clusters = {f"{CLUSTER}local:{workers}": local, f"{CLUSTER}auto": "This machine's cluster"}
        if self._chosen.startswith(CLUSTER):
            clusters.setdefault(self._chosen, self._chosen.removeprefix(CLUSTER))
        self._clusters.clear()
        for name, title in clusters.items():
            self._add(self._clusters, name, title, SAFETY)
        address = self._clusters.addAction("&Address…")
        address.setToolTip(tooltip(SAFETY))
        address.triggered.connect(self._ask)
        self.addMenu(self._clusters)

    def _ask(self) -> None:
        def take(address: str) -> None:
            if address.strip():
                self.chosen.emit(CLUSTER + address.strip())

        dialog = QInputDialog(self._window)
        dialog.setWindowTitle("Workers of a cluster")
        address = "Address of a Ray cluster (ray://HOST:PORT), or local:N for N workers here"
        dialog.setLabelText(f"{address}\n\n{tooltip(SAFETY)}")
        if self._chosen.startswith(CLUSTER):
            dialog.setTextValue(self._chosen.removeprefix(CLUSTER))
        dialog.textValueSelected.connect(take)
        show_once(dialog)


class Menus(QObject):
    """The menu bar's menus.

    ``recent_chosen`` carries a path.
    """

    recent_chosen = Signal(object)

    def __init__(self, window: QMainWindow, bar: QMenuBar, a: Actions) -> None:
        super().__init__(window)
        self.devices = DeviceMenu(window)
        self.recent = QMenu("&Open recent", window)
        self.recent.setEnabled(False)
        colours = _menu(window, "&Colours", a.schemes.actions())
        opening = [a.open_base, a.add_experts, a.open_cached, a.scan]
        opening_entries: list[Entry] = [a.open_recipe, self.recent, a.reopen, a.sample]
        written = [a.save_recipe, a.save_recipe_as, None, a.export, a.report]
        leaving = [a.stop_opening, a.close_models, a.quit]
        limits: list[Entry] = [self.devices, a.memory]
        layers = [a.find, a.next_layer, a.previous_layer, a.top_layer]
        panels: list[Entry] = [a.inputs, a.maximise, a.detach, colours, a.reset_layout]
        pages = [a.tutorial, a.help, a.glossary, a.shortcuts, a.sample]
        menus: dict[str, list[Entry]] = {
            "&File": [*opening, None, *opening_entries, None, *written, None, *leaving],
            "&Edit": [a.undo, a.redo, None, a.clean_up, None, a.preferences],
            "&Merge": [a.choose_method, a.compare, None, *limits, None, a.merge, a.cancel],
            "&View": [*layers, None, *panels],
            "&Help": [
                a.palette,
                None,
                *pages,
                None,
                a.log,
                a.diagnostics,
                a.problem,
                None,
                a.about,
            ],
        }
        for title, entries in menus.items():
            bar.addMenu(_menu(window, title, entries))

    def set_recent(self, paths: Sequence[Path]) -> None:
        """Offer the recent recipes, with shortcuts from Ctrl+1."""
        self.recent.clear()
        for number, path in enumerate(paths, start=1):
            action = self.recent.addAction(plain(short_name(path)).replace("&", "&&"))
            action.setToolTip(tooltip(str(path)))
            action.setShortcut(QKeySequence(f"Ctrl+{number}"))
            action.triggered.connect(lambda _=False, path=path: self.recent_chosen.emit(path))
        self.recent.setEnabled(bool(paths))


def _menu(window: QMainWindow, title: str, entries: Sequence[Entry]) -> QMenu:
    menu = QMenu(title, window)
    menu.setToolTipsVisible(False)
    for entry in entries:
        if entry is None:
            menu.addSeparator()
        elif isinstance(entry, QMenu):
            menu.addMenu(entry)
        else:
            menu.addAction(entry)
    return menu
