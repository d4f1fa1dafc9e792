"""A check box that is seen on dark as well: Fusion draws its frame dark on dark.

A style sheet could say the same, but with one for the whole application Qt looks at every widget
again when the colours change, which takes half a second.
"""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPalette, QPen
from PySide6.QtWidgets import QCheckBox, QStyle, QStyleOptionButton

_CHECK = ((0.24, 0.52), (0.43, 0.71), (0.77, 0.31))  # in parts of the box


class CheckBox(QCheckBox):
    """A ``QCheckBox`` with a box of its own."""

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        option = QStyleOptionButton()
        self.initStyleOption(option)
        which = QStyle.SubElement.SE_CheckBoxIndicator
        box = QRectF(self.style().subElementRect(which, option, self)).adjusted(
            0.5, 0.5, -0.5, -0.5
        )
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        role = QPalette.ColorRole
        on = self.isChecked() and self.isEnabled()
        frame = role.Text if self.hasFocus() else role.Accent if on else role.PlaceholderText
        painter.setPen(QPen(self._colour(frame), 2 if self.hasFocus() else 1))
        painter.setBrush(self._colour(role.Accent if on else role.Base))
        painter.drawRoundedRect(box, 3, 3)
        if self.isChecked():
            painter.setPen(QPen(self._colour(role.HighlightedText if on else frame), 1.8))
            painter.drawPolyline([_within(box, x, y) for x, y in _CHECK])

    def _colour(self, role: QPalette.ColorRole) -> QColor:
        return self.palette().color(role)


def _within(box: QRectF, x: float, y: float) -> QPointF:
    return QPointF(box.left() + x * box.width(), box.top() + y * box.height())
