"""Scores by task: base, the merge, and the task's own expert, with standard errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.models.task_figures_model import figure_words, score_text
from ace_gui.gui.plots.frame.bars_plot import BarsPlot
from ace_gui.gui.plots.frame.colours import in_theme
from ace_gui.gui.plots.frame.spec import Axis, Bar, Curve, PlotSpec
from ace_gui.gui.state.found.known_scores import Figure
from ace_gui.gui.text import sentence_case
from ace_gui.gui.theme import Tokens

_WIDTH, _STEP = 0.25, 0.29  # parts of a group's width
_MERGE: Final = 1  # its place among base, merge and expert


@dataclass(frozen=True, kw_only=True)
class ScoreGroup:
    """The bars of one task, or of the mean. ``colour``: the expert's, "" for the mean."""

    title: str
    bars: tuple[Figure, Figure, Figure]
    colour: str = ""
    is_mean: bool = False


class ScoreBarsPlot(BarsPlot):
    """The merge is filled, base and expert are outlined. Numbers are above the bars."""

    called = "Scores by task"
    empty = "Scores appear here once the models have been evaluated."
    upright = True

    def show_scores(self, groups: Sequence[ScoreGroup], merge: str, quantity: str) -> None:
        """Draw these. ``merge``: the name of the merged model; ``quantity``: what is plotted."""
        names = ("base", merge, "expert")

        def words(index: int) -> str:
            group = groups[index]
            known = [pair for pair in zip(names, group.bars, strict=True) if _known(pair[1])]
            return f"{group.title}: " + ", ".join(f"{n} {figure_words(bar)}" for n, bar in known)

        self.present(
            lambda theme: PlotSpec(
                title=sentence_case(f"{quantity} by task"),
                curves=_legend(theme),
                bars=[
                    _bar(n, series, group, theme)
                    for n, group in enumerate(groups)
                    for series, bar in enumerate(group.bars)
                    if _known(bar)
                ],
                x=Axis(names=[group.title for group in groups]),
                strong_groups=[n for n, group in enumerate(groups) if group.is_mean],
                bar_width=_WIDTH,
                words=words,
                columns=lambda: _columns(groups, names),
                description="; ".join(map(words, range(len(groups)))),
            )
        )


def _bar(index: int, series: int, group: ScoreGroup, theme: Tokens) -> Bar:
    figure = group.bars[series]
    expert = in_theme(group.colour, theme) or theme.axis
    return Bar(
        group=index,
        value=figure.value,
        text=score_text(figure.value).removeprefix("0"),
        colour=(theme.base, theme.merged, expert)[series],
        offset=(series - _MERGE) * _STEP,
        error=figure.error if math.isfinite(figure.error) else 0.0,
        strong=series == _MERGE,
        outlined=series != _MERGE,
    )


def _legend(theme: Tokens) -> list[Curve]:
    entries = (
        ("base", "base", theme.base),
        ("merge", "merged", theme.merged),
        ("expert", "its expert, in colour", theme.axis),
    )
    return [
        Curve(key=k, label=label, y=np.zeros(0), colour=c, symbol="s", filled=k == "merge")
        for k, label, c in entries
    ]


def _columns(groups: Sequence[ScoreGroup], names: Sequence[str]) -> list[FigureColumn]:
    """The figures and their standard errors as a table."""
    found = [FigureColumn(title="task", values=[group.title for group in groups])]
    for index, name in enumerate(names):
        bars = [group.bars[index] for group in groups]
        found.append(FigureColumn(title=name, values=np.array([bar.value for bar in bars])))
        errors = np.array([bar.error for bar in bars])
        found.append(FigureColumn(title=f"± {name}", values=errors, tip="Standard error."))
    return found


def _known(bar: Figure) -> bool:
    return math.isfinite(bar.value)
