"""The names of curves at their right ends, in their text colours, moved apart.

Clicking a name is the same as clicking its chip in the legend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter
from PySide6.QtWidgets import QToolTip

# isort: split
import pyqtgraph as pg

from ace_gui.gui.theme import Face, face

_WIDEST: Final = 7.5  # lines of text
_GAP: Final = 6.0  # px between a curve's end and its name


class EndLabel(NamedTuple):
    """A curve's name at the height of its last value; ``strong`` for the merge."""

    key: str
    text: str
    colour: str
    height: float
    strong: bool = False
    on: bool = True

    @property
    def font(self) -> QFont:
        """Its font."""
        return face(Face.CAPTION_STRONG if self.strong else Face.CAPTION)


class EndLabels(pg.AxisItem):
    """The right edge of a plot. ``clicked`` carries the key of a curve."""

    clicked = Signal(str)

    def __init__(self) -> None:
        super().__init__("right", maxTickLength=0)
        self._labels: tuple[EndLabel, ...] = ()
        self.setStyle(showValues=False)
        self.setPen(pg.mkPen(None))
        self.setWidth(0)

    def set_labels(self, labels: Sequence[EndLabel]) -> None:
        """Set the names of the curves."""
        self._labels = tuple(labels)
        widths = [QFontMetricsF(each.font).horizontalAdvance(each.text) for each in labels]
        most = _WIDEST * QFontMetricsF(face(Face.CAPTION)).height()
        self.setWidth(min(max(widths, default=-_GAP), most) + _GAP + 2)
        self.update()

    def rects(self) -> list[tuple[EndLabel, QRectF]]:
        """The rectangles of the names, from top to bottom, without overlaps.

        If not all fit, those of the merge are kept; the curve menu has the others.
        """
        low, high = self.range
        room, line = self.size(), QFontMetricsF(face(Face.CAPTION)).height()
        if high <= low or not self._labels:
            return []
        scale, fit = room.height() / (high - low), max(int(room.height() // line), 1)
        named = sorted(self._labels, key=lambda label: not label.strong)[:fit]
        wanted = sorted(
            ((scale * (high - label.height), label) for label in named),
            key=lambda each: each[0],
        )
        tops = _apart([at - line / 2 for at, _ in wanted], line, room.height())
        return [
            (label, QRectF(_GAP, top, room.width() - _GAP, line))
            for top, (_, label) in zip(tops, wanted, strict=True)
        ]

    def paint(self, painter: QPainter, option: object, widget: object) -> None:  # noqa: ARG002
        painter.setRenderHint(QPainter.RenderHint.TextAntialiasing)
        for label, index in self.rects():
            colour = QColor(label.colour)
            colour.setAlphaF(1.0 if label.on else 0.45)
            painter.setFont(label.font)
            painter.setPen(colour)
            right = Qt.TextElideMode.ElideRight
            text = QFontMetricsF(label.font).elidedText(label.text, right, index.width())
            painter.drawText(index, Qt.AlignmentFlag.AlignVCenter, text)

    def mouseClickEvent(self, event: Any) -> None:
        label = self._at(event.pos())
        if label is not None:
            event.accept()
            self.clicked.emit(label.key)

    def hoverEvent(self, event: Any) -> None:
        label = None if event.isExit() else self._at(event.pos())
        self.setCursor(
            Qt.CursorShape.ArrowCursor if label is None else Qt.CursorShape.PointingHandCursor
        )
        if label is not None:
            point = event.screenPos().toPoint()
            QToolTip.showText(point, f"{label.text}: click to show or hide")

    def _at(self, point: QPointF) -> EndLabel | None:
        return next((label for label, room in self.rects() if room.contains(point)), None)


def _apart(tops: list[float], line: float, height: float) -> list[float]:
    """Move overlapping names down, then up if the last one would leave the plot."""
    placed: list[float] = []
    for top in tops:
        placed.append(max(top, placed[-1] + line) if placed else max(top, 0.0))
    limit = height - line
    for index in range(len(placed) - 1, -1, -1):
        placed[index] = min(placed[index], limit)
        limit = placed[index] - line
    return placed
