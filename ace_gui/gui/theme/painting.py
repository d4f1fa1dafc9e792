"""What several widgets and cells paint: swatches, shares as bars, one line of text."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPen

SWATCH: Final = 10  # px
_RADIUS: Final = 3.0
_LEFT: Final = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter


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


def paint_share(painter: QPainter, track: QRectF, share: float, colour: str, ground: str) -> None:
    """A track in the colour ``ground``, filled from the left by ``share``, clipped to 0 to 1."""
    done = QRectF(track)
    done.setWidth(track.width() * min(max(share, 0.0), 1.0))
    painter.setPen(Qt.PenStyle.NoPen)
    corner = track.height() / 2
    for part, ink in ((track, ground), (done, colour)):
        painter.setBrush(QColor(ink))
        painter.drawRoundedRect(part, corner, corner)


def write(
    painter: QPainter,
    rect: QRectF,
    text: str,
    font: QFont,
    ink: str,
    *,
    align: Qt.AlignmentFlag = _LEFT,
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
