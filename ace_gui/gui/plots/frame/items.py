"""The items in a plot: curves, symbols, bands, a threshold line, names of points and of curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPainterPath
from PySide6.QtWidgets import QToolTip

from ace_gui.gui.plots.frame.spec import PlotMark
from ace_gui.gui.theme import Face, Tokens, face

_STYLE: Final = ("symbol", "size", "pen", "brush")
_PAD: Final = (9.0, 3.0)  # px around the text of a pill
_BEFORE: Final = 0.2  # space left of the pill, as a share of the pill's length


class Points(pg.ScatterPlotItem):
    """Symbols that all look the same.

    pyqtgraph looks up the style of every point, which takes 60 ms for 20 000 points, and creates
    a new array for every update, which takes 12 ms. Here one look-up serves all points, and an
    update that changes neither their number nor their style only moves them.
    """

    def setData(self, *args: Any, **options: Any) -> None:
        same_style = all(self.opts[name] == options[name] for name in _STYLE if name in options)
        if args or not same_style or not 0 < len(self.data) == len(options.get("x", ())):
            super().setData(*args, **options)
            return
        self.data["x"] = options["x"]
        self.data["y"] = options["y"]
        self.bounds = [None, None]
        self.prepareGeometryChange()
        self.informViewBoundsChanged()
        self.invalidate()
        self.sigPlotChanged.emit(self)

    def updateSpots(self, dataSet: Any = None) -> None:
        if dataSet is None:
            data = self.data
        else:
            data = dataSet
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

    ``spans``: start and end of each, in the units of the horizontal axis.
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
        left = view.left()
        right = view.right()
        visible = ((max(low, left), min(high, right)) for low, high in self.spans)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self.colour))
        painter.drawRects(
            [QRectF(a, view.top(), b - a, view.height()) for a, b in visible if a < b]
        )


class _Pill(pg.InfLineLabel):
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
        """The background, in pixels from the start of the line."""
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
        self.pill = _Pill(self, text="", position=0.0, anchors=[(-_BEFORE, 0.5)] * 2)
        for item in (self, self.pill):
            item.setCursor(Qt.CursorShape.SizeVerCursor)
        self.setZValue(10)

    @property
    def room(self) -> float:
        """Pixels from the left edge of the plot to the pill's right end."""
        return self.pill.boundingRect().width() * (1 + _BEFORE)

    def write(self, text: str) -> None:
        self.pill.setFormat(text.replace("{", "{{").replace("}", "}}"))

    def set_theme(self, theme: Tokens) -> None:
        """Use the text colour, or the accent colour under the pointer."""
        self.setPen(pg.mkPen(theme.text, width=1.5))
        self.setHoverPen(pg.mkPen(theme.accent, width=2.5))
        self.pill.textItem.setFont(face(Face.CAPTION_STRONG))
        self.pill.ground = QColor(theme.text)
        self.pill.setColor(theme.card)
        self.pill.update()


class MarkLine(pg.InfiniteLine):
    """The line of a mark with its name."""

    def __init__(self, mark: PlotMark, theme: Tokens) -> None:
        self._mark = mark
        if mark.upright:
            anchor = [(-0.04, 0.5), (1.04, 0.5)]
        elif mark.above:
            anchor = [(1.0, 1.0)] * 2
        else:
            anchor = [(0.5, 0.5)] * 2
        options = {
            "position": mark.share,
            "anchors": anchor,
            "color": theme.text2,
            "fill": None if mark.upright else theme.card,
        }
        if mark.upright:
            style = Qt.PenStyle.DashLine
        else:
            style = Qt.PenStyle.DotLine
        super().__init__(
            mark.value,
            angle=90 if mark.upright else 0,
            pen=pg.mkPen(theme.text3, width=1, style=style),
            label=mark.label or None,
            labelOpts=options,
        )
        if mark.label:
            self.label.textItem.setFont(face(Face.CAPTION))
        self.setZValue(-1)

    def fit_name(self, view: pg.ViewBox) -> None:
        """Hide a name above the line where the view is too low for it."""
        if self._mark.above and self._mark.label:
            low, high = view.viewRange()[1]
            pixels = view.height() * (high - self._mark.value) / (high - low)
            self.label.setVisible(pixels >= QFontMetricsF(face(Face.CAPTION)).height())


_NAME_GAP: Final = 11.0  # px between a point and its name
_LEVELS: Final = (0.5, 1.5, -0.5, 2.5, -1.5)  # vertical anchors of a name
_SYMBOL: Final = 5.0  # px: radius of a symbol


def place_names(
    names: Sequence[pg.TextItem],
    view: pg.ViewBox,
    symbols_S2: NDArray[np.float64],
    taken: list[QRectF],
) -> None:
    """Put each name where it covers the fewest symbols and none of the areas in ``taken``.

    Names that would be cut or overlap are hidden, unless they are strong; the pointer and the
    table show them.
    """
    (across, up) = view.viewPixelSize()
    scene = view.sceneBoundingRect()
    if not (across > 0 and up > 0):  # not laid out yet
        return
    zero = view.mapViewToScene(QPointF(0, 0))
    symbols_S2 = symbols_S2 / (across, -up) + (zero.x(), zero.y())
    strong = {name for name in names if name.textItem.font().weight() > QFont.Weight.Medium}
    for name in sorted(names, key=lambda name: name not in strong):
        point = view.mapViewToScene(name.pos())
        size = name.textItem.boundingRect()
        gap = _NAME_GAP / max(1.0, size.width())
        choices = []
        for level in _LEVELS:
            for side in (-gap, 1 + gap):
                x = point.x() - side * size.width()
                y = point.y() - level * size.height()
                box = size.translated(x, y)
                cut = _cut(box, scene)
                covers = any(map(box.intersects, taken))
                cost = cut, _inside(symbols_S2, box), covers
                choices.append((cost, cut > 0 or covers, box, (side, level)))
        _, faulty, box, anchor = min(choices, key=lambda choice: choice[0])
        name.setAnchor(anchor)
        name.setVisible(name in strong or not faulty)
        if name.isVisible():
            taken.append(box)


def _cut(box: QRectF, scene: QRectF) -> float:
    """The pixels by which a box extends beyond the whole."""
    across = max(scene.left() - box.left(), box.right() - scene.right())
    return max(0.0, across, scene.top() - box.top(), box.bottom() - scene.bottom())


def _inside(points_S2: NDArray[np.float64], box: QRectF) -> int:
    """The number of symbols that a box covers, in pixels; NaN is never covered."""
    low, high = np.array([[box.left(), box.top()], [box.right(), box.bottom()]])
    return int(((points_S2 >= low - _SYMBOL) & (points_S2 <= high + _SYMBOL)).all(axis=1).sum())


_WIDEST: Final = 7.5  # maximum width of a curve's name, in lines of text
_ABOVE_CURVES: Final = 50
_END_GAP: Final = 6.0  # px between a curve's end and its name


class EndLabel(NamedTuple):
    """A curve's name at its last value; ``strong`` for the merge."""

    key: str
    text: str
    colour: str
    place: float
    height: float
    strong: bool = False
    on: bool = True

    @property
    def font(self) -> QFont:
        return face(Face.CAPTION_STRONG if self.strong else Face.CAPTION)

    @property
    def tip(self) -> str:
        return f"{self.text}: click to show or hide"

    def paint(self, painter: QPainter, room: QRectF) -> None:
        """Write the name, elided if necessary."""
        colour = QColor(self.colour)
        colour.setAlphaF(1.0 if self.on else 0.45)
        painter.setFont(self.font)
        painter.setPen(colour)
        right = Qt.TextElideMode.ElideRight
        text = QFontMetricsF(self.font).elidedText(self.text, right, room.width())
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter, text)


class EndLabels(pg.AxisItem):
    """The right edge of a plot, with the names of curves that end there. ``clicked`` carries the
    key of a curve."""

    clicked = Signal(str)

    def __init__(self) -> None:
        super().__init__("right", maxTickLength=0)
        self._labels: tuple[EndLabel, ...] = ()
        self.setStyle(showValues=False)
        self.setPen(pg.mkPen(None))
        self.setWidth(0)

    def set_labels(self, labels: Sequence[EndLabel]) -> None:
        self._labels = tuple(labels)
        widths = [QFontMetricsF(label.font).horizontalAdvance(label.text) for label in labels]
        widest = _WIDEST * QFontMetricsF(face(Face.CAPTION)).height()
        self.setWidth(min(max(widths, default=-_END_GAP), widest) + _END_GAP + 2)
        self.update()

    def rects(self) -> list[tuple[EndLabel, QRectF]]:
        """The rectangles of the names, from top to bottom, without overlaps.

        If not all fit, the merge's names are kept first; the curve menu has the others.
        """
        low, high = self.range
        room = self.size()
        line = QFontMetricsF(face(Face.CAPTION)).height()
        if high <= low or not self._labels:
            return []
        scale = room.height() / (high - low)
        fit = max(int(room.height() // line), 1)
        drawn = sorted(self._labels, key=lambda label: not label.strong)[:fit]
        by_height = sorted(
            ((scale * (high - label.height), label) for label in drawn), key=lambda pair: pair[0]
        )
        tops = _apart([at - line / 2 for at, _ in by_height], line, room.height())
        return [
            (label, QRectF(_END_GAP, top, room.width() - _END_GAP, line))
            for top, (_, label) in zip(tops, by_height, strict=True)
        ]

    def paint(self, painter: QPainter, option: object, widget: object) -> None:  # noqa: ARG002
        painter.setRenderHint(QPainter.RenderHint.TextAntialiasing)
        for label, room in self.rects():
            label.paint(painter, room)

    def mouseClickEvent(self, event: Any) -> None:
        label = self._at(event.pos())
        if label is not None:
            event.accept()
            self.clicked.emit(label.key)

    def hoverEvent(self, event: Any) -> None:
        if event.isExit():
            label = None
        else:
            label = self._at(event.pos())
        self.setCursor(
            Qt.CursorShape.ArrowCursor if label is None else Qt.CursorShape.PointingHandCursor
        )
        if label is not None:
            point = event.screenPos().toPoint()
            QToolTip.showText(point, label.tip)

    def _at(self, point: QPointF) -> EndLabel | None:
        return next((label for label, room in self.rects() if room.contains(point)), None)


class InnerEndLabels(pg.GraphicsObject):
    """The names of curves that end inside a plot, each beside its end. ``clicked`` carries the key
    of a curve. ``ground``: the colour behind the names."""

    clicked = Signal(str)

    def __init__(self, view: pg.ViewBox) -> None:
        super().__init__()
        self._view = view
        self._labels: tuple[EndLabel, ...] = ()
        self.ground = QColor()
        self.setParentItem(view)
        self.setZValue(_ABOVE_CURVES)
        for changed in (view.sigRangeChanged, view.sigResized):
            changed.connect(lambda *_: self._place())

    def set_labels(self, labels: Sequence[EndLabel], ground: str) -> None:
        self._labels = tuple(labels)
        self.ground = QColor(ground)
        self._place()

    def _place(self) -> None:
        self.prepareGeometryChange()
        self.update()

    def rects(self) -> list[tuple[EndLabel, QRectF]]:
        """The rectangles of the names in the plot, from top to bottom, without overlaps."""
        view = self._view
        (left, right), (low, high) = view.viewRange()
        line = QFontMetricsF(face(Face.CAPTION)).height()
        if right <= left or high <= low or not self._labels:
            return []
        visible = (label for label in self._labels if left <= label.place <= right)
        scale = view.height() / (high - low)
        by_height = sorted(visible, key=lambda label: -label.height)
        by_height = by_height[: max(int(view.height() // line), 1)]
        tops = [scale * (high - label.height) - line / 2 for label in by_height]
        rects = []
        for label, top in zip(by_height, _apart(tops, line, view.height()), strict=True):
            width = QFontMetricsF(label.font).horizontalAdvance(label.text) + 2
            width = min(width, _WIDEST * line, view.width())
            x = view.width() * (label.place - left) / (right - left) + _END_GAP
            rects.append((label, QRectF(min(x, view.width() - width), top, width, line)))
        return rects

    def boundingRect(self) -> QRectF:
        return QRectF(0, 0, self._view.width(), self._view.height())

    def shape(self) -> QPainterPath:
        path = QPainterPath()
        for _, room in self.rects():
            path.addRect(room)
        return path

    def paint(self, painter: QPainter, option: object, widget: object) -> None:  # noqa: ARG002
        painter.setRenderHint(QPainter.RenderHint.TextAntialiasing)
        for label, room in self.rects():
            painter.fillRect(room.adjusted(-2, 0, 2, 0), self.ground)
            label.paint(painter, room)

    def mouseClickEvent(self, event: Any) -> None:
        for label, room in self.rects():
            if room.contains(event.pos()):
                event.accept()
                self.clicked.emit(label.key)
                return


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
