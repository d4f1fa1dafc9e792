"""The name of the open project, above its models, and the notes on it."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QLineEdit, QPlainTextEdit, QWidget

from ace_gui.gui.text import plain, tooltip
from ace_gui.gui.theme import Face, face, icon
from ace_gui.gui.widgets.controls import named, tool_button
from ace_gui.gui.widgets.layout import across, down, on_font_change

_TIP: Final = "The project's name; type another one. Its runs and settings are kept under it."
_OF_FILE: Final = "The name of the recipe's file. Save as file … writes another one."


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


_NOTES_TIP: Final = "Notes on this project; they are kept with it, and are in no recipe."
_NOTES_LINES: Final = 5


class ProjectHead(QWidget):
    """The name with the notes below, which a button shows. ``noted`` carries what was written."""

    noted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.name = ProjectName()
        self.notes = named(QPlainTextEdit(tabChangesFocus=True), "Project notes", _NOTES_TIP)
        self.notes.setPlaceholderText("What this project is for, and what you found")
        self.button = named(tool_button("", ""), "Notes", _NOTES_TIP)
        self.button.setIcon(icon("note"))
        self.button.setCheckable(True)
        self.button.toggled.connect(self.notes.setVisible)
        self.button.clicked.connect(self._begin_writing)
        self.notes.hide()
        self.notes.textChanged.connect(self._pass_on)
        self.setLayout(down(across((self.name, 1), self.button), self.notes, gap=4))
        on_font_change(self, lambda metrics: self._measure(metrics.lineSpacing()))

    def show_project(self, name: str, notes: str, *, is_editable: bool) -> None:
        """Show a project. Its notes are open if there are any."""
        self.name.show_name(name, is_editable=is_editable)
        if notes != self.notes.toPlainText():
            with QSignalBlocker(self.notes):
                self.notes.setPlainText(notes)
            self.button.setChecked(bool(notes))

    def _measure(self, line: int) -> None:
        self.notes.setFixedHeight(_NOTES_LINES * line)

    def _begin_writing(self) -> None:
        if self.button.isChecked():
            self.notes.setFocus()

    def _pass_on(self) -> None:
        self.noted.emit(self.notes.toPlainText())
