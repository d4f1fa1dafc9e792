"""Every kind of plot of the window, drawn with made-up figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from ace_gui.engine.contract.events import EnergyByRank
from ace_gui.engine.contract.findings import (
    LayerDifference,
    LayerDistribution,
    LayerReport,
    LayerSpectrum,
    LayerSubspaces,
)
from ace_gui.engine.contract.scored import TunePoint
from ace_gui.gui.plots.frame.base_plot import Plot
from ace_gui.gui.plots.gamma_map_plot import RoleMapPlot
from ace_gui.gui.plots.gamma_plot import EnergiesAlongPlot, GammaPlot
from ace_gui.gui.plots.layers_plot import DifferencePlot, of_merges
from ace_gui.gui.plots.merge_plots import (
    KeptEnergyPlot,
    LearningPlot,
    MergeBars,
    MergePoint,
    MergeScatter,
    ScoreBarsPlot,
    ScoreGroup,
    TuneCurvePlot,
)
from ace_gui.gui.plots.one_layer_plots import (
    AlignmentPlot,
    EnergiesPlot,
    ExpertMatrixPlot,
    HistogramPlot,
)
from ace_gui.gui.plots.spectrum_plot import SpectrumPlot
from ace_gui.gui.state.known_scores import ScoreFigure
from tests.gui.fakes import layer_figures

BLOCKS: Final = 11  # the last has a name where every second or fifth has one, too
EXPERTS: Final = ("cola", "mnli", "sst2")
COLOURS: Final = {name: f"expert {index}" for index, name in enumerate(EXPERTS)}
ROLES: Final = ("query", "key", "value", "MLP up")
NAMES: Final = [f"model.layers.{b}.{role}.weight" for b in range(BLOCKS) for role in ROLES]
LAYERS: Final = layer_figures(
    NAMES,
    ROLES * BLOCKS,
    [block for block in range(BLOCKS) for _ in ROLES],
    gamma=10.0 ** np.linspace(-3, 1, len(NAMES)),
    energies=np.linspace(0.1, 2, 2 * len(NAMES)).reshape(-1, 2),
)
POINTS: Final = [MergePoint(f"method {n}", 0.2 + 0.1 * n, 0.5 + 0.02 * n, n == 1) for n in range(5)]
FALLING: Final = np.sort(np.random.default_rng(0).exponential(size=48))[::-1]


def spectrum(name: str = NAMES[0]) -> LayerSpectrum:
    """A merge that refinement has changed, with three experts."""
    experts = {expert: FALLING * (n + 1) for n, expert in enumerate(EXPERTS)}
    before = np.where(np.arange(FALLING.size) < 5, 0.7 * FALLING, FALLING)
    return LayerSpectrum(
        name=name,
        experts=experts,
        preliminary=before,
        merged=FALLING,
        report=LayerReport(name=name),
    )


def _gammas() -> Plot:
    plot = GammaPlot()
    plot.show_layers(LAYERS)
    return plot


def _by_role() -> Plot:
    plot = RoleMapPlot()
    plot.show_layers(LAYERS)
    return plot


def _energies_along() -> Plot:
    plot = EnergiesAlongPlot()
    plot.show_layers(LAYERS, dict(list(COLOURS.items())[:2]))
    return plot


def _differences() -> Plot:
    plot = DifferencePlot()
    differences = [
        LayerDifference(
            name=name, first_norm=1.0, second_norm=2.0, difference_norm=0.1 + n, cosine=0.5
        )
        for n, name in enumerate(NAMES)
    ]
    plot.show_differences(of_merges(NAMES, {layer.name: layer for layer in differences}))
    return plot


def _bars() -> Plot:
    plot = MergeBars()
    plot.show_merges("norm", POINTS)
    return plot


def _scatter() -> Plot:
    plot = MergeScatter()
    plot.show_merges("mean score", POINTS)
    return plot


def _tuned() -> Plot:
    plot = TuneCurvePlot()
    points = [
        TunePoint(parameters={"tau": value}, index=n, of=3, score=value, seconds=1.0)
        for n, value in enumerate((0.1, 0.5, 0.9))
    ]
    plot.show_points(points, "tau", "τ", logarithmic=False, best=points[2])
    return plot


def _scores() -> Plot:
    plot = ScoreBarsPlot()
    bars = tuple(ScoreFigure(value=value, error=0.02) for value in (0.5, 0.8, 0.9))
    plot.show_scores([ScoreGroup(title=name, bars=bars) for name in EXPERTS], "merged", "accuracy")
    return plot


def _learning() -> Plot:
    plot = LearningPlot()
    losses = {name: list(FALLING * (n + 1)) for n, name in enumerate(EXPERTS)}
    plot.show_steps(losses, losses, "mean coefficient λ", COLOURS)
    return plot


def _energy() -> Plot:
    plot = KeptEnergyPlot()
    plot.show_shares(EnergyByRank(shares=tuple(np.linspace(0.1, 1, 40)), matrices=9), 8, None)
    return plot


def _spectrum() -> Plot:
    plot = SpectrumPlot()
    plot.name_outside()
    plot.show_spectrum(spectrum(), COLOURS)
    return plot


def _energies() -> Plot:
    plot = EnergiesPlot()
    plot.show_energies(NAMES[0], dict(zip(EXPERTS, (0.5, 2.0, 1.0), strict=True)), COLOURS)
    return plot


def _distribution() -> Plot:
    plot = HistogramPlot()
    edges = np.linspace(-4, 4, 102)
    entries = {name: np.random.default_rng(0).normal(size=4000) for name in EXPERTS}
    distribution = LayerDistribution(
        name=NAMES[0],
        edges=edges,
        counts={name: np.histogram(values, edges)[0] for name, values in entries.items()},
        outside=dict.fromkeys(EXPERTS, 0),
        means=dict.fromkeys(EXPERTS, 0.0),
        deviations=dict.fromkeys(EXPERTS, 1.0),
        excess=dict.fromkeys(EXPERTS, 0.0),
    )
    plot.show_distribution(distribution, COLOURS)
    return plot


def _alignment() -> Plot:
    plot = AlignmentPlot()
    cosines = np.linspace(1, 0.2, 20)
    subspaces = LayerSubspaces(
        name=NAMES[0],
        experts=EXPERTS,
        alignment=cosines,
        alignment_right=cosines**2,
        overlap=np.eye(3),
        rank=2,
    )
    plot.show_alignment(subspaces)
    return plot


def _cosines() -> Plot:
    plot = ExpertMatrixPlot("Cosines")
    values = np.array([[1, 0.31, -0.2], [0.31, 1, 0.4], [-0.2, 0.4, 1]])
    plot.show_matrix(NAMES[0], EXPERTS, values, meaning="cosine")
    return plot


DRAWN: Final[dict[type[Plot], tuple[Callable[[], Plot], str]]] = {
    GammaPlot: (_gammas, str(BLOCKS - 1)),
    RoleMapPlot: (_by_role, str(BLOCKS - 1)),
    EnergiesAlongPlot: (_energies_along, str(BLOCKS - 1)),
    DifferencePlot: (_differences, str(BLOCKS - 1)),
    MergeBars: (_bars, "method 4"),
    MergeScatter: (_scatter, "method 4"),
    TuneCurvePlot: (_tuned, "τ"),
    ScoreBarsPlot: (_scores, EXPERTS[-1]),
    LearningPlot: (_learning, EXPERTS[-1]),
    KeptEnergyPlot: (_energy, "40"),
    SpectrumPlot: (_spectrum, EXPERTS[-1]),
    EnergiesPlot: (_energies, EXPERTS[-1]),
    HistogramPlot: (_distribution, EXPERTS[-1]),
    AlignmentPlot: (_alignment, "20"),
    ExpertMatrixPlot: (_cosines, EXPERTS[-1]),
}
"""How each kind of plot is drawn, and the last text that its picture must have."""
