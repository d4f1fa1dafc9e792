"""Plots of whole merges: figures, scores by task, tuning, learning, the rank of an adapter."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import Qt

from ace_gui.engine.contract.events import EnergyByRank
from ace_gui.engine.contract.scored import TunePoint
from ace_gui.field_info import is_wide
from ace_gui.formatting import counted, number_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.models.scores_models import figure_words, score_text
from ace_gui.gui.plots.frame.bars_and_cells import BarsPlot
from ace_gui.gui.plots.frame.spec import PlotAxis, PlotBar, PlotCurve, PlotMark, PlotSpec
from ace_gui.gui.plots.frame.spec_plot import SpecPlot
from ace_gui.gui.state.known_scores import ScoreFigure
from ace_gui.gui.text import sentence_case, value_text
from ace_gui.gui.widgets.controls import Choice

EMPTY: Final = "Merge with several methods to compare them."
NOT_TUNED: Final = "Choose a parameter and a range, and start: the curve grows merge by merge."


@dataclass(frozen=True)
class MergePoint:
    """A merge in a plot. ``current``: it is the window's merge, or the best of a search."""

    title: str
    x: float
    y: float
    current: bool = False


class MergeBars(BarsPlot):
    """One figure of every merge as a bar, in the order of the merges."""

    called = "Merges by one figure"
    empty = EMPTY

    def show_merges(self, figure: str, points: Sequence[MergePoint]) -> None:
        """Draw ``x`` of each merge, from the top. ``figure``: the name of ``x``."""
        if not points:
            self.clear()
            return
        figures = [number_text(point.x, 3) for point in points]
        words = [f"{point.title} {text}" for point, text in zip(points, figures, strict=True)]
        self.present(
            PlotSpec(
                title=figure,
                bars=[
                    PlotBar(
                        group=index,
                        value=point.x,
                        text=figures[index],
                        colour="merged" if point.current else "control",
                        strong=point.current,
                    )
                    for index, point in enumerate(points)
                ],
                y=PlotAxis(names=[point.title for point in points]),
                words=words.__getitem__,
                columns=lambda: _merge_columns(points, figure)[:2],
                description=f"{figure}: {', '.join(words)}",
            )
        )


class MergeScatter(SpecPlot):
    """A figure of each merge, against the norm of its change or against a parameter."""

    called = "Norm of the change and result of every merge"
    empty = EMPTY
    toggles = False

    def show_merges(self, figure: str, points: Sequence[MergePoint], parameter: str = "") -> None:
        """Draw the merges. ``figure``: the name of ``y``; ``parameter``: the name of ``x``, "" for
        the norm."""
        if not points:
            self.clear()
            return
        values = [point.x for point in points]
        wide = bool(parameter) and is_wide(min(values), max(values))
        described = ", ".join(f"{p.title} {p.y:.3g} at {p.x:.3g}" for p in points)
        if parameter:
            title = f"{figure} by {parameter}"
        else:
            title = f"{figure} against norm"
        room = max(values) + 0.3 * max(max(values) - min(values), 0.1)  # for the names
        x = PlotAxis(
            title=parameter or "norm of the change / experts' mean",
            logarithmic=wide,
            high=None if parameter else room,
            padding=0.06,
        )
        self.present(
            PlotSpec(
                title=title,
                curves=[*_points(points, joined=bool(parameter))],
                x=x,
                y=PlotAxis(title=figure, padding=0.12),
                columns=lambda: _merge_columns(points, parameter or "norm", figure),
                description=f"{title}: {described}",
            )
        )


class TuneCurvePlot(SpecPlot):
    """The score of each parameter value on the half of the data that is used for the search.

    One dot per merge, joined if one parameter is searched; the best is filled.
    """

    called = "Score by parameter value"
    empty = NOT_TUNED
    toggles = False

    def show_points(
        self,
        points: Sequence[TunePoint],
        name: str,
        label: str,
        *,
        logarithmic: bool,
        best: TunePoint | None,
    ) -> None:
        """Draw the points along the parameter ``name``, displayed as ``label``."""
        scored = [point for point in points if point.score is not None]
        if not scored:
            self.clear("The first merge is running …")
            return
        scored.sort(key=lambda point: float(point.parameters[name]))
        shown_points = [
            MergePoint(_words(p), float(p.parameters[name]), p.score or 0.0, p is best)
            for p in scored
        ]
        texts = [f"{p.title}, chosen" if p.current else p.title for p in shown_points]
        self.present(
            PlotSpec(
                title=f"Score by {label}",
                curves=[*_points(shown_points, texts, joined=len(scored[0].parameters) == 1)],
                x=PlotAxis(title=label, logarithmic=logarithmic, padding=0.06),
                y=PlotAxis(title="score on the half used for the search", padding=0.12),
                columns=lambda: _tune_columns(scored),
                description="; ".join(texts),
            )
        )


def _points(
    points: Sequence[MergePoint], texts: Sequence[str] = (), *, joined: bool
) -> Iterator[PlotCurve]:
    """The current merge, then the others, with names, or ``joined`` along a parameter.

    ``texts``: the words for each merge instead of its figures.
    """
    words = texts or [f"{p.title}: {p.y:.3g} at {p.x:.3g}" for p in points]
    for current in (True, False):
        chosen = [(index, point) for index, point in enumerate(points) if point.current == current]
        yield PlotCurve(
            key="current" if current else "others",
            label="",
            x=np.array([point.x for _, point in chosen]),
            y=np.array([point.y for _, point in chosen]),
            colour="merged" if current else "control",
            width=0,
            symbol="o",
            size=12 if current else 9,
            filled=current,
            names=["" if joined or texts else point.title for _, point in chosen],
            words=[words[index] for index, _ in chosen].__getitem__,
            indices=tuple(index for index, _ in chosen),
            strong=current,
            in_legend=False,
        )
    if joined:
        order = sorted(points, key=lambda point: point.x)
        x = np.array([p.x for p in order])
        y = np.array([p.y for p in order])
        look: dict[str, Any] = {"colour": "merged", "width": 1.8, "in_legend": False}
        yield PlotCurve(key="curve", label="", x=x, y=y, **look)


def _merge_columns(
    points: Sequence[MergePoint], across: str, figure: str = ""
) -> list[FigureColumn]:
    return [
        FigureColumn("merge", [point.title for point in points]),
        FigureColumn(across, np.array([point.x for point in points])),
        FigureColumn(figure, np.array([point.y for point in points])),
    ]


def _tune_columns(points: Sequence[TunePoint]) -> list[FigureColumn]:
    """Every parameter, the score, and the time in seconds."""
    figures = {name: [float(p.parameters[name]) for p in points] for name in points[0].parameters}
    figures["score"] = [float(point.score or 0.0) for point in points]
    figures["seconds"] = [point.seconds for point in points]
    return [FigureColumn(title, np.array(v)) for title, v in figures.items()]


def _words(point: TunePoint) -> str:
    values = ", ".join(f"{name} {value_text(v)}" for name, v in point.parameters.items())
    return f"{values}: {number_text(point.score or 0.0, 4)}"


# parts of a group's width
_WIDTH = 0.25
_STEP = 0.29
_HALF: Final = 0.45  # of a line at chance
_MERGE: Final = 1  # index of the merge among base, merge and expert


@dataclass(frozen=True, kw_only=True)
class ScoreGroup:
    """The bars of one task, or of the mean. ``colour``: the expert's, "" for the mean."""

    title: str
    bars: tuple[ScoreFigure, ScoreFigure, ScoreFigure]
    colour: str = ""
    chance: float = math.nan
    """The score of answers at random; NaN if unknown."""
    is_mean: bool = False


class ScoreBarsPlot(BarsPlot):
    """The merge is filled, base and expert are outlined. Numbers are above the bars."""

    called = "Scores by task"
    empty = "Scores appear here once the models have been evaluated."
    upright = True

    def show_scores(self, groups: Sequence[ScoreGroup], merge: str, quantity: str) -> None:
        """Draw the groups. ``merge``: the merged model's name; ``quantity``: the plotted figure."""
        names = ("base", merge, "expert")

        def words(index: int) -> str:
            group = groups[index]
            known_pairs = [
                pair for pair in zip(names, group.bars, strict=True) if _is_known(pair[1])
            ]
            parts = [f"{n} {figure_words(bar)}" for n, bar in known_pairs]
            if math.isfinite(group.chance):
                parts.append(f"chance {score_text(group.chance)}")
            return f"{group.title}: {', '.join(parts)}"

        self.present(
            PlotSpec(
                title=sentence_case(f"{quantity} by task"),
                curves=[*_legend(), *_chances(groups)],
                bars=[
                    _bar(n, series, group)
                    for n, group in enumerate(groups)
                    for series, bar in enumerate(group.bars)
                    if _is_known(bar)
                ],
                x=PlotAxis(names=[group.title for group in groups]),
                strong_groups=[n for n, group in enumerate(groups) if group.is_mean],
                bar_width=_WIDTH,
                words=words,
                columns=lambda: _score_columns(groups, names),
                description="; ".join(map(words, range(len(groups)))),
            )
        )


def _bar(index: int, series: int, group: ScoreGroup) -> PlotBar:
    figure = group.bars[series]
    return PlotBar(
        group=index,
        value=figure.value,
        text=score_text(figure.value).removeprefix("0"),
        colour=("base", "merged", group.colour or "axis")[series],
        offset=(series - _MERGE) * _STEP,
        error=figure.error if math.isfinite(figure.error) else 0.0,
        strong=series == _MERGE,
        outlined=series != _MERGE,
    )


def _legend() -> list[PlotCurve]:
    entries = (
        ("base", "base", "base"),
        ("merge", "merged", "merged"),
        ("expert", "its expert, in colour", "axis"),
    )
    return [
        PlotCurve(key=k, label=label, y=np.zeros(0), colour=c, symbol="s", filled=k == "merge")
        for k, label, c in entries
    ]


def _chances(groups: Sequence[ScoreGroup]) -> list[PlotCurve]:
    """A line across the bars of each task at the score of answers at random."""
    if not any(math.isfinite(group.chance) for group in groups):
        return []
    ends = [(n - _HALF, n + _HALF, n + _HALF) for n in range(len(groups))]
    heights = [(group.chance, group.chance, math.nan) for group in groups]
    return [
        PlotCurve(
            key="chance",
            label="chance",
            x=np.array(ends).ravel(),
            y=np.array(heights).ravel(),
            colour="text2",
            style=Qt.PenStyle.DashLine,
            width=1.4,
        )
    ]


def _score_columns(groups: Sequence[ScoreGroup], names: Sequence[str]) -> list[FigureColumn]:
    """The figures and their standard errors as a table."""
    columns = [FigureColumn("task", [group.title for group in groups])]
    for index, name in enumerate(names):
        bars = [group.bars[index] for group in groups]
        columns.append(FigureColumn(name, np.array([bar.value for bar in bars])))
        errors = np.array([bar.error for bar in bars])
        columns.append(FigureColumn(f"± {name}", errors, "Standard error."))
    chances = np.array([group.chance for group in groups])
    if np.isfinite(chances).any():
        columns.append(FigureColumn("chance", chances, "The score of answers at random."))
    return columns


def _is_known(bar: ScoreFigure) -> bool:
    return math.isfinite(bar.value)


LOSSES = "losses"
FIGURES = "figures"
WINDOW: Final = 20
"""Number of steps averaged in a loss curve, because batches differ."""


class LearningPlot(SpecPlot):
    """One line per task or per expert, with its name at its end."""

    called = "Learning, step by step"
    empty = "A method that learns from data, such as AdaMerging, draws its loss here, step by step."
    named_ends = True
    wraps = False

    def __init__(self) -> None:
        super().__init__()
        self.keep_title()
        self.shown = Choice("Figures to show", {LOSSES: "Loss"})
        self.shown.chosen.connect(self.rescale)
        self.add_control(self.shown)

    def show_steps(
        self,
        losses: Mapping[str, Sequence[float]],
        figures: Mapping[str, Sequence[float]],
        curve: str,
        colours: Mapping[str, str],
    ) -> None:
        """Draw losses or figures by step. ``curve``: the figures' name; ``colours``: by name."""
        loss, figure = map(_arrays, (losses, figures))
        if not any(map(len, figure.values())):
            self.clear()
            return
        self.shown.offer(
            {
                LOSSES: ("Loss", f"Mean of {WINDOW} steps for each task"),
                FIGURES: (sentence_case(curve), "Mean over the tensors for each expert"),
            }
        )

        def spec() -> PlotSpec:
            by_task = self.shown.current == LOSSES
            drawn = {name: running_mean(y) for name, y in loss.items()} if by_task else figure
            look = {name: colours.get(name, "merged") for name in drawn}
            curves = [
                PlotCurve(key=name, label=name, y=y, colour=look[name], width=1.8, end=name)
                for name, y in drawn.items()
            ]
            return PlotSpec(
                title="Loss of every task" if by_task else sentence_case(curve),
                curves=curves,
                x=PlotAxis(title="step", counts=True, low=1.0, padding=0.01),
                y=PlotAxis(title="loss" if by_task else curve, padding=0.08),
                columns=lambda: _step_columns(loss, figure, curve),
                position=lambda x: f"step {x:.0f}",
                description="; ".join(map(_last, curves)),
            )

        self.present(spec)


_Arrays = Mapping[str, NDArray[np.float64]]


def _arrays(values: Mapping[str, Sequence[float]]) -> _Arrays:
    return {name: np.array(column, dtype=float) for name, column in values.items()}


def _step_columns(losses: _Arrays, figures: _Arrays, curve: str) -> list[FigureColumn]:
    """Every step, its losses before averaging, and the figures."""
    count = max(map(len, figures.values()), default=0)
    return [
        FigureColumn("step", np.arange(1, count + 1)),
        *(FigureColumn(f"loss of {name}", _filled(loss, count)) for name, loss in losses.items()),
        *(FigureColumn(name, _filled(figure, count), curve) for name, figure in figures.items()),
    ]


def _last(curve: PlotCurve) -> str:
    """The last value of a curve as text."""
    if not len(curve.y):
        return curve.label
    return f"{curve.label}: {number_text(float(curve.y[-1]), 4)} at step {len(curve.y)}"


def running_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of each value and those before it, at most ``WINDOW`` values in all."""
    if not len(values):
        return values
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - WINDOW, 0)
    means: NDArray[np.float64] = (sums[ends] - sums[starts]) / (ends - starts)
    return means


def _filled(values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    return np.concatenate([values, np.full(max(count - len(values), 0), np.nan)])


class KeptEnergyPlot(SpecPlot):
    """The mean share of energy over all matrices, with the chosen rank or share marked."""

    called = "Share of the change kept, by rank"

    def show_shares(self, by_rank: EnergyByRank, rank: int | None, energy: float | None) -> None:
        """Draw the curve with the chosen ``rank`` or share of ``energy`` marked."""
        shares = np.array(by_rank.shares)
        matrices = counted(by_rank.matrices, "matrix", "matrices")
        if rank is None:
            mark = PlotMark(value=energy or 0.0, label=f"{energy:.1%} of each matrix", share=0.7)
            choice = f"each matrix gets the rank that keeps {energy:.1%}"
        else:
            end = min(rank, len(shares))
            share_text = f"{shares[end - 1]:.1%}"
            mark = PlotMark(value=end, label=f"rank {rank}: {share_text}", upright=True, share=0.08)
            choice = f"rank {rank} keeps {share_text}"

        curve = PlotCurve(
            key="kept",
            label="kept",
            y=shares,
            colour="merged",
            width=1.8,
            symbol="o" if len(shares) == 1 else "",
            words=lambda index: f"{shares[index]:.1%}",
            in_legend=False,
        )
        self.present(
            PlotSpec(
                title="Share of the change kept",
                sentence=f"Mean of {matrices}: {choice}.",
                curves=[curve],
                x=PlotAxis(title="rank", counts=True, low=1.0, padding=0.01),
                y=PlotAxis(title="share of energy", low=0.0, high=1.05),
                marks=[mark],
                columns=lambda: [
                    FigureColumn("rank", np.arange(1, len(shares) + 1)),
                    FigureColumn("share of energy", shares),
                ],
                position=lambda x: f"rank {x:.0f}",
                description=f"Mean of {matrices}: {choice}.",
            )
        )
