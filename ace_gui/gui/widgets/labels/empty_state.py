"""What stands where there is nothing yet: one sentence, and what to do about it."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from ace_gui.gui.text import plain
from ace_gui.gui.widgets.labels.plain_label import secondary_label

_WIDTH = 460  # px, of the sentence at most
_MARGIN = 16


class EmptyState(QWidget):
    """In the middle of its place. ``button``: the one action."""

    def __init__(self, sentence: str, button: QPushButton, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.button = button
        self._said = secondary_label("", self)
        self._said.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._said.setMaximumWidth(_WIDTH)
        column = QVBoxLayout(self)
        column.setContentsMargins(_MARGIN, 0, _MARGIN, 0)
        middle = Qt.AlignmentFlag.AlignHCenter
        column.addStretch(2)
        column.addLayout(_row(self._said))
        column.addSpacing(12)
        column.addWidget(button, 0, middle)
        column.addStretch(3)
        self.say(sentence)

    def say(self, sentence: str) -> None:
        """Another sentence."""
        self._said.setText(plain(sentence))


def _row(sentence: QWidget) -> QHBoxLayout:
    """In the middle, as wide as it may be: its height follows from its width."""
    row = QHBoxLayout()
    row.addStretch(1)
    row.addWidget(sentence, 100)
    row.addStretch(1)
    return row
