"""The content of an empty panel: one sentence, and an action."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from ace_gui.gui.text import plain
from ace_gui.gui.widgets.labels.plain_label import secondary_label

_WIDTH = 460  # px: maximum width of the sentence
_MARGIN = 16


class EmptyState(QWidget):
    """Centred in its area. ``button``: the action."""

    def __init__(self, sentence: str, button: QPushButton, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.button = button
        self.sentence = secondary_label("", self)
        self.sentence.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.sentence.setMaximumWidth(_WIDTH)
        column = QVBoxLayout(self)
        column.setContentsMargins(_MARGIN, 0, _MARGIN, 0)
        middle = Qt.AlignmentFlag.AlignHCenter
        column.addStretch(2)
        column.addLayout(_row(self.sentence))
        column.addSpacing(12)
        column.addWidget(button, 0, middle)
        column.addStretch(3)
        self.say(sentence)

    def say(self, sentence: str) -> None:
        """Replace the sentence."""
        self.sentence.setText(plain(sentence))


def _row(sentence: QWidget) -> QHBoxLayout:
    """Centred at its maximum width, because its height depends on its width."""
    row = QHBoxLayout()
    row.addStretch(1)
    row.addWidget(sentence, 100)
    row.addStretch(1)
    return row
