"""The distribution of the entries of the task vectors, compared with Gaussians (ACE, Fig. 3)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import Qt

from ace_gui.engine.contract.figures.findings import LayerDistribution
from ace_gui.formatting import counted
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.frame.colours import in_theme
from ace_gui.gui.plots.frame.spec import Axis, Curve, PlotSpec
from ace_gui.gui.plots.frame.spec_plot import SpecPlot
from ace_gui.gui.theme import Tokens

GAUSSIAN: Final = "Gaussian"
TAIL: Final = 3.0
"""Start of the tail, in standard deviations from the mean."""

GAUSSIAN_TAIL: Final = math.erfc(TAIL / math.sqrt(2))
"""Share of a Gaussian's entries in its tails, 0.27 %."""
_LEAST: Final = 0.5  # counts; start of a logarithmic axis


class HistogramPlot(SpecPlot):
    """One stepped curve per expert, over the dashed Gaussian of its mean and deviation."""

    called = "Distribution of the changes in the layer"
    empty = "Choose a layer to see how its changes are distributed."
    logarithmic_first = True

    def __init__(self) -> None:
        self.distribution: LayerDistribution | None = None
        """The drawn distribution; None for a message."""
        self._colours: dict[str, str] = {}
        super().__init__()

    def show_distribution(
        self, distribution: LayerDistribution, expert_colours: Mapping[str, str]
    ) -> None:
        """Draw ``distribution``; ``expert_colours`` maps each expert's name to "#rrggbb"."""
        self.distribution, self._colours = distribution, dict(expert_colours)
        self.present(lambda theme: self._spec(distribution, theme), distribution, self._colours)

    def clear(self, message: str = "") -> None:
        self.distribution = None
        super().clear(message)

    def _spec(self, found: LayerDistribution, theme: Tokens) -> PlotSpec:
        logarithmic = self.log_box.isChecked()
        edges = found.edges
        colours = {
            name: in_theme(self._colours.get(name, theme.text2), theme) for name in found.counts
        }
        gaussian = Curve(
            key=GAUSSIAN,
            label=GAUSSIAN,
            y=np.zeros(0),
            colour=theme.text2,
            style=Qt.PenStyle.DashLine,
            width=1.2,
        )
        return PlotSpec(
            title=found.name,
            sentence=_caption(found),
            curves=[*_steps(found, colours), gaussian, *_gaussians(found, colours)],
            x=Axis(title="entry of ΔW", low=float(edges[0]), high=float(edges[-1])),
            y=Axis(
                title="entries in a bin",
                low=float(np.log10(_LEAST)) if logarithmic else 0.0,
                padding=0.03,
            ),
            columns=lambda: _columns(found),
            logarithmic_choice=True,
            position=lambda x: f"around {x:.3g}".replace("-", "−"),
        )


def _steps(found: LayerDistribution, colours: Mapping[str, str]) -> Iterator[Curve]:
    corners = np.repeat(found.edges, 2)[1:-1]
    for name, colour in colours.items():
        y = np.repeat(found.counts[name].astype(np.float64), 2)

        def words(index: int, counts: np.ndarray = y) -> str:
            return counted(int(counts[index]), "%n entry", "%n entries")

        yield Curve(
            key=_key(name), label=name, x=corners, y=y, colour=colour, floor=_LEAST, words=words
        )


def _gaussians(found: LayerDistribution, colours: Mapping[str, str]) -> Iterator[Curve]:
    middles = (found.edges[:-1] + found.edges[1:]) / 2
    for name, colour in colours.items():
        total = int(found.counts[name].sum()) + found.outside[name]
        moments = found.means[name], found.deviations[name]
        yield Curve(
            key=f"{GAUSSIAN} {name}",
            label="",
            x=middles,
            y=expected_counts(found.edges, total, *moments),
            colour=colour,
            style=Qt.PenStyle.DashLine,
            width=1.2,
            floor=_LEAST,
            with_keys=(_key(name), GAUSSIAN),
            in_legend=False,
        )


def _columns(found: LayerDistribution) -> list[FigureColumn]:
    """One row per bin."""
    return [
        FigureColumn(title="from", values=found.edges[:-1]),
        FigureColumn(title="to", values=found.edges[1:]),
        *(
            FigureColumn(title=name, values=counts, tip="entries in the bin")
            for name, counts in found.counts.items()
        ),
    ]


def _key(name: str) -> str:
    return f"expert {name}"


def _caption(distribution: LayerDistribution) -> str:
    outside = sum(distribution.outside.values())
    if not outside:
        return ""
    return counted(
        outside,
        "%n entry lies outside the plot.",
        "%n entries lie outside the plot.",
    )


def expected_counts(
    edges: NDArray[np.float64], count: int, mean: float, deviation: float
) -> NDArray[np.float64]:
    """The expected number of ``count`` Gaussian entries in each of the B bins; NaN without
    deviation."""
    if deviation == 0:
        return np.full(len(edges) - 1, np.nan)
    below = [0.5 * math.erfc(-z / math.sqrt(2)) for z in (edges - mean) / deviation]
    return count * np.diff(below)


def tail_share(
    edges: NDArray[np.float64],
    counts_B: NDArray[np.int64],
    outside: int,
    mean: float,
    deviation: float,
) -> float:
    """Share of the entries further than ``TAIL`` standard deviations from the mean.

    Entries are assumed to be spread evenly within a bin; those outside the bins count as tail. NaN
    without entries, without deviation, or if the bins end before the tail starts.
    """
    total = int(counts_B.sum()) + outside
    low, high = mean - TAIL * deviation, mean + TAIL * deviation
    if total == 0 or deviation == 0 or (outside and (low < edges[0] or high > edges[-1])):
        return math.nan
    below = np.concatenate([[0], np.cumsum(counts_B)])
    inside = float(np.interp(high, edges, below) - np.interp(low, edges, below))
    return 1 - inside / total
