"""A menu with exactly one checked entry."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtGui import QActionGroup
from PySide6.QtWidgets import QMainWindow, QMenu

from ace_gui.gui.text import tooltip


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
        """Add one entry to this menu or to one of its submenus."""
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
