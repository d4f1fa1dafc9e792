"""A double click on a number selects all of it; Qt stops at the decimal point."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QAbstractSpinBox, QLineEdit


class WholeNumber(QObject):
    """Watches a line edit with a number, so that typing replaces the number.

    ``box``: the spin box that contains the line edit, or the line edit itself.
    """

    def __init__(self, line: QLineEdit, box: QAbstractSpinBox | QLineEdit) -> None:
        super().__init__(line)
        self._box = box
        self._pressed = False
        line.installEventFilter(self)

    def eventFilter(self, _line: QObject, event: QEvent) -> bool:
        """The second press selects; small movements before the release change nothing."""
        kind = event.type()
        if kind == QEvent.Type.MouseButtonDblClick:
            self._pressed = True
            self._box.setFocus()
            self._box.selectAll()
            return True
        if kind == QEvent.Type.MouseButtonRelease:
            self._pressed = False
        return kind == QEvent.Type.MouseMove and self._pressed


def select_whole_number(box: QAbstractSpinBox | QLineEdit) -> None:
    """Let a double click select the number; once for each box."""
    line = box.lineEdit() if isinstance(box, QAbstractSpinBox) else box
    if line.findChild(WholeNumber) is None:
        WholeNumber(line, box)
