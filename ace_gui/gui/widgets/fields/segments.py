"""A few segments, one of which is chosen: views, or a filter."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QButtonGroup, QFrame, QHBoxLayout, QPushButton, QWidget

from ace_gui.gui.theme import Face, face


class Segments(QFrame):
    """``chosen`` carries the index of the segment that the user chose.

    The chosen one takes the focus; left and right move between segments.
    """

    chosen = Signal(int)

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "segments")
        self.setAccessibleName(name)
        self._group = QButtonGroup(self)
        self._group.idClicked.connect(self.chosen)
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(2, 2, 2, 2)
        self._row.setSpacing(0)

    def add(self, title: str, tip: str) -> QPushButton:
        """Append a segment; the first one is chosen."""
        button = QPushButton(title, self)
        button.setFont(face(Face.BUTTON))
        button.setCheckable(True)
        button.setToolTip(tip)
        button.setAccessibleName(title)
        index = len(self._group.buttons())
        self._group.addButton(button, index)
        self._row.addWidget(button)
        button.setChecked(index == 0)
        return button

    @property
    def current(self) -> int:
        """The index of the chosen one."""
        return self._group.checkedId()

    def choose(self, index: int) -> None:
        """Choose one without a signal."""
        self._group.button(index).setChecked(True)

    def set_title(self, index: int, title: str) -> None:
        """Set the text of a segment."""
        button = self._group.button(index)
        button.setText(title)
        button.setAccessibleName(title)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()), 0)
        index = self.current + step
        button = self._group.button(index)
        if step == 0 or button is None or not button.isEnabled():
            super().keyPressEvent(event)
            return
        button.setFocus(Qt.FocusReason.OtherFocusReason)
        button.click()
