"""A share as a bar on its track."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter


def paint_share(painter: QPainter, track: QRectF, share: float, colour: str, ground: str) -> None:
    """A track in the colour ``ground``, filled from the left by ``share``, clipped to 0 to 1."""
    done = QRectF(track)
    done.setWidth(track.width() * min(max(share, 0.0), 1.0))
    painter.setPen(Qt.PenStyle.NoPen)
    corner = track.height() / 2
    for part, ink in ((track, ground), (done, colour)):
        painter.setBrush(QColor(ink))
        painter.drawRoundedRect(part, corner, corner)
