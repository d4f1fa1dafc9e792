"""Several merges: one figure as bars, and as points against the norm or a parameter's values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from PySide6.QtWidgets import QWidget

from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.frame.bars_plot import BarsPlot
from ace_gui.gui.plots.frame.spec import Axis, Bar, Curve, PlotSpec
from ace_gui.gui.plots.frame.spec_plot import SpecPlot
from ace_gui.gui.theme import Tokens

EMPTY: Final = "Merge with several methods to compare them."
_POINT: Final = 10  # px
_DECADES: Final = 100.0  # minimum ratio of the values for a logarithmic scale


@dataclass(frozen=True)
class MergePoint:
    """A merge in a plot: its title, two figures, and whether it is the window's."""

    title: str
    x: float
    y: float
    current: bool = False


class MergeBars(BarsPlot):
    """One figure of every merge as a bar, in the given order."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(name="Merges by one figure", empty=EMPTY, parent=parent)

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
                groups=[point.title for point in points],
                words=words.__getitem__,
                columns=lambda: _columns(points, figure)[:2],
                description=f"{figure}: {', '.join(words)}",
            )
        )


class MergeScatter(SpecPlot):
    """A figure of each merge, against how far it moved the model or a parameter's value."""

    def __init__(self, parent: QWidget | None = None) -> None:
        name = "Norm of the change and result of every merge"
        super().__init__(name=name, empty=EMPTY, toggles=False, parent=parent)

    def show_merges(self, figure: str, points: Sequence[MergePoint], parameter: str = "") -> None:
        """Show these. ``figure``: the name of ``y``; ``parameter``: that of ``x`` if it is not a
        norm."""
        if not points:
            self.clear()
            return
        values = [point.x for point in points]
        wide = bool(parameter) and min(values) > 0 and max(values) >= _DECADES * min(values)
        norm = "norm of the change, by the experts' mean"
        described = ", ".join(f"{p.title} {p.y:.3g} at {p.x:.3g}" for p in points)
        title = f"{figure} by {parameter}" if parameter else f"{figure} against norm"
        span = max(values) - min(values)
        x = Axis(
            titles=(parameter,) if parameter else (norm, "norm"),
            logarithmic=wide,
            high=None if parameter else max(values) + 0.3 * max(span, 0.1),  # room for names
            padding=0.06,
        )
        self.present(
            lambda theme: PlotSpec(
                title=title,
                curves=[
                    *_points(points, theme, named=not parameter),
                    *_along(points, theme)[: bool(parameter)],
                ],
                x=x,
                y=Axis(titles=(figure,), padding=0.12),
                columns=lambda: _columns(points, parameter or "norm", figure),
                description=f"{title}: {described}",
            )
        )


def _points(points: Sequence[MergePoint], theme: Tokens, *, named: bool) -> Iterator[Curve]:
    """The window's merge, then the others."""
    for current in (True, False):
        own = [point for point in points if point.current == current]
        yield Curve(
            key="current" if current else "others",
            label="",
            x=np.array([point.x for point in own]),
            y=np.array([point.y for point in own]),
            colour=theme.merged if current else theme.control,
            width=0,
            symbol="o",
            size=_POINT,
            names=[point.title if named else "" for point in own],
            words=[f"{p.title}: {p.y:.3g} at {p.x:.3g}" for p in own].__getitem__,
            indices=tuple(index for index, point in enumerate(points) if point in own),
            strong=current,
            in_legend=False,
        )


def _along(points: Sequence[MergePoint], theme: Tokens) -> list[Curve]:
    """The curve along a parameter."""
    order = sorted(points, key=lambda point: point.x)
    x, y = np.array([p.x for p in order]), np.array([p.y for p in order])
    curve = Curve(key="curve", label="", x=x, y=y, colour=theme.merged, width=1.8, in_legend=False)
    return [curve]


def _columns(points: Sequence[MergePoint], across: str, figure: str = "") -> list[FigureColumn]:
    return [
        FigureColumn(title="merge", values=[point.title for point in points]),
        FigureColumn(title=across, values=np.array([point.x for point in points])),
        FigureColumn(title=figure, values=np.array([point.y for point in points])),
    ]
