"""The distribution of the entries of the task vectors, compared with Gaussians (ACE, Fig. 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

# isort: split
import pyqtgraph as pg

from ace_gui.engine.contract.figures.findings import LayerDistribution
from ace_gui.formatting import counted
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.frame.base_plot import Plot, quantity_axis
from ace_gui.gui.plots.frame.colours import in_theme
from ace_gui.gui.plots.frame.legend import LegendEntry
from ace_gui.gui.plots.one_layer.gaussian import expected_counts
from ace_gui.gui.theme import Tokens

EMPTY: Final = "Choose a layer to see how its changes are distributed."
GAUSSIAN: Final = "Gaussian"
_LEAST: Final = 0.5  # counts; start of a logarithmic axis


class HistogramPlot(Plot):
    """One stepped curve per expert, over the dashed Gaussian of its mean and deviation."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self._left = quantity_axis("left", "entries in a bin", "entries", grid=True)
        self._distribution: LayerDistribution | None = None
        self._colours: dict[str, str] = {}
        self._steps: dict[str, pg.PlotDataItem] = {}
        self._gaussians: dict[str, pg.PlotDataItem] = {}
        super().__init__(
            name="Distribution of the changes in the layer",
            empty=EMPTY,
            bottom=quantity_axis("bottom", "entry of ΔW"),
            left=self._left,
            toggles=True,
            logarithmic=True,
            parent=parent,
        )
        self.canvas.getViewBox().setMouseEnabled(x=True, y=False)
        self.legend.toggled.connect(lambda *_: self._show_switched_on())

    def show_distribution(
        self, distribution: LayerDistribution, expert_colours: Mapping[str, str]
    ) -> None:
        """Draw ``distribution``; ``expert_colours`` maps each expert's name to "#rrggbb"."""
        self.set_busy(False)
        if distribution is self._distribution and self._colours == expert_colours:
            return
        self._distribution, self._colours = distribution, dict(expert_colours)
        self.title.set_whole(distribution.name)
        self.caption.set_whole(_caption(distribution))
        self.setAccessibleDescription(f"{distribution.name}. {self.caption.whole}")
        self._draw()
        self.show_canvas()

    def clear(self, message: str = "") -> None:
        """Show ``message`` instead of the histograms."""
        self.set_busy(False)
        self._distribution = None
        self.show_message(message or EMPTY)

    @property
    def distribution(self) -> LayerDistribution | None:
        """The drawn distribution; None for a message."""
        return self._distribution

    def columns(self) -> tuple[FigureColumn, ...]:
        """The histograms as a table, one row per bin."""
        distribution = self._distribution
        if distribution is None:
            return ()
        return (
            FigureColumn(title="from", values=distribution.edges[:-1]),
            FigureColumn(title="to", values=distribution.edges[1:]),
            *(
                FigureColumn(title=name, values=counts, tip="entries in the bin")
                for name, counts in distribution.counts.items()
            ),
        )

    def restyle(self, before: Tokens) -> None:  # noqa: ARG002  (colours are the expert's)
        self._draw()

    def rescale(self) -> None:
        self._draw()

    def fit(self) -> None:
        distribution = self._distribution
        if distribution is None:
            return
        edges, view = distribution.edges, self.canvas.getViewBox()
        shown = [c for name, c in distribution.counts.items() if self.legend.is_on(_key(name))]
        most = max((float(counts.max(initial=0)) for counts in shown), default=0.0)
        least = _LEAST if self.log_box.isChecked() else 0.0
        low, high = (float(h) for h in self._heights(np.array([least, max(most, 1.0)])))
        view.setLimits(xMin=float(edges[0]), xMax=float(edges[-1]))
        view.setXRange(float(edges[0]), float(edges[-1]), padding=0)
        view.setYRange(low, high, padding=0.03)

    # Drawing

    def _draw(self) -> None:
        distribution = self._distribution
        if distribution is None:
            return
        self._left.logarithmic = self.log_box.isChecked()
        self._left.picture = None
        colours = {
            name: in_theme(self._colours.get(name, self.theme.text2), self.theme)
            for name in distribution.counts
        }
        self.legend.set_entries(self._entries(colours))
        for items in (self._gaussians, self._steps):
            for name in items.keys() - colours.keys():
                self.canvas.removeItem(items.pop(name))
        for name, colour in colours.items():
            self._draw_gaussian(distribution, name, colour)
            self._draw_steps(distribution, name, colour)
        self._show_switched_on()
        self.fit()

    def _entries(self, colours: Mapping[str, str]) -> list[LegendEntry]:
        dash = Qt.PenStyle.DashLine
        gaussian = LegendEntry(
            key=GAUSSIAN, label=GAUSSIAN, colour=self.theme.text2, style=dash, width=1.2
        )
        experts = (
            LegendEntry(key=_key(name), label=name, colour=colour, width=1.6)
            for name, colour in colours.items()
        )
        return [*experts, gaussian]

    def _draw_steps(self, distribution: LayerDistribution, name: str, colour: str) -> None:
        corners = np.repeat(distribution.edges, 2)[1:-1]
        heights = np.repeat(self._heights(distribution.counts[name].astype(np.float64)), 2)
        if name not in self._steps:
            self._steps[name] = self._new_item(depth=1)
        self._steps[name].setData(corners, heights, pen=pg.mkPen(colour, width=1.6))

    def _draw_gaussian(self, distribution: LayerDistribution, name: str, colour: str) -> None:
        edges, counts = distribution.edges, distribution.counts[name]
        total = int(counts.sum()) + distribution.outside[name]
        moments = distribution.means[name], distribution.deviations[name]
        expected = self._heights(expected_counts(edges, total, *moments))
        pen = pg.mkPen(colour, width=1.2, style=Qt.PenStyle.DashLine)
        if name not in self._gaussians:
            self._gaussians[name] = self._new_item(depth=0)
        self._gaussians[name].setData((edges[:-1] + edges[1:]) / 2, expected, pen=pen)

    def _new_item(self, *, depth: int) -> pg.PlotDataItem:
        """Reused for the next layer, because creating it is slower than drawing."""
        item = pg.PlotDataItem(connect="finite")
        item.setZValue(depth)
        self.canvas.addItem(item, ignoreBounds=True)
        item.setClipToView(True)
        return item

    def _heights(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Counts, or log10 of them and NaN below ``_LEAST``."""
        if not self.log_box.isChecked():
            return counts
        return np.log10(np.where(counts >= _LEAST, counts, np.nan))

    def _show_switched_on(self) -> None:
        for name, item in self._steps.items():
            item.setVisible(self.legend.is_on(_key(name)))
        for name, item in self._gaussians.items():
            item.setVisible(self.legend.is_on(_key(name)) and self.legend.is_on(GAUSSIAN))


def _key(name: str) -> str:
    return f"expert {name}"


def _caption(distribution: LayerDistribution) -> str:
    outside = sum(distribution.outside.values())
    if not outside:
        return ""
    return counted(
        outside,
        "%n entry lies further from zero than is drawn.",
        "%n entries lie further from zero than is drawn.",
    )
