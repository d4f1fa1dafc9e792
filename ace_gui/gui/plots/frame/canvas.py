"""The drawing area of a plot. Its axes have plain numbers such as 0.01 or 10⁻⁵, never 1e-05 or an
SI prefix."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, floor, log10
from typing import Any, Final

import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QFontMetricsF, QPainter, QResizeEvent
from PySide6.QtWidgets import (
    QGraphicsGridLayout,
    QGraphicsItem,
    QGraphicsSceneResizeEvent,
    QSizePolicy,
)

from ace_gui.formatting import number_text, power_of_ten
from ace_gui.gui.plots.frame.spec import PlotAxis
from ace_gui.gui.theme import Face, face

_LONGEST_LABEL = "0.001"  # a number is below its tick, and half of it extends beyond the axis
_TITLE_MARGIN = 4  # px, of Qt's text items
_NAMED = 72  # minimum width in px for the name "Block 12"
_NAMES_SHARE: Final = 0.32  # maximum part of a plot's width for names at the left
_COUNTED: Final = 0.8  # of a text's height, by pyqtgraph
_LABELLED_WITHIN_DECADE = (2, 5)
_SHORT = 1.6  # decades: on a shorter axis 2 and 5 have labels, too
_Ticks = list[tuple[float | None, list[float]]]
Span = tuple[tuple[float, float], str]
"""The ends of a block along the horizontal axis, and its number."""


class _PlainAxis(pg.AxisItem):
    """An axis that keeps the labels of the coarsest ticks where labels overlap.

    It paints its text directly. pyqtgraph replays a recorded picture, in which tests find no text.
    """

    picture: Any
    _specs: tuple[Any, ...] | None = None

    def __init__(self, orientation: str, *, tick: int = 0) -> None:
        super().__init__(orientation, maxTickLength=-tick)
        self.setStyle(hideOverlappingLabels=False)

    def paint(self, p: QPainter, opt: object, widget: object) -> None:  # noqa: ARG002
        if self.picture is None:  # pyqtgraph's flag that ticks and texts must be computed again
            self.picture = self._specs = self.generateDrawSpecs(p)
        if self._specs is not None:
            p.save()
            self.drawPicture(p, *self._specs)
            p.restore()

    def generateDrawSpecs(self, p: Any) -> tuple[Any, ...] | None:
        specs = super().generateDrawSpecs(p)
        if specs is None:
            return None
        drawn_texts: list[Any] = []
        for text in specs[2]:
            if not any(text[0].intersects(drawn_text[0]) for drawn_text in drawn_texts):
                drawn_texts.append(text)
        return (*specs[:2], drawn_texts)


def _label_overhang() -> float:
    """Pixels that a label at the end of a horizontal axis extends beyond it."""
    return QFontMetricsF(face(Face.CAPTION)).horizontalAdvance(_LONGEST_LABEL) / 2


class QuantityAxis(_PlainAxis):
    """An axis of a quantity, linear or logarithmic.

    If it is ``logarithmic``, positions along it are log10 of the quantity. A horizontal axis has
    its ``title`` below. The plot shows a vertical one's above, as rotated text is hard to read.
    """

    labelText: str
    labelStyle: dict[str, str]

    def __init__(self, orientation: str, *, grid: bool = False) -> None:
        self.title = ""
        self.logarithmic = False
        self._counts = False
        self._is_low = False
        self._overhang = _label_overhang()
        super().__init__(orientation, tick=4)
        self.enableAutoSIPrefix(False)
        self.setStyle(tickTextOffset=4, autoExpandTextSpace=True)
        self.setGrid(255 if grid else False)

    def declare(self, axis: PlotAxis, *, logarithmic: bool) -> None:
        self.logarithmic = logarithmic
        self._counts = axis.counts
        self.picture = None
        self.setScale(axis.scale)
        if self.orientation == "bottom" and axis.title != self.title:
            self.title = axis.title
            self.fit_font()

    def fit_font(self) -> None:
        """Apply the caption's font size to the title, and reserve space for labels at the ends."""
        self._overhang = _label_overhang()
        if self.title:
            points = f"{face(Face.CAPTION).pointSizeF():.2f}pt"
            self.setLabel(self.title, **{**self.labelStyle, "font-size": points})
            self._fit_title()

    def set_low(self, low: bool) -> None:
        """Hide the title in a low plot."""
        if low != self._is_low:
            self._is_low = low
            self.showLabel(bool(self.title))

    def showLabel(self, show: bool = True) -> None:
        super().showLabel(show and not self._is_low)

    def resizeEvent(self, event: QGraphicsSceneResizeEvent | None = None) -> None:
        self._fit_title()
        super().resizeEvent(event)

    def _fit_title(self) -> None:
        """Elide the title if it is longer than the axis."""
        room = self.size().width() - 2 * _TITLE_MARGIN
        if room <= 0 or not self.title or self.label is None:  # not laid out yet, or closed
            return
        mode = Qt.TextElideMode.ElideRight
        text = QFontMetricsF(face(Face.CAPTION)).elidedText(self.title, mode, room)
        if text != self.labelText:
            self.labelText = text
            self.label.setHtml(self.labelString())

    def boundingRect(self) -> QRectF:
        """Wide enough for a label at either end, with or without grid."""
        if self.orientation == "bottom":
            across = self._overhang
        else:
            across = 0
        return super().boundingRect().adjusted(-across, 0, across, 0)

    def tickValues(self, low: float, high: float, size: float) -> _Ticks:
        if not self.logarithmic:
            levels: _Ticks = super().tickValues(low, high, size)
            if self._counts:
                return _whole_numbers(levels, low, high)
            return levels
        low, high = sorted((low, high))
        decades = range(floor(low), ceil(high) + 1)
        if self.orientation == "bottom":
            room = 44
        else:
            room = 20
        stride = max(1, ceil((high - low) * room / max(size, 1)))
        labelled = [float(d) for d in decades if d % stride == 0 and low <= d <= high]
        if stride > 1:
            between = [float(d) for d in decades if d % stride and low <= d <= high]
            return [(1.0, labelled), (None, between)]
        digits = _LABELLED_WITHIN_DECADE if high - low <= _SHORT else ()
        minor = [d + log10(m) for d in decades for m in digits]
        return [(1.0, labelled), (None, [v for v in minor if low <= v <= high])]

    def generateDrawSpecs(self, p: Any) -> tuple[Any, ...] | None:
        """Keep only ticks with a label; other lines would cover the data and say nothing.

        All labels have the decimals of the longest.
        """
        specs = super().generateDrawSpecs(p)
        if specs is None:
            return None
        line, ticks, texts = specs
        if not self.logarithmic:
            words = with_equal_decimals([text for _, _, text in texts])
            pairs = zip(texts, words, strict=True)
            texts = [(rect, flags, word) for (rect, flags, _), word in pairs]
        if self.orientation == "bottom":
            at = QPointF.x
        else:
            at = QPointF.y
        labelled = [at(rect.center()) for rect, *_ in texts]
        labelled_ticks = [t for t in ticks if any(abs(at(t[1]) - value) < 1 for value in labelled)]
        return line, labelled_ticks, texts

    def tickStrings(
        self, values: Sequence[float], scale: float, spacing: float | None
    ) -> list[str]:
        if not self.logarithmic:
            return [_plain(value * scale, (spacing or 1.0) * scale) for value in values]
        if spacing is not None:
            return [self._decade(round(value)) for value in values]
        if self.range[1] - self.range[0] > _SHORT:
            return [""] * len(values)
        return [_within_decade(value) for value in values]

    def _decade(self, exponent: int) -> str:
        """A power of ten, as a plain number if all labels of the axis can be plain."""
        low, high = self.range
        if low >= -4.3 and high <= 4.3:
            return number_text(10.0**exponent, 1)
        return power_of_ten(exponent)


def with_equal_decimals(labels: Sequence[str]) -> list[str]:
    """Numbers with as many decimals as the one that has most; 0 and powers of ten stay.

    All stay if they would need more room than the longest has, which the axis is as wide as.
    """
    decimals = [label.partition(".")[2] for label in labels if "×" not in label]
    most = max(map(len, decimals), default=0)
    padded = []
    for label in labels:
        fraction = label.partition(".")[2]
        missing = "0" * (most - len(fraction))
        if label == "0" or "×" in label or not missing:
            padded.append(label)
        elif fraction:
            padded.append(label + missing)
        else:
            padded.append(f"{label}.{missing}")
    if max(map(len, padded), default=0) > max(map(len, labels), default=0):
        return list(labels)
    return padded


def _whole_numbers(levels: _Ticks, low: float, high: float) -> _Ticks:
    """The levels of ticks without those between whole numbers, which an axis of one step has."""
    levels_of_whole_numbers = [level for level in levels if level[0] is None or level[0] >= 1]
    if levels_of_whole_numbers:
        return levels_of_whole_numbers
    return [(1.0, [float(number) for number in range(ceil(low), floor(high) + 1)])]


def _within_decade(position: float) -> str:
    exponent = floor(position + 1e-9)
    digit = round(10 ** (position - exponent))
    if digit in _LABELLED_WITHIN_DECADE:
        return number_text(digit * 10.0**exponent, 1)
    return ""


def _plain(value: float, spacing: float) -> str:
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e5 or spacing >= 1e-3:
        indices = max(0, ceil(-log10(spacing) - 1e-9))
        return f"{value:.{indices}f}".replace("-", "−")
    return number_text(value, max(1, floor(log10(abs(value))) - floor(log10(spacing)) + 1))


class NameAxis(_PlainAxis):
    """An axis with a name at each whole number, elided in the middle.

    At the left, names have a share of the plot's width; below the plot, each has the width of its
    column. If there is little room, only every second, fifth, … has a name.
    """

    _names: tuple[str, ...] = ()

    def declare(self, axis: PlotAxis, *, logarithmic: bool) -> None:  # noqa: ARG002  (QuantityAxis')
        """Show the names of this axis at 0, 1, 2, …"""
        self._names = tuple(axis.names)
        self._fit_names()

    def linkedViewChanged(self, view: pg.ViewBox, newRange: Any = None) -> None:
        super().linkedViewChanged(view, newRange)
        self._fit_names()

    def _updateMaxTextSize(self, x: float) -> None:
        """Reserve the whole height of names; pyqtgraph's would cut the lower ends of letters."""
        is_left = self.orientation == "left"
        super()._updateMaxTextSize(x if is_left else x / _COUNTED)

    def _fit_names(self) -> None:
        view = self.linkedView()
        metrics = QFontMetricsF(face(Face.CAPTION))
        is_left = self.orientation == "left"
        pixel = view.viewPixelSize()[is_left]
        if not pixel > 0:  # not laid out yet
            return
        per_name = 0.95 / pixel
        needed = metrics.height()
        if not is_left:
            longest = max(map(metrics.horizontalAdvance, self._names), default=0.0)
            needed = min(longest, metrics.horizontalAdvance("query…"))
        stride = next(s for s in _strides() if s * per_name >= needed)
        if is_left:
            room = _NAMES_SHARE * (view.width() + self.width())
        else:
            room = stride * per_name
        middle = Qt.TextElideMode.ElideMiddle
        drawn_names = list(enumerate(self._names))[::stride]
        texts = [(index, metrics.elidedText(name, middle, room)) for index, name in drawn_names]
        self.setTicks([texts])
        if is_left:
            self.setWidth(max((metrics.horizontalAdvance(t) for _, t in texts), default=0.0) + 12)


class BlockAxis(QuantityAxis):
    """The position along the model, with each block named below its middle."""

    _roomy = False

    def __init__(self) -> None:
        super().__init__("bottom")
        self._middles: dict[float, str] = {}

    def set_blocks(self, spans: Sequence[Span]) -> None:
        self._middles = {(low + high) / 2: label for (low, high), label in spans}
        self.picture = None
        self.update()

    def tickValues(self, low: float, high: float, size: float) -> _Ticks:
        in_view = [position for position in self._middles if low <= position <= high]
        stride = next(s for s in _strides() if len(in_view) / s * 30 <= max(size, 30))
        labelled = [
            position for position in list(self._middles)[::stride] if low <= position <= high
        ]
        self._roomy = size / max(len(labelled), 1) > _NAMED
        return [(1.0, labelled)]

    def tickStrings(
        self,
        values: Sequence[float],
        scale: float,  # noqa: ARG002  (pyqtgraph's signature)
        spacing: float | None,  # noqa: ARG002
    ) -> list[str]:
        if self._roomy:
            prefix = "Block "
        else:
            prefix = ""
        return [prefix + self._middles[value] for value in values]


def block_spans(blocks: Sequence[int | None]) -> list[Span]:
    """The number of each block of these layers, with its ends half a layer beyond its layers."""
    starts = [
        i
        for i, block in enumerate(blocks)
        if block is not None and (not i or blocks[i - 1] != block)
    ]
    ends = pairwise([*starts, len(blocks)])
    return [((start - 0.5, end - 0.5), str(blocks[start])) for start, end in ends]


def _strides() -> list[int]:
    return [digit * 10**power for power in range(6) for digit in (1, 2, 5)]


_CELLS: Final = {"bottom": (3, 1), "left": (2, 0), "right": (2, 2)}
_VIEW: Final = (2, 1)
_FREE: Final = 8  # px next to the text at an axis end
_LOW: Final = 15  # in text lines: a lower plot has no horizontal axis title
_MOST: Final = 0.6  # the part of the axis that such text takes


class _View(pg.ViewBox):
    """A view box that leaves the right mouse button to the context menu."""

    def mouseDragEvent(self, event: Any, axis: int | None = None) -> None:
        if event.button() == Qt.MouseButton.RightButton:
            event.ignore()
        else:
            super().mouseDragEvent(event, axis)


class Canvas(pg.GraphicsView):
    """Without the menu and buttons of pyqtgraph. ``left``: the pointer has left it.

    ``grid``: the layout around the view; a colour scale may join it. ``in_picture``: always show
    the title of the horizontal axis, which is hidden in a low plot on the screen.
    """

    left = Signal()

    def __init__(self, bottom: pg.AxisItem, left: pg.AxisItem) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.enableMouse(False)
        self.in_picture = False
        self._view = _View(enableMenu=False)
        self._axes = dict[str, pg.AxisItem]()
        self.grid = QGraphicsGridLayout()
        self.grid.setContentsMargins(1, 1, 1, 1)
        self.grid.setSpacing(0)
        self.grid.addItem(self._view, *_VIEW)
        self.grid.setRowStretchFactor(_VIEW[0], 1)
        self.grid.setColumnStretchFactor(_VIEW[1], 1)
        self.frame = pg.GraphicsWidget()
        self.frame.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.frame.setLayout(self.grid)
        self.add_axis("bottom", bottom)
        self.add_axis("left", left)
        self.setCentralItem(self.frame)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.NoContextMenu)
        self.setFrameShape(self.Shape.NoFrame)
        # a cached background would be a bitmap in SVG
        self.setCacheMode(self.CacheModeFlag.CacheNone)
        # pyqtgraph does this while it paints, which would cause a complete second paint.
        self._view.sigStateChanged.connect(self.scene().prepareForPaint)

    def add_axis(self, side: str, axis: pg.AxisItem) -> None:
        """Put an axis at its side: ``left``, ``right`` or ``bottom``."""
        axis.linkToView(self._view)
        axis.setFlag(QGraphicsItem.GraphicsItemFlag.ItemNegativeZStacksBehindParent)
        axis.setZValue(-1)  # grid lines belong behind the data
        self.grid.addItem(axis, *_CELLS[side])
        self._axes[side] = axis
        self.fit_font()

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        if event is not None:  # pyqtgraph's own call
            self.fit_height(event.size().height())
        super().resizeEvent(event)

    def fit_height(self, height: int) -> None:
        """Show or hide the title of the horizontal axis."""
        axis = self._axes["bottom"]
        if isinstance(axis, QuantityAxis):
            low = height < _LOW * self.fontMetrics().height()
            axis.set_low(low and not self.in_picture)

    def viewportEvent(self, event: QEvent) -> bool:
        """Ignore Qt's tooltips of items: they are empty and would hide the plot's own."""
        return event.type() == QEvent.Type.ToolTip or super().viewportEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.left.emit()

    def fit_font(self) -> None:
        """Reserve space for the last number of the horizontal axis if the right edge is free."""
        after = 0 if "right" in self._axes else 0.8 * _label_overhang()
        self.frame.setContentsMargins(0, 4, after, 0)

    def getViewBox(self) -> pg.ViewBox:
        return self._view

    def getAxis(self, side: str) -> pg.AxisItem:
        """The axis at ``left``, ``right`` or ``bottom``. KeyError if there is none."""
        return self._axes[side]

    def addItem(self, item: QGraphicsItem) -> None:
        """Add an item to the data; it does not affect the visible range."""
        self._view.addItem(item, ignoreBounds=True)

    def removeItem(self, item: QGraphicsItem) -> None:
        self._view.removeItem(item)


def room_at_end(length: float, span: float, pixels: float) -> float:
    """How much to add to ``span`` so that an axis of this length has ``pixels`` free."""
    share = min((pixels + _FREE) / max(length, 1.0), _MOST)
    return span * share / (1 - share)
