"""The menus, built from the actions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QInputDialog, QMainWindow, QMenu, QMenuBar

from ace_gui.formatting import human_bytes
from ace_gui.gui.shell.actions import Actions
from ace_gui.gui.shell.choice_menu import ChoiceMenu
from ace_gui.gui.shell.device_menu import DeviceMenu
from ace_gui.gui.text import plain, short_name, tooltip

GIGABYTE: Final = 1_000_000_000

Entry = QAction | QMenu | None

_GIGABYTES: Final = (1, 2, 4, 8, 16, 32, 64, 128)
_FREE, _OTHER = "free", "other"
_LIMIT_TIP: Final = "If one tensor needs more, the checks report it before the merge."


class MemoryMenu(ChoiceMenu):
    """The memory limit of a merge. ``limited`` carries bytes, or None for all free memory."""

    limited = Signal(object)

    def __init__(self, window: QMainWindow) -> None:
        super().__init__("Me&mory for merging", window)
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
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()


class Menus(QObject):
    """The menu bar's menus.

    ``recent_chosen`` carries a path.
    """

    recent_chosen = Signal(object)

    def __init__(self, window: QMainWindow, bar: QMenuBar, actions: Actions) -> None:
        super().__init__(window)
        self.actions = actions
        self.devices = DeviceMenu(window)
        self.memory = MemoryMenu(window)
        self.recent = QMenu("Open &recent", window)
        self.recent.setEnabled(False)
        self._fill_bar(window, bar)

    def set_recent(self, paths: Sequence[Path]) -> None:
        """Offer the recent recipes, with shortcuts from Ctrl+1."""
        self.recent.clear()
        for number, path in enumerate(paths, start=1):
            action = self.recent.addAction(plain(short_name(path)).replace("&", "&&"))
            action.setToolTip(tooltip(str(path)))
            action.setShortcut(QKeySequence(f"Ctrl+{number}"))
            action.triggered.connect(lambda _=False, path=path: self.recent_chosen.emit(path))
        self.recent.setEnabled(bool(paths))

    def _open_entries(self) -> list[Entry]:
        a = self.actions
        return [
            a.open_base,
            a.add_experts,
            a.open_cached,
            a.scan,
            None,
            a.open_recipe,
            self.recent,
            a.reopen,
            a.sample,
        ]

    def _fill_bar(self, window: QMainWindow, bar: QMenuBar) -> None:
        a = self.actions
        written = (a.save_recipe, a.save_recipe_as, None, a.export, a.report)
        files = [*self._open_entries(), None, *written, None]
        files += [a.stop_opening, a.close_models, a.quit]
        bar.addMenu(self._menu(window, "&File", files))
        bar.addMenu(
            self._menu(window, "&Edit", [a.undo, a.redo, None, a.clean_up, None, a.preferences])
        )
        methods = [a.choose_method, a.compare]
        merge = [*methods, None, self.devices, self.memory, None, a.merge, a.cancel]
        bar.addMenu(self._menu(window, "&Merge", merge))
        colours = self._menu(window, "&Colours", a.schemes.actions())
        layers = (a.find, a.next_layer, a.previous_layer, a.top_layer)
        view = [*layers, None, a.inputs, a.maximise, a.detach, colours, a.reset_layout]
        bar.addMenu(self._menu(window, "&View", view))
        pages = [a.palette, None, a.tutorial, a.help, a.glossary, a.shortcuts, a.sample]
        wrong = [a.log, a.diagnostics, a.problem]
        bar.addMenu(self._menu(window, "&Help", [*pages, None, *wrong, None, a.about]))

    def _menu(self, window: QMainWindow, title: str, entries: Sequence[Entry]) -> QMenu:
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
