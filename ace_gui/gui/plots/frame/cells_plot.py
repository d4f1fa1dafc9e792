"""The one plot of coloured cells: it draws the cells of a ``PlotSpec``."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QFontMetricsF, QImage, QPainter
from PySide6.QtWidgets import QStyleOptionGraphicsItem, QWidget

# isort: split
import pyqtgraph as pg

from ace_gui.gui.plots.frame.axes import NameAxis
from ace_gui.gui.plots.frame.colours import ink_on
from ace_gui.gui.plots.frame.spec import Cells, PlotSpec
from ace_gui.gui.plots.frame.spec_plot import SpecPlot

_NUMBER_SIZE: Final = 0.9  # of the window's font
_GAP: Final = 0.02
_MOST: Final = 2_000  # rectangles


class _Rectangles(pg.GraphicsObject):
    """Filled rectangles, since an image would be a bitmap in an exported drawing; an image of very
    many, which is drawn faster."""

    def __init__(self) -> None:
        super().__init__()
        self._colours = np.zeros((0, 0, 4), dtype=np.uint8)

    def show_colours(self, colours: NDArray[np.uint8]) -> None:
        """Set the colours: uint8, rows × columns × 4."""
        self.prepareGeometryChange()
        self._colours = np.ascontiguousarray(colours)
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
        down, across, _ = self._colours.shape
        if down * across > _MOST:
            data, kind = self._colours.data, QImage.Format.Format_RGBA8888
            image = QImage(data, across, down, 4 * across, kind)
            painter.drawImage(self.boundingRect(), image)
            return
        side = 1 - 2 * _GAP
        for row, colours in enumerate(self._colours):
            for column, colour in enumerate(colours):
                cell = QRectF(column - 0.5 + _GAP, row - 0.5 + _GAP, side, side)
                painter.fillRect(cell, QColor(*map(int, colour)))


class CellsPlot(SpecPlot):
    """Cells with the names of their rows and columns, and a text in each if all have room."""

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
    def cells(self) -> Cells | None:
        """What is drawn."""
        return None if self.spec is None else self.spec.cells

    def fit(self) -> None:
        if self.cells is not None:
            view = self.canvas.getViewBox()
            down, across, _ = self.cells.colours.shape
            view.setXRange(-0.5, across - 0.5, padding=0)
            view.setYRange(-0.5, down - 0.5, padding=0)

    def cell_at(self, scene_position: QPointF) -> tuple[int, int] | None:
        """Row and column of the cell at a position."""
        view, cells = self.canvas.getViewBox(), self.cells
        if cells is None or not view.sceneBoundingRect().contains(scene_position):
            return None
        at = view.mapSceneToView(scene_position)
        row, column = round(at.y()), round(at.x())
        inside = 0 <= row < len(cells.colours) and 0 <= column < cells.colours.shape[1]
        return (row, column) if inside else None

    def _draw_curves(self, spec: PlotSpec) -> None:
        super()._draw_curves(spec)
        assert spec.cells is not None
        self._rectangles.show_colours(spec.cells.colours)

    def _draw_names(self, spec: PlotSpec) -> None:  # noqa: ARG002  (those of the cells)
        self._part_names()

    def _part_names(self) -> None:
        """The texts in the cells, if the longest has room."""
        self._erase()
        cells = self.cells
        if cells is None:
            return
        font = self.font()
        font.setPointSizeF(_NUMBER_SIZE * font.pointSizeF())
        view, metrics = self.canvas.getViewBox(), QFontMetricsF(font)
        every = [text for texts in cells.texts for text in texts]
        wide = max(map(metrics.horizontalAdvance, every), default=0.0) + 2
        down, across, _ = cells.colours.shape
        if view.width() < wide * across or view.height() < metrics.height() * down:
            return
        for row, texts in enumerate(cells.texts):
            for column, text in enumerate(texts):
                colour = QColor(*map(int, cells.colours[row, column])).name()
                ink = self.theme.text2 if colour == self.theme.grid else ink_on(colour)
                self._write(text, QPointF(column, row), ink, font, anchor=(0.5, 0.5))

    def text_at(self, scene_position: QPointF) -> str:
        found, cells = self.cell_at(scene_position), self.cells
        return "" if found is None or cells is None else cells.words(*found)
