"""γ by block and role, with one column per block, so that a row shows a role along the depth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf, log10
from typing import Any

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFontMetricsF, QKeyEvent
from PySide6.QtWidgets import QGraphicsRectItem

from ace_gui.formatting import number_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.frame.bars_and_cells import CellsPlot
from ace_gui.gui.plots.frame.spec import PlotAxis, PlotCells, PlotCurve, PlotSpec
from ace_gui.gui.plots.gamma_plot import (
    EMPTY,
    LOWEST_LOG,
    UNRELIABLE_LABEL,
    tau_text,
    treated_alike,
)
from ace_gui.gui.plots.layers_plot import LayersPlot, slot_of
from ace_gui.gui.theme import Face, face

NO_BLOCKS = "No layer here belongs to a numbered block."
_MAP = "cividis"  # its lightness grows evenly, for every kind of colour vision
_WIDEST = "τ = 0.30"  # the widest number next to the colour bar
_SHORTEST = 0.5  # minimum range of the colours in decades


class RoleMapPlot(LayersPlot, CellsPlot):
    """One cell per layer, in the column of its block and the row of its place in the block.

    The arrow keys move between cells. A dot marks layers with γ > τ.
    """

    called = "Heterogeneity by block and role"
    empty = EMPTY
    wraps = False

    def __init__(self) -> None:
        self._tau = 0.3
        super().__init__()
        self.canvas.getAxis("bottom").setLabel("block, input → output")
        self._frame = QGraphicsRectItem()
        self._frame.setZValue(2)
        self.canvas.addItem(self._frame)
        self._map = pg.colormap.get(_MAP)
        self._bar = pg.ColorBarItem(interactive=False, colorMap=self._map, width=12)
        self._bar.axis.setStyle(hideOverlappingLabels=False)
        self._bar.axis.label.setRotation(0)
        self._bar.axis.enableAutoSIPrefix(False)
        self.canvas.grid.addItem(self._bar, 2, 5)

    # Data

    def _take_layers(self, same: bool) -> None:
        """Show the layers that belong to a block."""
        layers = self.layers
        inside = [i for i, block in enumerate(layers.blocks) if block is not None]
        self._set_names([layers.names[i] for i in inside])
        self._outside = len(layers.names) - len(inside)
        self._source = np.array(inside, dtype=np.intp)
        self._roles = tuple(layers.roles[i] for i in inside)
        self._arrange([int(layers.blocks[i] or 0) for i in inside])
        if inside:
            self.present(self._spec, zoomed=same)
        else:
            super().clear(NO_BLOCKS if layers.names else "")

    @property
    def _gamma(self) -> NDArray[np.float64]:
        return self.layers.gamma_L[self._source]

    def set_tau(self, tau: float) -> None:
        """Mark the cells with γ > ``tau``."""
        if tau != self._tau:
            self._tau = tau
            self._draw()

    def row_of(self, name: str | None) -> int | None:
        """The row of ``columns`` with the layer's block."""
        index = self._index.get(name or "")
        if index is None:
            return None
        return int(self._column[index])

    def _table(self) -> tuple[FigureColumn, ...]:
        """One row per block, one column per role."""
        grid = self._grid(self._gamma)
        titles = [f"γ, {label}" for label in self._labels]
        return (
            FigureColumn("block", np.array(self._blocks, dtype=np.int64)),
            *(FigureColumn(t, values) for t, values in zip(titles, grid, strict=True)),
        )

    def _grid(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """``values`` as rows × columns; NaN where there is no layer."""
        grid = np.full((len(self._labels), len(self._blocks)), np.nan)
        grid[self._row, self._column] = values
        return grid

    def _arrange(self, blocks: Sequence[int]) -> None:
        """Assign a column to each block, and a row to each name without its block number."""
        slots = [slot_of(name) for name in self._names]
        rows = {slot: row for row, slot in enumerate(dict.fromkeys(slots))}
        roles = dict(zip(slots, self._roles, strict=True))
        count = Counter(roles.values())
        self._labels = tuple(
            role if count[role] == 1 else f"{role}: {_short(slot)}"
            for slot, role in ((slot, roles[slot]) for slot in rows)
        )
        self._blocks = tuple(sorted(set(blocks)))
        columns = {block: column for column, block in enumerate(self._blocks)}
        self._row = np.array([rows[slot] for slot in slots], dtype=np.intp)
        self._column = np.array([columns[block] for block in blocks], dtype=np.intp)

    # Drawing

    def _spec(self) -> PlotSpec:
        low, high = self._levels()
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.clip((self._grid(np.log10(self._gamma)) - low) / (high - low), 0.0, 1.0)
        is_finite = np.isfinite(shares)
        colours = np.zeros((*shares.shape, 4), dtype=np.uint8)  # transparent
        colours[is_finite] = self._map.map(shares[is_finite], mode="byte")
        above = np.flatnonzero(self._gamma > self._tau_L)
        unsure = np.flatnonzero(self._unreliable())
        dots = self._symbols_at(above, "dot", "heterogeneous: γ > τ", symbol="o", filled=False)
        crosses = self._symbols_at(unsure, "cross", UNRELIABLE_LABEL, symbol="x", filled=True)
        count = len(self._names)
        parts = [f"{above.size} of {count} matrices heterogeneous"]
        has_tau = bool(np.isfinite(self._tau_L).any())
        if not has_tau:
            parts = [treated_alike(count)]
        if self._outside:
            parts.append(f"{self._outside} outside the blocks are not shown")
        text = "; ".join(parts)
        return PlotSpec(
            title=text,
            curves=[crosses] * bool(unsure.size) + [dots] * has_tau,
            x=PlotAxis(names=[str(block) for block in self._blocks]),
            y=PlotAxis(names=self._labels),
            cells=PlotCells(colours=colours),
            columns=self._table,
            description=f"{tau_text(self._tau)}: {text}. {self.caption.full_text}",
        )

    def _symbols_at(self, layers: NDArray[np.intp], key: str, label: str, **look: Any) -> PlotCurve:
        """A symbol in the cell of each of these layers."""
        return PlotCurve(
            key=key,
            label=label,
            x=self._column[layers].astype(np.float64),
            y=self._row[layers].astype(np.float64),
            colour="text",
            width=0,
            size=6,
            **look,
        )

    def _unreliable(self) -> NDArray[np.bool_]:
        return self.layers.unreliable(self._tau)[self._source]

    @property
    def _tau_L(self) -> NDArray[np.float64]:
        """The threshold of each layer in the map."""
        return self.layers.tau_L(self._tau)[self._source]

    def _levels(self) -> tuple[float, float]:
        """The range of the colours, in decades."""
        usable = self._gamma[np.isfinite(self._gamma) & (self._gamma > 0)]
        if not usable.size:
            return -1.0, 0.0
        low, high = (float(np.log10(v)) for v in (usable.min(), usable.max()))
        missing = max(_SHORTEST - (high - low), 0.0) / 2
        return max(low - missing, LOWEST_LOG), max(high + missing, LOWEST_LOG + _SHORTEST)

    def _draw(self) -> None:
        if not self._names:
            return
        super()._draw()
        self._frame.setPen(pg.mkPen(self.theme.text, width=3))
        self._draw_bar()
        self._draw_selection()

    def _draw_bar(self) -> None:
        """Draw the scale of the colours with τ on it."""
        ink = self.theme.text2
        axis = self._bar.axis
        (low, high) = self._levels()
        self._bar.setLevels((low, high))
        font = face(Face.CAPTION)
        metrics = QFontMetricsF(font)
        axis.setTickFont(font)
        axis.setWidth(metrics.horizontalAdvance(_WIDEST) + 2.5 * metrics.height())
        axis.setLabel("γ", color=ink)
        axis.setTextPen(pg.mkPen(ink))
        axis.setPen(pg.mkPen(ink))
        if 0 < self._tau < inf:
            at = log10(self._tau)
        else:
            at = low - 1
        near = (high - low) / 12
        ticks = [tick for tick in _ticks(low, high) if abs(tick[0] - at) > near]
        if low <= at <= high:
            ticks.append((at, tau_text(self._tau)))
        axis.setTicks([ticks])

    def _draw_selection(self) -> None:
        index = self._selected
        self._frame.setVisible(index is not None)
        if index is not None:
            at = QRectF(self._column[index] - 0.5, self._row[index] - 0.5, 1, 1)
            self._frame.setRect(at)
        self._show_caption()

    def _describe(self, index: int) -> str:
        gamma = self._gamma[index]
        if np.isnan(gamma):
            gamma_text = "γ not known"
        else:
            gamma_text = f"γ = {number_text(gamma, 3)}"
        if self._unreliable()[index]:
            gamma_text = f"{gamma_text}, unreliable"
        position = f"block {self._blocks[self._column[index]]}"
        return " · ".join([gamma_text, position, self._roles[index], self._names[index]])

    @property
    def hint(self) -> str:
        return "Choose a cell to see the layer's spectrum."

    # Mouse and keyboard

    def layer_at(self, scene_position: QPointF) -> int | None:
        """Index of the layer in the cell at this position."""
        cell = self.cell_at(scene_position)
        if cell is None:
            return None
        return self._cell(*cell)

    def _cell(self, row: int, column: int) -> int | None:
        indices = np.flatnonzero((self._column == column) & (self._row == row))
        if indices.size:
            return int(indices[0])
        return None

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {
            Qt.Key.Key_Right: (0, 1),
            Qt.Key.Key_Left: (0, -1),
            Qt.Key.Key_Down: (1, 0),
            Qt.Key.Key_Up: (-1, 0),
        }
        at = self._selected
        key = Qt.Key(event.key())
        if at is None or key not in steps or self.message() is not None:
            super().keyPressEvent(event)
            return
        down, across = steps[key]
        row = self._row[at] + down
        column = self._column[at] + across
        while 0 <= column < len(self._blocks) and 0 <= row < len(self._labels):
            index = self._cell(row, column)
            if index is not None:
                self._choose(index)
                return
            row = row + down
            column = column + across


def _ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Round numbers of a logarithmic scale: decades, else 1, 2 and 5, else only the two ends."""
    decades = np.arange(np.floor(low), np.ceil(high) + 1)
    finer = np.sort(np.concatenate([decades + log10(digit) for digit in (1, 2, 5)]))
    for numbers in (decades, finer):
        inside = numbers[(numbers >= low) & (numbers <= high)]
        if inside.size >= 2:
            return [(float(value), number_text(10.0**value, 1)) for value in inside]
    return [(value, number_text(10.0**value, 2)) for value in (low, high)]


def _short(slot: str) -> str:
    """The part of a name after its block number, without ``.weight``."""
    return slot.rpartition(".#.")[2].removesuffix(".weight")
