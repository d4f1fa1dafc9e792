"""The menus, built from the actions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import QInputDialog, QMainWindow, QMenu, QMenuBar

from ace_gui.engine.contract.events import DeviceInfo
from ace_gui.formatting import counted, human_bytes
from ace_gui.gui.shell.actions import Actions
from ace_gui.gui.shell.window_dialogs import show_once
from ace_gui.gui.state.session import CLUSTER
from ace_gui.gui.text import plain, short_name, tooltip

GIGABYTE: Final = 1_000_000_000

Entry = QAction | QMenu | None

_GIGABYTES: Final = (1, 2, 4, 8, 16, 32, 64, 128)
_FREE, _OTHER = "free", "other"
_LIMIT_TIP: Final = "If one tensor needs more, the checks report it before the merge."
SAFETY: Final = (
    "Anyone who can reach a Ray cluster can run programs in it: keep it in a closed "
    "network. Workers on this machine cannot be reached from outside."
)


class ChoiceMenu(QMenu):
    """A menu with exactly one checked entry. ``chosen`` carries its name."""

    chosen = Signal(str)

    def __init__(self, title: str, window: QMainWindow) -> None:
        super().__init__(title, window)
        self._group = QActionGroup(self)
        self.setToolTipsVisible(True)

    def fill(self, entries: Sequence[tuple[str, str, str]]) -> None:
        """Set the entries, each with name, title and explanation."""
        self.clear()
        for action in self._group.actions():
            self._group.removeAction(action)
        for entry in entries:
            self.add_choice(self, *entry)

    def add_choice(self, menu: QMenu, name: str, title: str, explanation: str) -> None:
        action = menu.addAction(title)
        action.setData(name)
        action.setCheckable(True)
        action.setToolTip(tooltip(explanation))
        action.triggered.connect(lambda: self.chosen.emit(name))
        self._group.addAction(action)

    @property
    def title_chosen(self) -> str:
        """The title of the checked entry, or an empty string."""
        action = self._group.checkedAction()
        return "" if action is None else action.text()

    def choose(self, name: str) -> str:
        """Check an entry without a signal, and return its title, or the name if there is no such
        entry."""
        for action in self._group.actions():
            if action.data() == name:
                action.setChecked(True)
                return action.text()
        return name


class DeviceMenu(ChoiceMenu):
    """Device menu.

    ``chosen`` carries the argument of ``Session.choose_device``. ``explained`` carries an
    explanation that the user asked for.
    """

    explained = Signal(str)

    def __init__(self, window: QMainWindow) -> None:
        super().__init__("&Device", window)
        self._window = window
        self._clusters = QMenu("Workers of a &cluster", self)
        self._clusters.setToolTipsVisible(True)
        self._chosen = "auto"

    def offer(
        self,
        devices: Sequence[DeviceInfo],
        chosen: str,
        not_used: Sequence[str] = (),
        threads: int = 0,
    ) -> None:
        """Offer the engine's devices, with an entry that explains why others are missing.

        ``threads`` is the engine's thread count; that many workers are offered, but at least two.
        """
        self._chosen = chosen
        names = {device.name for device in devices}
        automatic = ("auto", "Automatic", "The fastest available device")
        entries = [] if "auto" in names else [automatic]
        self.fill([*entries, *((each.name, each.title, each.title) for each in devices)])
        if threads:
            self._offer_clusters(max(2, threads))
        if not_used:
            self.addSeparator()
            title = "&Why no GPU?" if len(devices) == 1 else "&Why not every GPU?"
            why = self.addAction(title)
            why.setToolTip(tooltip("\n".join(not_used)))
            why.triggered.connect(lambda: self.explained.emit(" ".join(not_used)))
        self.choose(chosen)

    def _offer_clusters(self, workers: int) -> None:
        here = counted(workers, "worker on this machine", "workers on this machine")
        known = {f"{CLUSTER}local:{workers}": here, f"{CLUSTER}auto": "This machine's cluster"}
        if self._chosen.startswith(CLUSTER):
            known.setdefault(self._chosen, self._chosen.removeprefix(CLUSTER))
        self._clusters.clear()
        for name, title in known.items():
            self.add_choice(self._clusters, name, title, SAFETY)
        other = self._clusters.addAction("&Address…")
        other.setToolTip(tooltip(SAFETY))
        other.triggered.connect(self._ask)
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


class MemoryMenu(ChoiceMenu):
    """The memory limit of a merge. ``limited`` carries bytes, or None for all free memory."""

    limited = Signal(object)

    def __init__(self, window: QMainWindow) -> None:
        super().__init__("Memor&y for merging", window)
        self._window = window
        self._total = 0
        self._limit: int | None = None
        self.chosen.connect(self._take)

    def offer(self, total: int, limit: int | None) -> None:
        """Offer limits for a machine with ``total`` bytes of memory, and the current limit."""
        self._total, self._limit = total, limit
        sizes = {count * GIGABYTE for count in _GIGABYTES if count * GIGABYTE < total}
        sizes |= {limit} if limit else set()
        entries = [(_FREE, "All &free memory", "A merge that needs more does not start.")]
        entries += [(str(size), human_bytes(size), _LIMIT_TIP) for size in sorted(sizes)]
        self.fill([*entries, (_OTHER, "&Other…", _LIMIT_TIP)])
        self.setEnabled(total > 0)
        self.choose(str(limit) if limit else _FREE)

    def _take(self, name: str) -> None:
        if name == _OTHER:
            self.choose(str(self._limit) if self._limit else _FREE)
            self._ask()
        else:
            self.limited.emit(None if name == _FREE else int(name))

    def _ask(self) -> None:
        dialog = QInputDialog(self._window)
        dialog.setWindowTitle("Memory for merging")
        dialog.setLabelText("Memory that a merge may use, in GB:")
        dialog.setInputMode(QInputDialog.InputMode.DoubleInput)
        dialog.setDoubleRange(0.1, self._total / GIGABYTE)
        dialog.setDoubleDecimals(1)
        dialog.setDoubleValue((self._limit or self._total / 2) / GIGABYTE)
        dialog.doubleValueSelected.connect(lambda count: self.limited.emit(round(count * GIGABYTE)))
        show_once(dialog)


class Menus(QObject):
    """The menu bar's menus.

    ``recent_chosen`` carries a path.
    """

    recent_chosen = Signal(object)

    def __init__(self, window: QMainWindow, bar: QMenuBar, a: Actions) -> None:
        super().__init__(window)
        self.devices = DeviceMenu(window)
        self.memory = MemoryMenu(window)
        self.recent = QMenu("&Open recent", window)
        self.recent.setEnabled(False)
        colours = _menu(window, "&Colours", a.schemes.actions())
        opening = [a.open_base, a.add_experts, a.open_cached, a.scan]
        known: list[Entry] = [a.open_recipe, self.recent, a.reopen, a.sample]
        written = [a.save_recipe, a.save_recipe_as, None, a.export, a.report]
        leaving = [a.stop_opening, a.close_models, a.quit]
        limits = [self.devices, self.memory]
        layers = [a.find, a.next_layer, a.previous_layer, a.top_layer]
        panels: list[Entry] = [a.inputs, a.maximise, a.detach, colours, a.reset_layout]
        pages = [a.tutorial, a.help, a.glossary, a.shortcuts, a.sample]
        menus: dict[str, list[Entry]] = {
            "&File": [*opening, None, *known, None, *written, None, *leaving],
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
