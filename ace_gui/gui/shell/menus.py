"""The menu bar and the toolbar, made from the actions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from PySide6.QtCore import QObject, QSize, Qt, Signal
from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import QInputDialog, QMainWindow, QMenu, QToolBar, QToolButton

from ace_gui.engine.contract.events import DeviceInfo
from ace_gui.formatting import human_bytes
from ace_gui.gui.shell.actions import Actions
from ace_gui.gui.text import plain, tooltip

GIGABYTE: Final = 1_000_000_000

Entry = QAction | QMenu | None

_GIGABYTES: Final = (1, 2, 4, 8, 16, 32, 64, 128)
_FREE, _OTHER = "free", "other"
_LIMIT_TIP: Final = "Where one tensor needs more, the checks say so before anything is merged."


class ChoiceMenu(QMenu):
    """A menu of which one entry is chosen. ``chosen`` carries its name."""

    chosen = Signal(str)

    def __init__(self, title: str, window: QMainWindow) -> None:
        super().__init__(title, window)
        self._group = QActionGroup(self)
        self.setToolTipsVisible(True)

    def fill(self, entries: Sequence[tuple[str, str, str]]) -> None:
        """Offer entries: name, title, explanation."""
        self.clear()
        for action in self._group.actions():
            self._group.removeAction(action)
        for name, title, explanation in entries:
            action = self.addAction(title)
            action.setData(name)
            action.setCheckable(True)
            action.setToolTip(tooltip(explanation))
            action.triggered.connect(lambda _=False, name=name: self.chosen.emit(name))
            self._group.addAction(action)

    def choose(self, name: str) -> str:
        """Check an entry, without a signal; its title, or the name if it is not there."""
        for action in self._group.actions():
            if action.data() == name:
                action.setChecked(True)
                return action.text()
        return name


class MemoryMenu(ChoiceMenu):
    """How much memory a merge may use. ``limited`` carries bytes; None: what is free."""

    limited = Signal(object)

    def __init__(self, window: QMainWindow) -> None:
        super().__init__("Me&mory for merging", window)
        self._window = window
        self._total = 0
        self._limit: int | None = None
        self.chosen.connect(self._take)

    def offer(self, total: int, limit: int | None) -> None:
        """Offer what fits into a machine with ``total`` bytes, and the limit there is."""
        self._total, self._limit = total, limit
        sizes = {count * GIGABYTE for count in _GIGABYTES if count * GIGABYTE < total}
        sizes |= {limit} if limit else set()
        entries = [(_FREE, "What is &free", "A merge that needs more is refused before it starts.")]
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
    """Owns the menu bar's menus and the toolbar.

    ``recent_chosen`` carries a path, ``explained`` a sentence that was asked for.
    """

    recent_chosen = Signal(object)
    explained = Signal(str)

    def __init__(self, window: QMainWindow, actions: Actions) -> None:
        super().__init__(window)
        self.actions = actions
        self.devices = ChoiceMenu("&Device", window)
        self.memory = MemoryMenu(window)
        self.recent = QMenu("Open &recent", window)
        self.recent.setEnabled(False)
        self.open = self._menu(window, "Open", self._open_entries())
        self._fill_bar(window)
        self.toolbar = QToolBar("Main", window)
        self.toolbar.setObjectName("toolbar")
        self.toolbar.setAccessibleName("Main toolbar")
        self.toolbar.setMovable(False)
        self.toolbar.setIconSize(QSize(18, 18))
        self.toolbar.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.method_button = self._opening("Method", actions.choose_method)
        self.device_button = self._drop_down("Device", self.devices, "Where to compute")
        self._fill_toolbar()
        window.addToolBar(self.toolbar)

    def show_method(self, title: str) -> None:
        """The chosen method on its button."""
        self.method_button.setText(f"Method: {title} …")

    def set_devices(
        self, devices: Sequence[DeviceInfo], chosen: str, not_used: Sequence[str] = ()
    ) -> None:
        """Offer the engine's devices, and to say why others are not among them."""
        names = {device.name for device in devices}
        auto = [] if "auto" in names else [("auto", "automatic", "The fastest device there is")]
        entries = [*auto, *((device.name, device.title, device.title) for device in devices)]
        self.devices.fill(entries)
        if not_used:
            self.devices.addSeparator()
            title = "&Why no GPU?" if len(devices) == 1 else "&Why not every GPU?"
            why = self.devices.addAction(title)
            why.setToolTip(tooltip("\n".join(not_used)))
            why.triggered.connect(lambda: self.explained.emit(" ".join(not_used)))
        self.device_button.setEnabled(bool(devices))
        self.device_button.setText(f"Device: {self.devices.choose(chosen)} ▾")

    def set_recent(self, paths: Sequence[Path]) -> None:
        """Offer what was open lately, under Ctrl+1 and so on."""
        self.recent.clear()
        for number, path in enumerate(paths, start=1):
            action = self.recent.addAction(plain(str(path)).replace("&", "&&"))
            action.setShortcut(QKeySequence(f"Ctrl+{number}"))
            action.triggered.connect(lambda _=False, path=path: self.recent_chosen.emit(path))
        self.recent.setEnabled(bool(paths))

    def _open_entries(self) -> list[Entry]:
        a = self.actions
        return [
            a.open_base,
            a.open_base_file,
            a.add_experts,
            a.add_expert_files,
            a.open_cached,
            None,
            a.open_recipe,
            self.recent,
            a.sample,
        ]

    def _fill_bar(self, window: QMainWindow) -> None:
        a, bar = self.actions, window.menuBar()
        written = (a.save_recipe, a.export, a.report)
        files = [*self._open_entries(), None, *written, None]
        files += [a.stop_opening, a.close_models, a.quit]
        bar.addMenu(self._menu(window, "&File", files))
        methods = [a.choose_method, a.compare]
        merge = [*methods, None, self.devices, self.memory, None, a.merge, a.cancel]
        bar.addMenu(self._menu(window, "&Merge", merge))
        colours = self._menu(window, "&Colours", a.schemes.actions())
        view = [a.find, a.next_layer, a.previous_layer, a.top_layer, None, colours, a.reset_layout]
        bar.addMenu(self._menu(window, "&View", view))
        bar.addMenu(self._menu(window, "&Help", [a.help, a.sample, a.about]))

    def _fill_toolbar(self) -> None:
        a, bar = self.actions, self.toolbar
        opener = self._drop_down("Open", self.open, "Open a base model, experts or a recipe")
        opener.setIcon(a.open_base.icon())
        self._opener = opener
        for group in ([opener], [self.method_button], [a.merge, a.cancel], [a.export]):
            for entry in group:
                bar.addWidget(entry) if isinstance(entry, QToolButton) else bar.addAction(entry)
            bar.addSeparator()
        bar.addWidget(self.device_button)

    def recolour(self) -> None:
        """The icon that no action carries, in the colours of the present theme."""
        self._opener.setIcon(self.actions.open_base.icon())

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

    def _opening(self, text: str, action: QAction) -> QToolButton:
        """A button for an action, that says more than its name."""
        button = self._button(text, action.toolTip())
        button.clicked.connect(action.trigger)
        action.enabledChanged.connect(button.setEnabled)
        return button

    def _drop_down(self, text: str, menu: QMenu, tip: str) -> QToolButton:
        button = self._button(f"{text} ▾", tip)
        button.setStyleSheet("QToolButton::menu-indicator { image: none; }")
        button.setMenu(menu)
        button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        return button

    def _button(self, text: str, tip: str) -> QToolButton:
        button = QToolButton(self.toolbar)
        button.setText(text)
        button.setToolTip(tip)
        button.setAccessibleName(tip)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        return button
