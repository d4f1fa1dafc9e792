"""The score of each parameter value on the half of the data that is used for the search."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PySide6.QtWidgets import QWidget

from ace_gui.engine.contract.scored.tuned import TunePoint
from ace_gui.formatting import number_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.numbers import value_text
from ace_gui.gui.plots.frame.spec import Axis, Curve, PlotSpec
from ace_gui.gui.plots.frame.spec_plot import SpecPlot
from ace_gui.gui.theme import Tokens

EMPTY = "Choose a parameter and a range, and start: the curve grows merge by merge."


class TuneCurvePlot(SpecPlot):
    """One dot per merge, joined if one parameter is searched; the best is filled."""

    def __init__(self, parent: QWidget | None = None) -> None:
        name = "Score by value of the parameter"
        super().__init__(name=name, empty=EMPTY, toggles=False, parent=parent)

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
        texts = [_words(point) + (", chosen" if point is best else "") for point in known]

        def spec(theme: Tokens) -> PlotSpec:
            return PlotSpec(
                title=f"Score by {label}",
                curves=_curves(known, name, best, texts, theme),
                x=Axis(titles=(label,), logarithmic=logarithmic, padding=0.06),
                y=Axis(titles=("score on the half used for the search",), padding=0.12),
                columns=lambda: _columns(known),
                description="; ".join(texts),
            )

        self.present(spec)


def _curves(
    points: Sequence[TunePoint],
    name: str,
    best: TunePoint | None,
    texts: Sequence[str],
    theme: Tokens,
) -> list[Curve]:
    """The best point, the others, and with a single parameter the line that joins them."""
    x = np.array([float(point.parameters[name]) for point in points])
    y = np.array([float(point.score or 0.0) for point in points])
    kinds = (
        ("best", theme.accent, True, [point is best for point in points]),
        ("tried", theme.merged, False, [point is not best for point in points]),
    )
    curves = [
        Curve(
            key=key,
            label="",
            x=x[chosen],
            y=y[chosen],
            colour=colour,
            width=0,
            symbol="o",
            size=13 if filled else 9,
            filled=filled,
            words=np.array(texts)[chosen].tolist().__getitem__,
            names=[""] * sum(chosen),
            in_legend=False,
        )
        for key, colour, filled, chosen in kinds
    ]
    if len(points[0].parameters) == 1:
        line = Curve(
            key="line", label="", x=x, y=y, colour=theme.merged, width=1.8, in_legend=False
        )
        curves.append(line)
    return curves


def _columns(points: Sequence[TunePoint]) -> list[FigureColumn]:
    """Every parameter, the score, and the time in seconds."""
    figures = {
        name: [float(point.parameters[name]) for point in points] for name in points[0].parameters
    }
    figures["score"] = [float(point.score or 0.0) for point in points]
    figures["seconds"] = [point.seconds for point in points]
    return [FigureColumn(title=title, values=np.array(v)) for title, v in figures.items()]


def _words(point: TunePoint) -> str:
    values = ", ".join(f"{name} {value_text(v)}" for name, v in point.parameters.items())
    return f"{values}: {number_text(point.score or 0.0, 4)}"
