"""How a method learns: the loss on every task, or a learned figure of every expert, by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ace_gui.formatting import number_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.frame.colours import in_theme
from ace_gui.gui.plots.frame.spec import Axis, Curve, PlotSpec
from ace_gui.gui.plots.frame.spec_plot import SpecPlot
from ace_gui.gui.text import sentence_case
from ace_gui.gui.theme import Tokens
from ace_gui.gui.widgets.controls import Choice

LOSSES, FIGURES = "losses", "figures"
WINDOW: Final = 20
"""Number of steps averaged in a loss curve, because batches differ."""


class LearningPlot(SpecPlot):
    """One line per task or per expert, with its name at its end."""

    called = "Learning, step by step"
    empty = "A method that learns from data, such as AdaMerging, draws its loss here, step by step."
    named_ends = True
    wraps = False

    def __init__(self) -> None:
        self._losses: dict[str, NDArray[np.float64]] = {}
        self._figures: dict[str, NDArray[np.float64]] = {}
        self._curve = ""
        self._colours: dict[str, str] = {}
        super().__init__()
        self.keep_title()
        self.shown = Choice("Figures to show", {LOSSES: ("Loss", "")}, self)
        self.shown.chosen.connect(self.rescale)
        self.add_control(self.shown)

    def show_steps(
        self,
        losses: Mapping[str, Sequence[float]],
        figures: Mapping[str, Sequence[float]],
        curve: str,
        colours: Mapping[str, str],
    ) -> None:
        """Draw these, one value per step. ``curve``: the kind of figures; ``colours`` by name."""
        self._losses = {name: np.array(each, dtype=float) for name, each in losses.items()}
        self._figures = {name: np.array(each, dtype=float) for name, each in figures.items()}
        self._curve, self._colours = curve, dict(colours)
        if not any(map(len, self._figures.values())):
            self.clear()
            return
        self.shown.offer(
            {
                LOSSES: ("Loss", f"Mean of {WINDOW} steps for each task"),
                FIGURES: (sentence_case(curve), "Mean over the tensors for each expert"),
            }
        )
        self.present(self._spec)

    def _spec(self, theme: Tokens) -> PlotSpec:
        losses = self.shown.current == LOSSES
        drawn = {n: running_mean(v) for n, v in self._losses.items()} if losses else self._figures
        curves = [
            Curve(
                key=name,
                label=name,
                y=values,
                colour=in_theme(self._colours.get(name, theme.merged), theme),
                width=1.8,
                end=name,
            )
            for name, values in drawn.items()
        ]
        return PlotSpec(
            title="Loss of every task" if losses else sentence_case(self._curve),
            curves=curves,
            x=Axis(title="step", low=1.0, padding=0.01),
            y=Axis(title="loss" if losses else self._curve, padding=0.08),
            columns=self._columns,
            position=lambda x: f"step {x:.0f}",
            description="; ".join(map(_last, curves)),
        )

    def _columns(self) -> Sequence[FigureColumn]:
        """Every step, its losses before averaging, and the figures."""
        count = max(map(len, self._figures.values()), default=0)
        found = [FigureColumn(title="step", values=np.arange(1, count + 1))]
        found += [
            FigureColumn(title=f"loss of {name}", values=_filled(each, count))
            for name, each in self._losses.items()
        ]
        return found + [
            FigureColumn(title=name, values=_filled(each, count), tip=self._curve)
            for name, each in self._figures.items()
        ]


def _last(curve: Curve) -> str:
    """The last value of a curve as text."""
    if not len(curve.y):
        return curve.label
    return f"{curve.label}: {number_text(float(curve.y[-1]), 4)} at step {len(curve.y)}"


def running_mean(values: NDArray[np.float64], window: int = WINDOW) -> NDArray[np.float64]:
    """The mean of each step and those before it, at most ``window`` of them."""
    if not len(values):
        return values
    sums = np.concatenate([[0.0], np.cumsum(values)])
    last = np.arange(1, len(values) + 1)
    first = np.maximum(last - window, 0)
    found: NDArray[np.float64] = (sums[last] - sums[first]) / (last - first)
    return found


def _filled(values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    return np.concatenate([values, np.full(max(count - len(values), 0), np.nan)])
