"""The name of the open project, above its models."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QLineEdit, QWidget

from ace_gui.gui.text import plain, tooltip
from ace_gui.gui.theme import Face, face

_TIP: Final = "The project's name; type another one. Its runs and settings are kept under it."
_OF_FILE: Final = "The name of the recipe's file. Save as … writes another one."


class ProjectName(QLineEdit):
    """A field for the name. ``renamed`` carries another one that the user has typed."""

    renamed = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name = ""
        self.setAccessibleName("Project name")
        self.setFont(face(Face.HEADING))
        self.setMaxLength(80)
        self.setFrame(False)
        self.editingFinished.connect(self._finish)

    def show_name(self, name: str, *, is_editable: bool) -> None:
        """Show the project's name, unless the user is typing another one."""
        self._name = plain(name)
        self.setReadOnly(not is_editable)
        self.setToolTip(tooltip(_TIP if is_editable else _OF_FILE))
        if not (self.hasFocus() and self.isModified()):
            self.setText(self._name)
            self.setCursorPosition(0)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Escape restores the name."""
        if event.key() == Qt.Key.Key_Escape and self.isModified():
            self.setText(self._name)
        else:
            super().keyPressEvent(event)

    def _finish(self) -> None:
        name = self.text().strip()
        self.setModified(False)
        if name and name != self._name:
            self.renamed.emit(name)
        self.setText(self._name)
