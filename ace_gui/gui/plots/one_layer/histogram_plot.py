"""The distribution of the entries of the task vectors, compared with Gaussians (ACE, Fig. 3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from ace_gui.engine.contract.figures.findings import LayerDistribution
from ace_gui.formatting import counted
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.frame.colours import in_theme
from ace_gui.gui.plots.frame.spec import Axis, Curve, PlotSpec
from ace_gui.gui.plots.frame.spec_plot import SpecPlot
from ace_gui.gui.plots.one_layer.gaussian import expected_counts
from ace_gui.gui.theme import Tokens

EMPTY: Final = "Choose a layer to see how its changes are distributed."
GAUSSIAN: Final = "Gaussian"
_LEAST: Final = 0.5  # counts; start of a logarithmic axis


class HistogramPlot(SpecPlot):
    """One stepped curve per expert, over the dashed Gaussian of its mean and deviation."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self.distribution: LayerDistribution | None = None
        """The drawn distribution; None for a message."""
        self._colours: dict[str, str] = {}
        name = "Distribution of the changes in the layer"
        super().__init__(name=name, empty=EMPTY, logarithmic=True, parent=parent)

    def show_distribution(
        self, distribution: LayerDistribution, expert_colours: Mapping[str, str]
    ) -> None:
        """Draw ``distribution``; ``expert_colours`` maps each expert's name to "#rrggbb"."""
        if distribution is self.distribution and self._colours == expert_colours:
            self.set_busy(False)
            return
        self.distribution, self._colours = distribution, dict(expert_colours)
        self.present(lambda theme: self._spec(distribution, theme))

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
            x=Axis(titles=("entry of ΔW",), low=float(edges[0]), high=float(edges[-1])),
            y=Axis(
                titles=("entries in a bin", "entries"),
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
        "%n entry lies further from zero than is drawn.",
        "%n entries lie further from zero than is drawn.",
    )
