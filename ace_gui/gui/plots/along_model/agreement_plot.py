"""How well ACE's covariances match the inputs, along the model, compared with a baseline.

L layers.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from enum import Enum, auto
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, Qt
from PySide6.QtWidgets import QWidget

# isort: split
import pyqtgraph as pg

from ace_gui.engine.contract.figures.covariance_match import CovarianceMatch, mean_match
from ace_gui.formatting import number_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.along_model.layer_plot import (
    LayersPlot,
    block_starts,
    fit_columns,
    nearest_column,
    symbol_size,
)
from ace_gui.gui.plots.frame.axes import BlockAxis, block_spans
from ace_gui.gui.plots.frame.base_plot import quantity_axis
from ace_gui.gui.plots.frame.controls import Choice
from ace_gui.gui.plots.frame.legend import LegendEntry
from ace_gui.gui.plots.frame.marks import Bands
from ace_gui.gui.theme import Tokens

EMPTY: Final = "The agreement of every layer appears here once covariances are compared."
FIGURE, REFERENCE = "figure", "reference"


class Agreement(Enum):
    """The figures to choose from."""

    EXPERTS = auto()
    DIRECTIONS = auto()


_OPTIONS: Final[Mapping[Hashable, tuple[str, str]]] = {
    Agreement.EXPERTS: (
        "Own and others' inputs",
        (
            "Centred cosine of each expert's estimate with its own inputs, and with those of the "
            "other experts"
        ),
    ),
    Agreement.DIRECTIONS: (
        "Leading directions",
        "Share of the inputs' leading directions that the estimate finds",
    ),
}
_AXES: Final = {
    Agreement.EXPERTS: ("centred cosine", "cosine"),
    Agreement.DIRECTIONS: ("overlap of leading directions", "overlap"),
}
_NAMES: Final = {  # of the figure, and of its baseline
    Agreement.EXPERTS: ("own inputs", "others' inputs"),
    Agreement.DIRECTIONS: ("estimate", "chance"),
}
_TITLES: Final = {
    Agreement.EXPERTS: "Estimates agree more with own inputs in {count} of {all} layers",
    Agreement.DIRECTIONS: "The overlap is above chance in {count} of {all} layers",
}


class AgreementPlot(LayersPlot):
    """One point per layer, averaged over the experts, joined to its baseline."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self._bottom = BlockAxis()
        self._left = quantity_axis("left", *_AXES[Agreement.EXPERTS], grid=True)
        self._means: dict[str, CovarianceMatch] = {}
        self.shown = Choice(
            "Figure to show",
            _OPTIONS,
        )
        super().__init__(
            name="Covariances along the model",
            empty=EMPTY,
            bottom=self._bottom,
            left=self._left,
            wraps=False,
            parent=parent,
        )
        self.shown.chosen.connect(self.rescale)
        self.add_control(self.shown)
        self.canvas.getViewBox().setMouseEnabled(x=True, y=False)
        self._stems = pg.PlotCurveItem(connect="pairs")
        self._points = {key: pg.ScatterPlotItem() for key in (REFERENCE, FIGURE)}
        self._mark = pg.InfiniteLine(angle=90, movable=False)
        self._bands = Bands()
        for item in (self._bands, self._stems, *self._points.values(), self._mark):
            self.canvas.addItem(item, ignoreBounds=True)

    # Data

    def set_layers(self, names: Sequence[str], blocks: Sequence[int | None]) -> None:
        """Set the layers."""
        self._set_names(names)
        starts, count = block_starts(blocks), len(names)
        self._bottom.set_blocks(starts, count)
        self._bands.set_spans([span for span, _ in block_spans(starts, count)][::2])
        fit_columns(self, count)

    def set_matches(self, matches: Mapping[str, Sequence[CovarianceMatch]]) -> None:
        """Draw the compared layers, averaged over the experts."""
        self._means = {
            name: mean_match(own, name, own[0].role)
            for name, own in matches.items()
            if name in self._index and own
        }
        if not self._means:
            self.show_message(EMPTY)
            return
        self._draw()
        self.show_canvas()

    def columns(self) -> tuple[FigureColumn, ...]:
        """All figures as a table, one row per compared layer."""
        shown = [self._means[name] for name in self._compared()]

        def column(title: str, attribute: str) -> FigureColumn:
            values = [getattr(each, attribute) for each in shown]
            numbers = [np.nan if value is None else value for value in values]
            return FigureColumn(title=title, values=np.array(numbers, dtype=np.float64))

        return (
            FigureColumn(title="layer", values=[each.name for each in shown]),
            FigureColumn(title="role", values=[each.role for each in shown]),
            column("centred cosine", "centred"),
            column("others' inputs", "others"),
            column("overlap", "overlap"),
            column("chance", "chance"),
            column("cosine", "cosine"),
        )

    def name_at(self, row: int) -> str:
        """The layer in a row of ``columns``."""
        return self._compared()[row]

    def row_of(self, name: str | None) -> int | None:
        """The row of a layer in ``columns``."""
        return self._compared().index(name) if name in self._means else None

    def _compared(self) -> list[str]:
        return [name for name in self._names if name in self._means]

    def restyle(self, before: Tokens) -> None:  # noqa: ARG002  (nothing here depends on it)
        self._draw()

    def rescale(self) -> None:
        self._draw()

    def fit(self) -> None:
        _, figure_L, reference_L = self._heights()
        both = np.concatenate([figure_L, reference_L])
        known = both[np.isfinite(both)]
        if known.size:
            low = min(float(known.min()), 0.0)
            self.canvas.getViewBox().setYRange(low, max(float(known.max()), 0.1), padding=0.08)

    # Drawing

    def _heights(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Indices of the compared layers, their figures, and their baselines."""
        indices = [self._index[name] for name in self._compared()]
        pairs = np.array([self._pair(self._means[name]) for name in self._compared()])
        figure_L, reference_L = pairs.reshape(-1, 2).T.astype(np.float64)
        return np.array(indices, dtype=np.float64), figure_L, reference_L

    def _pair(self, mean: CovarianceMatch) -> tuple[float, float]:
        if self.shown.current is Agreement.DIRECTIONS:
            return mean.overlap, mean.chance
        return mean.centred, np.nan if mean.others is None else mean.others

    def _draw(self) -> None:
        if not self._means:
            return
        self._left.set_titles(*_AXES[self.shown.current])
        theme, size = self.theme, symbol_size(len(self._names))
        names = _NAMES[self.shown.current]
        looks = {FIGURE: (theme.accent, theme.accent), REFERENCE: (theme.axis, theme.card)}
        self.legend.set_entries(
            [
                LegendEntry(key=key, label=name, colour=looks[key][0], symbol="o")
                for key, name in zip((FIGURE, REFERENCE), names, strict=True)
            ]
        )
        x_L, figure_L, reference_L = self._heights()
        both = np.stack([reference_L, figure_L], axis=1).ravel()
        whole = np.isfinite(reference_L).repeat(2)
        pen = pg.mkPen(theme.edge, width=2)
        self._stems.setData(x_L.repeat(2)[whole], both[whole], pen=pen)
        for key, y_L in ((REFERENCE, reference_L), (FIGURE, figure_L)):
            known = np.isfinite(y_L)
            colour, fill = looks[key]
            self._points[key].setData(
                x=x_L[known],
                y=y_L[known],
                size=size,
                pen=pg.mkPen(colour, width=1.6),
                brush=pg.mkBrush(fill),
            )
        self._mark.setPen(pg.mkPen(theme.text2, width=1, style=Qt.PenStyle.DotLine))
        self._bands.set_colour(theme.sunk)
        self.title.set_whole(self._heading())
        self.setAccessibleDescription(f"{self._heading()}; {self._mean()}")
        self.fit()
        self._draw_selection()
        self.changed.emit()

    def _heading(self) -> str:
        """In how many layers the figure exceeds its baseline."""
        _, figure_L, reference_L = self._heights()
        known = np.isfinite(reference_L)
        return _TITLES[self.shown.current].format(
            count=int((figure_L[known] > reference_L[known]).sum()), all=int(known.sum())
        )

    def _mean(self) -> str:
        """Both figures averaged over the layers."""
        _, figure_L, reference_L = self._heights()
        known = np.isfinite(reference_L)
        if not known.any():
            return ""
        pair = float(figure_L[known].mean()), float(reference_L[known].mean())
        return f"mean {self._text(pair)}"

    def _draw_selection(self) -> None:
        self._mark.setVisible(self._selected is not None)
        known = self.selected if self.selected in self._means else None
        here = "" if known is None else self._text(self._pair(self._means[known]))
        if self._selected is not None:
            self._mark.setValue(self._selected)
        text = f"here {here}" if here else ""
        self.caption.set_whole(" · ".join(filter(None, (self._mean(), text))))
        self.caption.setVisible(self.message() is None)

    def _text(self, pair: tuple[float, float]) -> str:
        """Both figures as text."""
        both = zip(_NAMES[self.shown.current], pair, strict=True)
        return ", ".join(f"{word} {number_text(v, 2)}" for word, v in both if np.isfinite(v))

    def _describe(self, index: int) -> str:
        name = self._names[index]
        known = self._means.get(name)
        return f"{name}: {'not known yet' if known is None else self._text(self._pair(known))}"

    def nearest(self, scene_position: QPointF) -> int | None:
        """Index of the layer whose column is at this position."""
        return nearest_column(self, scene_position, len(self._names))
