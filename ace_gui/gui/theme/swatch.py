"""The small square in a model's colour."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

SWATCH: Final = 10  # px
_RADIUS: Final = 3.0


def paint_swatch(painter: QPainter, rect: QRectF, colour: str, *, hollow: bool = False) -> None:
    """A small square of one colour; ``hollow`` for colours that repeat."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    inset = 1.0 if hollow else 0.0
    painter.setPen(QPen(QColor(colour), 2.0) if hollow else Qt.PenStyle.NoPen)
    painter.setBrush(Qt.BrushStyle.NoBrush if hollow else QColor(colour))
    square = QRectF(0, 0, SWATCH, SWATCH)
    square.moveCenter(rect.center())
    painter.drawRoundedRect(square.adjusted(inset, inset, -inset, -inset), _RADIUS, _RADIUS)
    painter.restore()
