"""A problem report that the user reads, completes and copies."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QSize
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QPlainTextEdit, QWidget

from ace_gui.gui.text import plain
from ace_gui.gui.theme import Face, face
from ace_gui.gui.widgets.labels.plain_label import plain_label
from ace_gui.gui.widgets.layout.arrangement import down

_SIZE: Final = QSize(720, 560)
_OF_SCREEN: Final = 0.92
_SENTENCE: Final = (
    "Describe in the first lines what you did and what happened. Paths and the names of the open "
    "models are left out; check the text anyway. Nothing is sent: copy it to "
    "the person who maintains the program for you."
)


class ProblemDialog(QDialog):
    """``text``: the report, to be completed."""

    def __init__(self, text: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Report a problem")
        self.resize(_SIZE.boundedTo(self.screen().availableSize() * _OF_SCREEN))
        self.text = QPlainTextEdit(self)
        self.text.setAccessibleName("Report")
        self.text.setFont(face(Face.MONO_CAPTION))
        self.text.setPlainText(plain(text))
        self.text.setTabChangesFocus(True)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        self.copy = buttons.addButton("&Copy", QDialogButtonBox.ButtonRole.ActionRole)
        self.copy.setProperty("kind", "primary")
        self.copy.setToolTip("Copy the whole text")
        self.copy.clicked.connect(lambda _=False: self._copy())
        buttons.rejected.connect(self.reject)
        parts = plain_label(_SENTENCE, self), (self.text, 1), buttons
        self.setLayout(down(*parts, margins=(12, 12, 12, 12)))
        self.text.setFocus()

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.text.toPlainText())
        self.copy.setText("Copied")
