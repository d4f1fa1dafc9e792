"""The plot that draws the bars of a ``PlotSpec``, and the one that draws its coloured cells."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, QSizeF
from PySide6.QtGui import QColor, QFontMetricsF, QPainter
from PySide6.QtWidgets import QStyleOptionGraphicsItem, QWidget

from ace_gui.gui.plots.frame.canvas import NameAxis, QuantityAxis, room_at_end
from ace_gui.gui.plots.frame.items import Bands
from ace_gui.gui.plots.frame.spec import PlotBar, PlotCells, PlotSpec
from ace_gui.gui.plots.frame.spec_plot import SpecPlot
from ace_gui.gui.theme import Face, face

_BAR: Final = 0.62  # of a row
_TEXT_GAP: Final = "\u2002"  # between a bar and its text
_ROWS: Final = 5  # minimum number, so that a few bars are not too thick
_QUARTERS: Final = [0.25 * n for n in range(5)]
_BELOW: Final = 0.012  # space below zero for the axis' line, as a share of the highest bar
_PALE: Final = 48  # of 255: the fill of an outlined bar


class BarsPlot(SpecPlot):
    """Bars from left to right with a row per group, or ``upright`` bars over the groups' names.

    On a logarithmic axis the length of a bar means nothing, so a dot marks the value instead.
    ``point_chosen`` carries the index of a clicked group.
    """

    toggles = False
    holds = False
    upright = False

    def __init__(self) -> None:
        self._parts: list[pg.GraphicsObject] = []
        if self.upright:
            super().__init__(bottom=NameAxis("bottom"))
        else:
            super().__init__(left=NameAxis("left"), bottom=QuantityAxis("bottom", grid=True))
        self._bands = Bands()
        self.canvas.addItem(self._bands)
        view = self.canvas.getViewBox()
        view.setMouseEnabled(x=False, y=False)
        view.invertY(not self.upright)
        view.sigResized.connect(lambda _view: self.fit())

    def fit(self) -> None:
        spec = self.spec
        view = self.canvas.getViewBox()
        if spec is None or not spec.bars:
            return
        low, high = self._span(spec)
        metrics = QFontMetricsF(face(Face.CAPTION_STRONG))
        if self.upright:
            above = max(0.1 * high, room_at_end(view.height(), high - low, metrics.height()))
            count = len(spec.x.names)
            per_px = (count + 1) / max(view.width(), 1.0)
            half = max(metrics.horizontalAdvance(bar.text) for bar in spec.bars) / 2 * per_px
            room = max(0.55, *(abs(bar.offset) + half for bar in spec.bars))
            view.setXRange(-room, count - 1 + room, padding=0)
            view.setYRange(low - _BELOW * high, high + above, padding=0)
            quarters = [[(at, f"{at:g}") for at in _QUARTERS], []]
            fits_default = high > 1.15 or low < 0.0
            self.canvas.getAxis("left").setTicks(None if fits_default else quarters)
            return
        longest = max(metrics.horizontalAdvance(_TEXT_GAP + bar.text) for bar in spec.bars)
        view.setXRange(low, high + room_at_end(view.width(), high - low, longest), padding=0)
        view.setYRange(-0.6, max(len(spec.y.names), _ROWS) - 0.4, padding=0)

    # Drawing

    def _draw_curves(self, spec: PlotSpec) -> None:
        super()._draw_curves(spec)
        for part in self._parts:
            self.canvas.removeItem(part)
        self._parts = []
        self._bands.spans = [(n - 0.46, n + 0.46) for n in spec.strong_groups]
        self._bands.colour = self.theme.sunk
        self._bands.update()
        if not spec.bars:
            return
        values = np.array([self._at(bar.value) for bar in spec.bars])
        across = np.array([bar.group + bar.offset for bar in spec.bars])
        pens, brushes = zip(*map(_pen_and_brush, spec.bars), strict=True)
        look = {"pens": pens, "brushes": brushes}
        if spec.x.logarithmic:
            is_finite = np.isfinite(values)
            brushes_drawn = [brush for brush, on in zip(brushes, is_finite, strict=True) if on]
            dots = pg.ScatterPlotItem(size=11, symbol="o", pen=None)
            dots.setData(x=values[is_finite], y=across[is_finite], brush=brushes_drawn)
            self._add(dots)
        elif self.upright:
            width = spec.bar_width
            self._add(pg.BarGraphItem(x=across, y0=0, height=values, width=width, **look))
            self._draw_errors(spec, across, values)
            self._add(pg.InfiniteLine(pos=0, angle=0, pen=pg.mkPen(self.theme.axis, width=1)))
        else:
            self._add(pg.BarGraphItem(x0=0, y=across, width=values, height=_BAR, **look))

    def _draw_errors(self, spec: PlotSpec, x: np.ndarray, y: np.ndarray) -> None:
        """Draw one standard error up and down, within a filled bar in the colour of the card."""
        errors = np.array([bar.error for bar in spec.bars])
        filled = np.array([not bar.outlined for bar in spec.bars])
        all_bars = np.ones_like(filled)
        none = np.zeros_like(errors)
        for colour, chosen, up, down in (
            (self.theme.text2, all_bars, errors, none),
            (self.theme.text2, ~filled, none, errors),
            (self.theme.card, filled, none, errors),
        ):
            pen = pg.mkPen(colour, width=1.2)
            ends = {"top": up[chosen], "bottom": down[chosen]}
            self._add(pg.ErrorBarItem(x=x[chosen], y=y[chosen], beam=0.06, pen=pen, **ends))

    def _write_names(self) -> None:
        """Write the texts at the bars' ends. Upright bars hide a text that would cover another,
        strong ones last."""
        self._erase()
        spec = self.spec
        if spec is None:
            return
        view = self.canvas.getViewBox()
        taken = list[QRectF]()
        for bar in sorted(spec.bars, key=lambda bar: not bar.strong):
            font = face(Face.CAPTION_STRONG if bar.strong else Face.CAPTION)
            at = self._end(spec, bar)
            if not self.upright:
                self._write(_TEXT_GAP + bar.text, at, self.theme.text, font, anchor=(0, 0.5))
                continue
            metrics = QFontMetricsF(font)
            size = QSizeF(metrics.horizontalAdvance(bar.text), metrics.height())
            corner = view.mapViewToScene(at) - QPointF(size.width() / 2, size.height())
            box = QRectF(corner, size)
            if not any(map(box.intersects, taken)):
                taken.append(box)
                if bar.strong:
                    ink = self.theme.text
                else:
                    ink = self.theme.text2
                self._write(bar.text, at, ink, font, anchor=(0.5, 1))

    def _add(self, item: pg.GraphicsObject) -> None:
        self.canvas.addItem(item)
        self._parts.append(item)

    def _at(self, value: float) -> float:
        """The position of a value; NaN if it is not on the axis."""
        if self.spec is None or not self.spec.x.logarithmic:
            return value
        if value > 0:
            return math.log10(value)
        return math.nan

    def _end(self, spec: PlotSpec, bar: PlotBar) -> QPointF:
        """The end of a bar with its error."""
        along = bar.group + bar.offset
        end = self._at(bar.value + bar.error)
        if self.upright:
            return QPointF(along, end)
        return QPointF(self._span(spec)[0] if math.isnan(end) else end, along)

    def _span(self, spec: PlotSpec) -> tuple[float, float]:
        """The ends of the axis of values: zero and the longest bar, or whole decades."""
        ends = [bar.value + bar.error for bar in spec.bars]
        if spec.x.logarithmic:
            logs = [math.log10(end) for end in ends if end > 0] or [0.0]
            low = math.floor(min(logs))
            return float(low), float(max(math.ceil(max(logs)), low + 1))
        return min([*ends, 0.0]), max([*ends, 0.0]) or 1.0

    # Mouse

    def _group(self, scene_position: QPointF) -> int | None:
        at = self.canvas.getViewBox().mapSceneToView(scene_position)
        index = round(at.x() if self.upright else at.y())
        if self.spec is None or self.message() is not None:
            return None
        if self.upright:
            names = self.spec.x.names
        else:
            names = self.spec.y.names
        if 0 <= index < len(names):
            return index
        return None

    def text_at(self, scene_position: QPointF) -> str:
        group = self._group(scene_position)
        if group is None or self.spec is None:
            return ""
        return self.spec.words(group)

    def choose_at(self, scene_position: QPointF) -> None:
        group = self._group(scene_position)
        if group is not None:
            self.point_chosen.emit(group)


def _pen_and_brush(bar: PlotBar) -> tuple[object, object]:
    if not bar.outlined:
        return pg.mkPen(None), pg.mkBrush(bar.colour)
    pale = QColor(bar.colour)
    pale.setAlpha(_PALE)
    return pg.mkPen(bar.colour, width=1.4), pg.mkBrush(pale)


_NUMBER_SIZE: Final = 0.9  # of the window's font
_CELL_GAP: Final = 0.02
_MIDDLE: Final = 0.05 * (21**0.5 - 1)  # the luminance on which black and white are equally clear


class _Rectangles(pg.GraphicsObject):
    """Cells as filled rectangles: an image would be a bitmap in an exported drawing."""

    def __init__(self) -> None:
        super().__init__()
        self._colours = np.zeros((0, 0, 4), dtype=np.uint8)

    def show_colours(self, colours: NDArray[np.uint8]) -> None:
        """Set the colours: uint8, rows × columns × 4."""
        self.prepareGeometryChange()
        self._colours = colours
        self.update()

    def boundingRect(self) -> QRectF:
        down, across, _ = self._colours.shape
        return QRectF(-0.5, -0.5, across, down)

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionGraphicsItem,  # noqa: ARG002  (Qt's signature)
        widget: QWidget | None = None,  # noqa: ARG002
    ) -> None:
        side = 1 - 2 * _CELL_GAP
        for row, colours in enumerate(self._colours):
            for column, colour in enumerate(colours):
                cell = QRectF(column - 0.5 + _CELL_GAP, row - 0.5 + _CELL_GAP, side, side)
                painter.fillRect(cell, QColor(*map(int, colour)))


class CellsPlot(SpecPlot):
    """Cells with the names of rows and columns, and with texts if the longest fits in a cell."""

    toggles = False
    holds = False

    def __init__(self) -> None:
        self._rectangles = _Rectangles()
        super().__init__(left=NameAxis("left"), bottom=NameAxis("bottom"))
        view = self.canvas.getViewBox()
        view.setMouseEnabled(x=False, y=False)
        view.invertY(True)
        self.canvas.addItem(self._rectangles)

    @property
    def cells(self) -> PlotCells | None:
        if self.spec is None:
            return None
        return self.spec.cells

    def fit(self) -> None:
        if self.cells is not None:
            view = self.canvas.getViewBox()
            down, across, _ = self.cells.colours.shape
            view.setXRange(-0.5, across - 0.5, padding=0)
            view.setYRange(-0.5, down - 0.5, padding=0)

    def cell_at(self, scene_position: QPointF) -> tuple[int, int] | None:
        """Row and column of the cell at a position."""
        view = self.canvas.getViewBox()
        cells = self.cells
        if cells is None or not view.sceneBoundingRect().contains(scene_position):
            return None
        at = view.mapSceneToView(scene_position)
        row = round(at.y())
        column = round(at.x())
        inside = 0 <= row < len(cells.colours) and 0 <= column < cells.colours.shape[1]
        if inside:
            return (row, column)
        return None

    def _draw_curves(self, spec: PlotSpec) -> None:
        super()._draw_curves(spec)
        assert spec.cells is not None
        self._rectangles.show_colours(spec.cells.colours)

    def _write_names(self) -> None:
        """Write the texts in the cells if the longest fits."""
        self._erase()
        cells = self.cells
        if cells is None:
            return
        font = self.font()
        font.setPointSizeF(_NUMBER_SIZE * font.pointSizeF())
        view = self.canvas.getViewBox()
        metrics = QFontMetricsF(font)
        all_texts = [text for texts in cells.texts for text in texts]
        widest = max(map(metrics.horizontalAdvance, all_texts), default=0.0) + 2
        down, across, _ = cells.colours.shape
        if view.width() < widest * across or view.height() < metrics.height() * down:
            return
        for row, texts in enumerate(cells.texts):
            for column, text in enumerate(texts):
                colour = QColor(*map(int, cells.colours[row, column])).name()
                if colour == self.theme.grid:
                    ink = self.theme.text2
                else:
                    ink = ink_on(colour)
                self._write(text, QPointF(column, row), ink, font, anchor=(0.5, 0.5))

    def text_at(self, scene_position: QPointF) -> str:
        cell = self.cell_at(scene_position)
        cells = self.cells
        if cell is None or cells is None:
            return ""
        return cells.words(*cell)


def ink_on(colour: str) -> str:
    """Black or white, whichever has the higher contrast on ``colour``: at least 4.5:1."""
    parts = QColor(colour)
    channels = np.array([parts.redF(), parts.greenF(), parts.blueF()])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    luminance = linear @ (0.2126, 0.7152, 0.0722)  # WCAG 2.2
    if luminance > _MIDDLE:
        return "#000000"
    return "#ffffff"
