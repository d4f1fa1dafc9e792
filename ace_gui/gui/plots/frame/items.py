"""Items of a plot: curves and symbols, bands of blocks, a threshold line with a draggable pill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter

# isort: split
import pyqtgraph as pg

from ace_gui.gui.theme import Face, Tokens, face

_STYLE: Final = ("symbol", "size", "pen", "brush")
_PAD: Final = (9.0, 3.0)  # px around the text of a pill
_BEFORE: Final = 0.2  # part of the pill's length, between it and the line's left end


class Points(pg.ScatterPlotItem):
    """Symbols that all look the same.

    pyqtgraph looks up every point's style separately, which takes 60 ms for 20 000 points, and
    makes a new array of them for every update, which takes 12 ms. Here one look-up serves all of
    them, and as many points as before that look as before only move.
    """

    def setData(self, *args: Any, **given: Any) -> None:
        same = all(self.opts[name] == given[name] for name in _STYLE if name in given)
        if args or not same or not 0 < len(self.data) == len(given.get("x", ())):
            super().setData(*args, **given)
            return
        self.data["x"], self.data["y"] = given["x"], given["y"]
        self.bounds = [None, None]
        self.prepareGeometryChange()
        self.informViewBoundsChanged()
        self.invalidate()
        self.sigPlotChanged.emit(self)

    def updateSpots(self, dataSet: Any = None) -> None:
        data = self.data if dataSet is None else dataSet
        (index,) = self.fragmentAtlas[[tuple(self.opts[name] for name in _STYLE)]]
        data["sourceRect"] = index
        self._updateMaxSpotSizes(data=data)
        self.invalidate()


class CurveItem(pg.PlotDataItem):
    """A line, symbols of one style, or both."""

    scatter: pg.ScatterPlotItem

    def __init__(self) -> None:
        super().__init__()
        self.scatter.setParentItem(None)
        self.scatter = Points()
        self.scatter.setParentItem(self)


class Bands(pg.GraphicsObject):
    """Backgrounds over the plot's whole height, below everything else.

    ``spans``: from, to, in the units of the horizontal axis.
    """

    def __init__(self) -> None:
        super().__init__()
        self.spans: Sequence[tuple[float, float]] = ()
        self.colour = ""
        self.setZValue(-20)

    def boundingRect(self) -> QRectF:
        return self.viewRect()

    def viewRangeChanged(self) -> None:
        self.prepareGeometryChange()
        self.update()

    def paint(self, painter: QPainter, option: object, widget: object) -> None:  # noqa: ARG002
        view = self.viewRect()
        left, right = view.left(), view.right()
        seen = ((max(low, left), min(high, right)) for low, high in self.spans)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self.colour))
        painter.drawRects([QRectF(a, view.top(), b - a, view.height()) for a, b in seen if a < b])


class Pill(pg.InfLineLabel):
    """The line's value on a background of its own; dragging it drags the line."""

    ground = QColor()

    def paint(self, painter: QPainter, *args: Any) -> None:  # noqa: ARG002
        self.updateTransform()
        painter.setTransform(self.sceneTransform())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self.ground)
        rect = self.boundingRect()
        painter.drawRoundedRect(rect, rect.height() / 2, rect.height() / 2)

    def boundingRect(self) -> QRectF:
        """The ground, in pixels from where the line begins."""
        across, down = _PAD
        words = self.textItem.mapRectToParent(self.textItem.boundingRect())
        return words.adjusted(-across + 4, -down + 4, across - 4, down - 4)

    def mouseDragEvent(self, event: Any) -> None:
        event.currentItem = self.line
        self.line.mouseDragEvent(event)


class ThresholdLine(pg.InfiniteLine):
    """A horizontal line with its value on a pill near the left edge."""

    def __init__(self) -> None:
        super().__init__(angle=0, movable=True)
        self.pill = Pill(self, text="", position=0.0, anchors=[(-_BEFORE, 0.5)] * 2)
        for item in (self, self.pill):
            item.setCursor(Qt.CursorShape.SizeVerCursor)
        self.setZValue(10)

    @property
    def room(self) -> float:
        """Pixels from the left edge of the plot to the pill's right end."""
        return self.pill.boundingRect().width() * (1 + _BEFORE)

    def write(self, text: str) -> None:
        """Set the pill's text."""
        self.pill.setFormat(text.replace("{", "{{").replace("}", "}}"))

    def set_theme(self, theme: Tokens) -> None:
        """Use the text colour, or the accent colour under the pointer."""
        self.setPen(pg.mkPen(theme.text, width=1.5))
        self.setHoverPen(pg.mkPen(theme.accent, width=2.5))
        self.pill.textItem.setFont(face(Face.CAPTION_STRONG))
        self.pill.ground = QColor(theme.text)
        self.pill.setColor(theme.card)
        self.pill.update()
