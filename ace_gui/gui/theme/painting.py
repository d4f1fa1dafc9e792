"""What several widgets and cells paint: swatches, shares as bars, one line of text."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPen

SWATCH: Final = 10  # px
RADIUS: Final = 6.0  # px, of fields and buttons
_LEFT: Final = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter


def rounded(
    painter: QPainter,
    rect: QRectF,
    ground: str = "",
    border: str = "",
    *,
    width: float = 1.0,
    corner: float = RADIUS,
) -> None:
    """A rounded rectangle with its border inside; an empty colour is not painted."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(QColor(border), width) if border else Qt.PenStyle.NoPen)
    painter.setBrush(QColor(ground) if ground else Qt.BrushStyle.NoBrush)
    inset = width / 2 if border else 0.0
    painter.drawRoundedRect(rect.adjusted(inset, inset, -inset, -inset), corner, corner)
    painter.restore()


def paint_swatch(painter: QPainter, rect: QRectF, colour: str, *, hollow: bool = False) -> None:
    """A small square of one colour; ``hollow`` for colours that repeat."""
    square = QRectF(0, 0, SWATCH, SWATCH)
    square.moveCenter(rect.center())
    ground, border = ("", colour) if hollow else (colour, "")
    rounded(painter, square, ground, border, width=2.0, corner=3.0)


def paint_share(painter: QPainter, track: QRectF, share: float, colour: str, ground: str) -> None:
    """A track in the colour ``ground``, filled from the left by ``share``, clipped to 0 to 1."""
    done = QRectF(track)
    done.setWidth(track.width() * min(max(share, 0.0), 1.0))
    for part, ink in ((track, ground), (done, colour)):
        rounded(painter, part, ink, corner=track.height() / 2)


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
