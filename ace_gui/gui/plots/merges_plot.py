"""Several merges: one figure as bars, and as points against the norm or a parameter's values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ace_gui.engine.contract.scored.tuned import TunePoint
from ace_gui.formatting import number_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.numbers import value_text
from ace_gui.gui.plots.frame.bars_plot import BarsPlot
from ace_gui.gui.plots.frame.spec import Axis, Bar, Curve, PlotSpec
from ace_gui.gui.plots.frame.spec_plot import SpecPlot
from ace_gui.gui.theme import Tokens

EMPTY: Final = "Merge with several methods to compare them."
NOT_TUNED: Final = "Choose a parameter and a range, and start: the curve grows merge by merge."
_DECADES: Final = 100.0  # minimum ratio of the values for a logarithmic scale


@dataclass(frozen=True)
class MergePoint:
    """A merge in a plot: its title, two figures, and whether it is the window's, or the best."""

    title: str
    x: float
    y: float
    current: bool = False


class MergeBars(BarsPlot):
    """One figure of every merge as a bar, in the given order."""

    called, empty = "Merges by one figure", EMPTY

    def show_merges(self, figure: str, points: Sequence[MergePoint]) -> None:
        """Show ``x`` of these merges, which is ``figure``, from the top."""
        if not points:
            self.clear()
            return
        words = [f"{point.title} {point.x:.3g}" for point in points]
        self.present(
            lambda theme: PlotSpec(
                title=figure,
                bars=[
                    Bar(
                        group=index,
                        value=point.x,
                        text=f"{point.x:.3g}",
                        colour=theme.merged if point.current else theme.control,
                        strong=point.current,
                    )
                    for index, point in enumerate(points)
                ],
                y=Axis(names=[point.title for point in points]),
                words=words.__getitem__,
                columns=lambda: _columns(points, figure)[:2],
                description=f"{figure}: {', '.join(words)}",
            )
        )


class MergeScatter(SpecPlot):
    """A figure of each merge, against how far it moved the model or a parameter's value."""

    called, empty = "Norm of the change and result of every merge", EMPTY
    toggles = False

    def show_merges(self, figure: str, points: Sequence[MergePoint], parameter: str = "") -> None:
        """Show these. ``figure``: the name of ``y``; ``parameter``: that of ``x`` if it is not a
        norm."""
        if not points:
            self.clear()
            return
        values = [point.x for point in points]
        wide = bool(parameter) and min(values) > 0 and max(values) >= _DECADES * min(values)
        described = ", ".join(f"{p.title} {p.y:.3g} at {p.x:.3g}" for p in points)
        title = f"{figure} by {parameter}" if parameter else f"{figure} against norm"
        room = max(values) + 0.3 * max(max(values) - min(values), 0.1)  # for the names
        x = Axis(
            title=parameter or "norm of the change, by the experts' mean",
            logarithmic=wide,
            high=None if parameter else room,
            padding=0.06,
        )
        self.present(
            lambda theme: PlotSpec(
                title=title,
                curves=[*_points(points, theme, joined=bool(parameter))],
                x=x,
                y=Axis(title=figure, padding=0.12),
                columns=lambda: _columns(points, parameter or "norm", figure),
                description=f"{title}: {described}",
            )
        )


class TuneCurvePlot(SpecPlot):
    """The score of each parameter value on the half of the data that is used for the search.

    One dot per merge, joined if one parameter is searched; the best is filled.
    """

    called, empty = "Score by value of the parameter", NOT_TUNED
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
        known = [point for point in points if point.score is not None]
        if not known:
            self.clear("The first merge is running …")
            return
        known.sort(key=lambda point: float(point.parameters[name]))
        shown = [
            MergePoint(_words(p), float(p.parameters[name]), p.score or 0.0, p is best)
            for p in known
        ]
        texts = [f"{p.title}, chosen" if p.current else p.title for p in shown]
        self.present(
            lambda theme: PlotSpec(
                title=f"Score by {label}",
                curves=[*_points(shown, theme, texts, joined=len(known[0].parameters) == 1)],
                x=Axis(title=label, logarithmic=logarithmic, padding=0.06),
                y=Axis(title="score on the half used for the search", padding=0.12),
                columns=lambda: _tune_columns(known),
                description="; ".join(texts),
            )
        )


def _points(
    points: Sequence[MergePoint], theme: Tokens, texts: Sequence[str] = (), *, joined: bool
) -> Iterator[Curve]:
    """The current merge, then the others; named, or ``joined`` along a parameter.

    ``texts``: what is said of them, if not their figures.
    """
    said = texts or [f"{p.title}: {p.y:.3g} at {p.x:.3g}" for p in points]
    for current in (True, False):
        own = [(index, point) for index, point in enumerate(points) if point.current == current]
        yield Curve(
            key="current" if current else "others",
            label="",
            x=np.array([point.x for _, point in own]),
            y=np.array([point.y for _, point in own]),
            colour=theme.merged if current else theme.control,
            width=0,
            symbol="o",
            size=12 if current else 9,
            filled=current,
            names=["" if joined or texts else point.title for _, point in own],
            words=[said[index] for index, _ in own].__getitem__,
            indices=tuple(index for index, _ in own),
            strong=current,
            in_legend=False,
        )
    if joined:
        order = sorted(points, key=lambda point: point.x)
        x, y = np.array([p.x for p in order]), np.array([p.y for p in order])
        look: dict[str, Any] = {"colour": theme.merged, "width": 1.8, "in_legend": False}
        yield Curve(key="curve", label="", x=x, y=y, **look)


def _columns(points: Sequence[MergePoint], across: str, figure: str = "") -> list[FigureColumn]:
    return [
        FigureColumn(title="merge", values=[point.title for point in points]),
        FigureColumn(title=across, values=np.array([point.x for point in points])),
        FigureColumn(title=figure, values=np.array([point.y for point in points])),
    ]


def _tune_columns(points: Sequence[TunePoint]) -> list[FigureColumn]:
    """Every parameter, the score, and the time in seconds."""
    figures = {name: [float(p.parameters[name]) for p in points] for name in points[0].parameters}
    figures["score"] = [float(point.score or 0.0) for point in points]
    figures["seconds"] = [point.seconds for point in points]
    return [FigureColumn(title=title, values=np.array(v)) for title, v in figures.items()]


def _words(point: TunePoint) -> str:
    values = ", ".join(f"{name} {value_text(v)}" for name, v in point.parameters.items())
    return f"{values}: {number_text(point.score or 0.0, 4)}"
