"""What stands where there is nothing yet: one sentence, and what to do about it."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget

from ace_gui.gui.text import plain
from ace_gui.gui.widgets.plain_label import secondary_label

_WIDTH = 460  # px, of the sentence at most
_MARGIN = 16


class EmptyState(QWidget):
    """In the middle of its place. ``button``: the one action."""

    def __init__(self, sentence: str, button: QPushButton, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.button = button
        self._said = secondary_label("", self)
        self._said.setAlignment(Qt.AlignmentFlag.AlignCenter)
        column = QVBoxLayout(self)
        middle = Qt.AlignmentFlag.AlignHCenter
        column.addStretch(2)
        column.addWidget(self._said, 0, middle)
        column.addSpacing(12)
        column.addWidget(button, 0, middle)
        column.addStretch(3)
        self.say(sentence)

    def say(self, sentence: str) -> None:
        """Another sentence."""
        self._said.setText(plain(sentence))
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        width = max(min(_WIDTH, self.width() - 2 * _MARGIN), 10 * _MARGIN)
        self._said.setFixedSize(width, self._said.heightForWidth(width))
