"""γ by block and role: one column per block, so that the rows are roles across the depth."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from math import inf, isfinite, log10

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QWidget

from ace_gui.gui.plots.along_model.gamma_plot import treated_alike

# isort: split
import pyqtgraph as pg

from ace_gui.formatting import number_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.along_model.gamma_plot import EMPTY, LOWEST_LOG, tau_text
from ace_gui.gui.plots.along_model.layer_plot import LayersPlot, same_figures
from ace_gui.gui.plots.frame.axes import NameAxis, NameColumnsAxis
from ace_gui.gui.plots.frame.legend import LegendEntry
from ace_gui.gui.plots.frame.points import Points
from ace_gui.gui.theme import Tokens

NO_BLOCKS = "No layer here belongs to a numbered block."
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)|^\d+(?=\.)")
_MAP = "cividis"  # even steps of lightness, equal for every kind of colour vision
_BAR_LABELS = 58  # pixels
_SHORTEST = 0.5  # minimum range of the colours in decades


class RoleMapPlot(LayersPlot):
    """One cell per layer: its column is the block, its row the position within the block.

    The arrow keys move between cells. ``tau`` marks the heterogeneous ones with a dot.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        self._bottom = NameColumnsAxis()
        self._bottom.setLabel("block, input → output")
        self._rows_axis = NameAxis(share=0.25)
        self._roles: tuple[str, ...] = ()
        self._labels: tuple[str, ...] = ()
        self._outside = 0
        self._source = np.zeros(0, dtype=np.intp)
        self._blocks: tuple[int, ...] = ()
        self._column = np.zeros(0, dtype=np.intp)
        self._row = np.zeros(0, dtype=np.intp)
        self._gamma = np.zeros(0)
        self._tau = 0.3
        super().__init__(
            name="Heterogeneity by block and role",
            empty=EMPTY,
            bottom=self._bottom,
            left=self._rows_axis,
            wraps=False,
            parent=parent,
        )
        self.canvas.getViewBox().setMouseEnabled(x=False, y=False)
        self.canvas.getViewBox().invertY(True)
        self._make_items()
        self.restyle(self.theme)

    # Data

    def set_layers(
        self, names: Sequence[str], roles: Sequence[str], blocks: Sequence[int | None]
    ) -> None:
        """Set the layers that belong to a block. Their γ is unknown at first."""
        inside = [i for i, block in enumerate(blocks) if block is not None]
        self._set_names([names[i] for i in inside])
        self._outside = len(names) - len(inside)
        self._source = np.array(inside, dtype=np.intp)
        self._gamma = np.full(len(inside), np.nan)
        if not inside:
            self.show_message(NO_BLOCKS if names else EMPTY)
            return
        self._roles = tuple(roles[i] for i in inside)
        self._arrange([int(blocks[i] or 0) for i in inside])
        self.show_canvas()
        self.fit()
        self._draw()

    def set_figures(self, gamma_L: NDArray[np.float64]) -> None:
        """γ of every layer passed to ``set_layers``, NaN if unknown."""
        gamma = gamma_L[self._source]
        if not same_figures(gamma, self._gamma):
            self._gamma = gamma
            self._draw()

    def set_tau(self, tau: float) -> None:
        """Mark the cells with γ > ``tau``."""
        if tau != self._tau:
            self._tau = tau
            self._draw_regimes()

    def clear(self, message: str = "") -> None:
        self.set_layers((), (), ())
        self.show_message(message or self.empty)

    def columns(self) -> tuple[FigureColumn, ...]:
        """The map as a table: one row per block, one column per role."""
        grid = np.full((len(self._blocks), len(self._labels)), np.nan)
        grid[self._column, self._row] = self._gamma
        titles = [f"γ, {label}" for label in self._labels]
        return (
            FigureColumn(title="block", values=np.array(self._blocks, dtype=np.int64)),
            *(FigureColumn(title=t, values=grid[:, row]) for row, t in enumerate(titles)),
        )

    def row_of(self, name: str | None) -> int | None:
        """The row of a layer's block in ``columns``."""
        index = self._index.get(name) if name is not None else None
        return None if index is None else int(self._column[index])

    def fit(self) -> None:
        view = self.canvas.getViewBox()
        view.setXRange(-0.5, len(self._blocks) - 0.5, padding=0)
        view.setYRange(-0.5, len(self._labels) - 0.5, padding=0)
        self._name_cells()

    def rescale(self) -> None:
        self._draw()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._name_cells()

    # Drawing

    def _make_items(self) -> None:
        self.image = pg.ImageItem(axisOrder="row-major")
        self.dots = Points(symbol="o", size=6)
        self._frame = pg.QtWidgets.QGraphicsRectItem()
        self._frame.setZValue(2)
        for item in (self.image, self.dots, self._frame):
            self.canvas.addItem(item, ignoreBounds=True)
        colours = pg.colormap.get(_MAP)
        self._bar = pg.ColorBarItem(interactive=False, colorMap=colours, width=12)
        self._bar.axis.setWidth(_BAR_LABELS)
        self._bar.axis.setStyle(hideOverlappingLabels=False)
        self._bar.setImageItem(self.image, insert_in=self.canvas.frame)

    def restyle(self, before: Tokens) -> None:  # noqa: ARG002  (nothing here depends on it)
        theme = self.theme
        self.dots.setBrush(pg.mkBrush("#ffffff"))
        self.dots.setPen(pg.mkPen("#000000", width=1))
        self._frame.setPen(pg.mkPen(theme.text, width=3))
        self._bar.axis.setLabel("γ", color=theme.text2)
        self._bar.axis.setTextPen(pg.mkPen(theme.text2))
        self._bar.axis.setPen(pg.mkPen(theme.text2))
        self._draw()

    def _arrange(self, blocks: Sequence[int]) -> None:
        """A column per block, and a row per name that is equal except for the block number."""
        slots = [_NUMBER.sub("#", name, count=1) for name in self._names]
        rows = {slot: row for row, slot in enumerate(dict.fromkeys(slots))}
        roles = dict(zip(slots, self._roles, strict=True))
        once = [role for role, same in groupby(sorted(roles.values())) if len(list(same)) == 1]
        self._labels = tuple(
            role if role in once else f"{role}: {_short(slot)}"
            for slot, role in ((slot, roles[slot]) for slot in rows)
        )
        self._blocks = tuple(sorted(set(blocks)))
        columns = {block: column for column, block in enumerate(self._blocks)}
        self._row = np.array([rows[slot] for slot in slots], dtype=np.intp)
        self._column = np.array([columns[block] for block in blocks], dtype=np.intp)

    def _name_cells(self) -> None:
        """Draw as many names of blocks and rows as fit."""
        self._bottom.set_names([str(block) for block in self._blocks], self.canvas.width())
        height = self.canvas.getViewBox().height() / max(len(self._labels), 1)
        stride = max(1, int(np.ceil(self.fontMetrics().height() / max(height, 1.0))))
        shown = [label if i % stride == 0 else "" for i, label in enumerate(self._labels)]
        self._rows_axis.set_names(shown, self.width())

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
        low, high = self._levels()
        grid = np.full((len(self._labels), len(self._blocks)), np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.clip(np.log10(self._gamma), low, high)
        grid[self._row, self._column] = logs
        self.image.setImage(grid, levels=(low, high), rect=_rect(grid.shape))
        self._bar.setLevels((low, high))
        self._draw_regimes()
        self._draw_selection()
        self.changed.emit()

    def _draw_regimes(self) -> None:
        above = np.flatnonzero(self._gamma > self._tau)
        self.dots.setData(x=self._column[above], y=self._row[above])
        low, high = self._levels()
        ticks = [(float(t), number_text(10.0**t, 1)) for t in _ticks(low, high)]
        at = log10(self._tau) if 0 < self._tau < inf else low - 1
        near = (high - low) / 12
        ticks = [(position, text) for position, text in ticks if abs(position - at) > near]
        if low <= at <= high:
            ticks.append((at, tau_text(self._tau)))
        self._bar.axis.setTicks([ticks])
        dot = LegendEntry(
            key="dot",
            label="heterogeneous: γ > τ",
            colour=self.theme.text,
            symbol="o",
            filled=False,
        )
        self.legend.set_entries([dot] if isfinite(self._tau) else [])
        count = len(self._names)
        parts = [f"{above.size} of {count} matrices heterogeneous"]
        if self._tau == inf:
            parts = [treated_alike(count)]
        if self._outside:
            parts.append(f"{self._outside} outside the blocks are not shown")
        text = "; ".join(parts)
        self.title.set_whole(text)
        self.title.setVisible(self.message() is None)
        self.setAccessibleDescription(f"{tau_text(self._tau)}: {text}. {self.caption.whole}")

    def _draw_selection(self) -> None:
        index = self._selected
        self._frame.setVisible(index is not None)
        if index is not None:
            at = QRectF(self._column[index] - 0.5, self._row[index] - 0.5, 1, 1)
            self._frame.setRect(at)
        self._show_caption()

    def _describe(self, index: int) -> str:
        gamma = self._gamma[index]
        block = self._blocks[self._column[index]]
        known = "γ not known" if np.isnan(gamma) else f"γ = {number_text(gamma, 3)}"
        position = f"block {block}"
        return " · ".join([known, position, self._roles[index], self._names[index]])

    @property
    def hint(self) -> str:
        return "Choose a cell to see the layer's spectrum."

    # Mouse and keyboard

    def layer_at(self, scene_position: QPointF) -> int | None:
        """Index of the layer in the cell at this position."""
        view = self.canvas.getViewBox()
        if not view.sceneBoundingRect().contains(scene_position):
            return None
        at = view.mapSceneToView(scene_position)
        return self._cell(round(at.x()), round(at.y()))

    def _cell(self, column: int, row: int) -> int | None:
        found = np.flatnonzero((self._column == column) & (self._row == row))
        return int(found[0]) if found.size else None

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {
            Qt.Key.Key_Right: (1, 0),
            Qt.Key.Key_Left: (-1, 0),
            Qt.Key.Key_Down: (0, 1),
            Qt.Key.Key_Up: (0, -1),
        }
        at, key = self._selected, Qt.Key(event.key())
        if at is None or key not in steps or self.message() is not None:
            super().keyPressEvent(event)
            return
        across, down = steps[key]
        column, row = self._column[at] + across, self._row[at] + down
        while 0 <= column < len(self._blocks) and 0 <= row < len(self._labels):
            index = self._cell(column, row)
            if index is not None:
                self._choose(index)
                return
            column, row = column + across, row + down


def _rect(shape: tuple[int, ...]) -> QRectF:
    return QRectF(-0.5, -0.5, shape[1], shape[0])


def _ticks(low: float, high: float) -> NDArray[np.float64]:
    """Positions of round numbers on a logarithmic scale, few enough to be readable."""
    decades = np.arange(np.floor(low), np.ceil(high) + 1)
    inside = decades[(decades >= low) & (decades <= high)]
    if inside.size >= 2:
        return inside
    finer = np.concatenate([decades + log10(digit) for digit in (1, 2, 5)])
    return np.sort(finer[(finer >= low) & (finer <= high)])


def _short(slot: str) -> str:
    """The part after the block number, without the tensor's own last name."""
    return slot.rpartition("#.")[2].removesuffix(".weight")
