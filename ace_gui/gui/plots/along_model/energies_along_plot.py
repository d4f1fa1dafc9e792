"""The energies of every expert along the model (ACE, Figs. 4 to 7)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QBrush
from PySide6.QtWidgets import QWidget

# isort: split
import pyqtgraph as pg

from ace_gui.formatting import counted, number_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.along_model.layer_plot import (
    LayersPlot,
    block_starts,
    fit_columns,
    nearest_column,
    same_figures,
    symbol_size,
)
from ace_gui.gui.plots.frame.axes import BlockAxis
from ace_gui.gui.plots.frame.base_plot import quantity_axis
from ace_gui.gui.plots.frame.controls import Choice
from ace_gui.gui.plots.frame.legend import LegendEntry
from ace_gui.gui.plots.frame.points import Points
from ace_gui.gui.theme import DARK, LIGHT, Tokens

EMPTY = "The experts' energies appear here once a base and its experts are open."
_ENERGY_TIP = "‖ΔW‖², the squared Frobenius norm"
_ROLE_TIP = "Show the layers of one role only, joined by lines"
_SYMBOLS = ("o", "s", "t1", "d")  # for experts that share a colour


class EnergiesAlongPlot(LayersPlot):
    """One curve per expert: its energy in every layer, from the model's input to its output.

    Lines are only drawn for a single role: between layers of different roles they mean nothing.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        self._bottom = BlockAxis()
        self._bottom.set_titles("layer, input → output (numbers: block)", "layer")
        self._left = quantity_axis("left", "energy ‖ΔW‖²", "‖ΔW‖²", grid=True)
        self._left.logarithmic = True
        self._roles: tuple[str, ...] = ()
        self._blocks: tuple[int | None, ...] = ()
        self._experts: tuple[str, ...] = ()
        self._colours: dict[str, str] = {}
        self._energies: NDArray[np.float64] = np.zeros((0, 0))
        self._shown = np.zeros(0, dtype=np.intp)
        self._points: dict[str, Points] = {}
        self.role = Choice("Role whose energies are shown", _role_options(()))
        super().__init__(
            name="Energies along the model",
            empty=EMPTY,
            bottom=self._bottom,
            left=self._left,
            toggles=True,
            wraps=False,
            logarithmic=True,
            parent=parent,
        )
        self.role.chosen.connect(self._draw_all)
        self.add_control(self.role)
        self.canvas.getViewBox().setMouseEnabled(x=True, y=False)
        self.legend.toggled.connect(lambda *_: self._draw())
        self._mark = pg.InfiniteLine(angle=90, movable=False)
        self.canvas.addItem(self._mark, ignoreBounds=True)
        self.restyle(self.theme)

    # Data

    def set_layers(
        self,
        names: Sequence[str],
        roles: Sequence[str],
        blocks: Sequence[int | None],
        colours: Mapping[str, str],
    ) -> None:
        """Set the layers and the experts with their colours. Their energies are unknown at
        first."""
        self._set_names(names)
        self._roles, self._blocks = tuple(roles), tuple(blocks)
        self._experts = tuple(colours)
        self._colours = dict(colours)
        self._energies = np.full((len(self._names), len(self._experts)), np.nan)
        self.role.offer(_role_options(self._roles))
        if not self._names or not self._experts:
            self.show_message(EMPTY)
            return
        self._draw_all()
        self.show_canvas()

    def set_figures(self, energies_LT: NDArray[np.float64]) -> None:
        """‖ΔW_t‖²_F of every layer and expert, NaN if unknown."""
        if not same_figures(energies_LT, self._energies):
            self._energies = energies_LT.copy()
            self._draw()

    def clear(self, message: str = "") -> None:
        self.set_layers((), (), (), {})
        self.show_message(message or self.empty)

    def columns(self) -> tuple[FigureColumn, ...]:
        """The energies as a table: one row per shown layer, one column per expert."""
        shown = self._shown
        names = FigureColumn(title="layer", values=[self._names[index] for index in shown])
        roles = FigureColumn(title="role", values=[self._roles[index] for index in shown])
        energies = [
            FigureColumn(
                title=expert,
                values=self._energies[shown, t],
                tip=_ENERGY_TIP,
            )
            for t, expert in enumerate(self._experts)
        ]
        return (names, roles, *energies)

    def name_at(self, row: int) -> str:
        """The layer in a row of ``columns``."""
        return self._names[self._shown[row]]

    def row_of(self, name: str | None) -> int | None:
        """The row of a layer in ``columns``."""
        if name not in self._index:
            return None
        found = np.flatnonzero(self._shown == self._index[name])
        return int(found[0]) if found.size else None

    def fit(self) -> None:
        fit_columns(self, self._shown.size)
        self._fit_heights(self._heights())

    def rescale(self) -> None:
        self._left.logarithmic = self.log_box.isChecked()
        self._left.picture = None
        self._draw()

    def restyle(self, before: Tokens) -> None:  # noqa: ARG002  (both palettes are known)
        self._mark.setPen(pg.mkPen(self.theme.text2, width=1, style=Qt.PenStyle.DotLine))
        for expert, colour in self._colours.items():
            for palette in (LIGHT.expert_colours, DARK.expert_colours):
                if colour in palette:
                    index = palette.index(colour)
                    self._colours[expert] = self.theme.expert_colours[index]
                    break
        self._draw()

    # Drawing

    def _draw_all(self) -> None:
        role = self.role.current
        shown = [i for i, other in enumerate(self._roles) if role in (None, other)]
        self._shown = np.array(shown, dtype=np.intp)
        self._bottom.set_blocks(
            block_starts([self._blocks[index] for index in shown]),
            len([self._blocks[index] for index in shown]),
        )
        fit_columns(self, self._shown.size)
        self._draw()

    def _heights(self) -> NDArray[np.float64]:
        """Shown layers × experts: vertical positions; zero does not exist on a logarithmic axis."""
        energies = self._energies[self._shown]
        if not self.log_box.isChecked():
            return energies
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(energies > 0, np.log10(energies), np.nan)

    def _draw(self) -> None:
        entries = self._entries()
        self.legend.set_entries(entries)
        self._make_items()
        heights, x = self._heights(), np.arange(self._shown.size, dtype=np.float64)
        self._fit_heights(heights)
        size = max(symbol_size(self._shown.size) - 2, 4)
        one_role = self.role.current is not None
        for entry, y in zip(entries, heights.T, strict=True):
            curve, points = self.items[entry.key], self._points[entry.key]
            known, on = np.isfinite(y), self.legend.is_on(entry.key)
            curve.setData(
                x, y, pen=pg.mkPen(entry.colour, width=1) if one_role else None, connect="finite"
            )
            brush = _brush(entry.colour)
            points.setData(x=x[known], y=y[known], size=size, symbol=entry.symbol, brush=brush)
            curve.setVisible(on and one_role)
            points.setVisible(on)
        self._describe_figures()
        self._draw_selection()
        self.changed.emit()

    def _make_items(self) -> None:
        """Create a curve and points per expert; existing ones are kept."""
        if tuple(self.items) == self._experts:
            return
        for item in (*self.items.values(), *self._points.values()):
            self.canvas.removeItem(item)
        self.items = {expert: pg.PlotCurveItem() for expert in self._experts}
        self._points = {expert: Points(pen=pg.mkPen(None)) for expert in self._experts}
        for item in (*self.items.values(), *self._points.values()):
            self.canvas.addItem(item, ignoreBounds=True)

    def _entries(self) -> list[LegendEntry]:
        used: dict[str, int] = {}
        entries = []
        for expert in self._experts:
            colour = self._colours[expert]
            symbol = _SYMBOLS[used.get(colour, 0) % len(_SYMBOLS)]
            used[colour] = used.get(colour, 0) + 1
            entries.append(LegendEntry(key=expert, label=expert, colour=colour, symbol=symbol))
        return entries

    def _on(self) -> list[int]:
        return [t for t, expert in enumerate(self._experts) if self.legend.is_on(expert)]

    def _fit_heights(self, heights: NDArray[np.float64]) -> None:
        shown = heights[:, self._on()]
        known = shown[np.isfinite(shown)]
        if known.size:
            low = float(known.min()) if self.log_box.isChecked() else 0.0
            high = max(float(known.max()), low + (0.5 if self.log_box.isChecked() else 1e-300))
            self.canvas.getViewBox().setYRange(low, high, padding=0.08)

    def _describe_figures(self) -> None:
        self.title.set_whole(
            "{experts} in {matrices}".format(
                experts=counted(len(self._experts), "expert", "experts"),
                matrices=counted(self._shown.size, "matrix", "matrices"),
            )
        )
        totals = np.nansum(self._energies[self._shown], axis=0)
        words = (
            f"{e} {number_text(v, 3)}" for e, v in zip(self._experts, totals, strict=True) if v > 0
        )
        self.setAccessibleDescription(
            "Energies over the layers shown: {energies}".format(energies=", ".join(words))
        )

    def _draw_selection(self) -> None:
        position = self.row_of(self.selected)
        self._mark.setVisible(position is not None)
        if position is not None:
            self._mark.setValue(position)
        self._show_caption()

    def _describe(self, index: int) -> str:
        energies = zip(self._experts, self._energies[index], strict=True)
        words = ", ".join(f"{e} {number_text(v, 3)}" for e, v in energies if np.isfinite(v))
        return f"{self._names[index]}: {words or 'not known yet'}"

    @property
    def hint(self) -> str:
        return "Choose a layer to see its energies; the legend hides experts."

    # Mouse and keyboard

    def layer_at(self, scene_position: QPointF) -> int | None:
        """Index of the layer whose column is at this position."""
        column = nearest_column(self, scene_position, self._shown.size)
        return None if column is None else int(self._shown[column])

    def _walk(self) -> Sequence[int]:
        return [int(index) for index in self._shown]


@lru_cache(maxsize=64)
def _brush(colour: str) -> QBrush:
    """One object per colour: pyqtgraph caches a symbol's drawing for each."""
    return pg.mkBrush(colour)


def _role_options(roles: Iterable[str]) -> dict[Hashable, tuple[str, str]]:
    """None means all roles."""
    every: dict[Hashable, tuple[str, str]] = {None: ("All roles", _ROLE_TIP)}
    return every | {role: (role, _ROLE_TIP) for role in roles}
