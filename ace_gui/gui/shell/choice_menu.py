"""A menu of which one entry is chosen."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtGui import QActionGroup
from PySide6.QtWidgets import QMainWindow, QMenu

from ace_gui.gui.text import tooltip


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
        for entry in entries:
            self.add_choice(self, *entry)

    def add_choice(self, menu: QMenu, name: str, title: str, explanation: str) -> None:
        """Offer one entry more, in this menu or in one below it."""
        action = menu.addAction(title)
        action.setData(name)
        action.setCheckable(True)
        action.setToolTip(tooltip(explanation))
        action.triggered.connect(lambda: self.chosen.emit(name))
        self._group.addAction(action)

    @property
    def title_chosen(self) -> str:
        """Of the entry that is checked; empty where none is."""
        action = self._group.checkedAction()
        return "" if action is None else action.text()

    def choose(self, name: str) -> str:
        """Check an entry, without a signal; its title, or the name if it is not there."""
        for action in self._group.actions():
            if action.data() == name:
                action.setChecked(True)
                return action.text()
        return name
