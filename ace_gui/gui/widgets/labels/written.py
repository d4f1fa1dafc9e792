"""Text painted by widgets and cells themselves."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter

_MIDDLE: Final = Qt.AlignmentFlag.AlignVCenter


def write(
    painter: QPainter,
    rect: QRectF,
    text: str,
    font: QFont,
    ink: str,
    *,
    align: Qt.AlignmentFlag = Qt.AlignmentFlag.AlignLeft | _MIDDLE,
) -> float:
    """Paint text in one line, elided in the middle, and return its width in pixels."""
    if not text or rect.width() <= 0:
        return 0.0
    metrics = QFontMetricsF(font)
    shown = metrics.elidedText(text, Qt.TextElideMode.ElideMiddle, rect.width() + 0.5)
    painter.setFont(font)
    painter.setPen(QColor(ink))
    painter.drawText(rect, align, shown)
    return metrics.horizontalAdvance(shown)
