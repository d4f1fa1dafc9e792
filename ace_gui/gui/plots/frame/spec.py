"""The declaration of what a plot shows. ``spec_plot.SpecPlot`` draws it; pictures and CSV come from
the same declaration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import Qt

from ace_gui.formatting import number_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.theme import Tokens


@dataclass(frozen=True, kw_only=True)
class LegendEntry:
    """An entry of a legend, drawn as a line, or as ``symbol`` if it has one.

    ``colour``: a name for ``Tokens.colour``. ``symbol``: one of pyqtgraph's codes.
    """

    key: str
    label: str
    colour: str
    style: Qt.PenStyle = Qt.PenStyle.SolidLine
    width: float = 1.6
    symbol: str = ""
    filled: bool = True


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve(LegendEntry):
    """Values ``y`` at ``x``, drawn as a line, as symbols, or both; NaN is a gap.

    ``key`` identifies the curve in the legend, which shows and hides it; ``with_keys`` are further
    keys that hide it. ``in_legend``: it has an entry there. ``width`` 0: no line.
    ``names``: the texts next to the points. Points can be clicked; ``point_chosen`` then carries
    their entry of ``indices``.
    ``end``: the name at the curve's end, "" for none. A ``strong`` name is bold, and is kept if
    there is little room. ``floor``: a logarithmic axis cuts off smaller values. ``words``: returns
    the value at an index as text.
    """

    y: NDArray[np.float64]
    x: NDArray[np.float64] | None = None
    size: float = 9.0
    end: str = ""
    strong: bool = False
    floor: float = 0.0
    words: Callable[[int], str] | None = None
    names: Sequence[str] = ()
    indices: Sequence[int] = ()
    with_keys: tuple[str, ...] = ()
    in_legend: bool = True

    @property
    def positions(self) -> NDArray[np.float64]:
        """``x``, or 1, 2, 3, …"""
        if self.x is None:
            return np.arange(1.0, len(self.y) + 1)
        return self.x

    @property
    def step(self) -> float:
        x = self.positions
        if len(x) > 1:
            return float(np.ptp(x)) / (len(x) - 1)
        return 1.0

    def text(self, index: int) -> str:
        """The label and the value at an index."""
        if self.words is None:
            value = number_text(float(self.y[index]), 4)
        else:
            value = self.words(index)
        if self.label:
            return f"{self.label}: {value}"
        return value


@dataclass(frozen=True, kw_only=True)
class Axis:
    """An axis. ``names`` replace the numbers 0, 1, 2, …; ``scale`` multiplies the numbers.

    ``low`` and ``high`` are fixed ends. Without them the axis ends at the data, plus ``padding``, a
    share of their range.
    """

    title: str = ""
    names: Sequence[str] = ()
    logarithmic: bool = False
    scale: float = 1.0
    low: float | None = None
    high: float | None = None
    padding: float = 0.0

    def ends(self, values: Sequence[NDArray[np.float64]]) -> tuple[float, float] | None:
        """The two ends of the axis for these values; None if an end is not known."""
        numbers = np.concatenate([np.zeros(0), *values])
        numbers = numbers[np.isfinite(numbers)]
        if self.low is None:
            low = float(numbers.min(initial=np.inf))
        else:
            low = self.low
        if self.high is None:
            high = float(numbers.max(initial=-np.inf))
        else:
            high = self.high
        if not (isfinite(low) and isfinite(high)):
            return None
        pad = self.padding * (high - low) or (0.0 if high > low else 0.05 * abs(high) or 0.5)
        return low - pad, high + pad


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A line across the plot at a value of one axis, with a label at a share of its length."""

    value: float
    label: str = ""
    upright: bool = False
    share: float = 0.5


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A bar from zero, with ``text`` at its end.

    ``offset``: from the middle of its group to its own. ``error``: a standard error, 0 for none.
    """

    group: int
    value: float
    text: str
    colour: str
    offset: float = 0.0
    error: float = 0.0
    strong: bool = False
    outlined: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """A matrix of cells, the first row on top. The two axes name its rows and columns.

    ``colours``: uint8, rows × columns × red, green, blue and alpha. ``texts`` are drawn in the
    cells. ``words``: describes a cell, given its row and column.
    """

    colours: NDArray[np.uint8]
    texts: Sequence[Sequence[str]] = ()
    words: Callable[[int, int], str] = "{}, {}".format


@dataclass(frozen=True, kw_only=True, eq=False)
class PlotSpec:
    """A plot. ``sentence`` says what it shows; ``columns`` are its data as a table.

    ``bars`` belong to groups, which an axis names. ``words``: describes a whole group.
    ``strong_groups`` have a background. ``bar_width``: a share of the group's width.

    ``logarithmic_choice``: the person chooses whether the axis of values is logarithmic.
    ``position``: returns the position under the pointer as text. ``awaited``: the merge's curve
    will follow; the legend already has its entry.
    """

    title: str
    curves: Sequence[Curve] = ()
    sentence: str = ""
    x: Axis = field(default_factory=Axis)
    y: Axis = field(default_factory=Axis)
    marks: Sequence[Mark] = ()
    columns: Callable[[], Sequence[FigureColumn]] = tuple
    logarithmic_choice: bool = False
    position: Callable[[float], str] | None = None
    description: str = ""
    awaited: bool = False
    cells: Cells | None = None
    bars: Sequence[Bar] = ()
    strong_groups: Sequence[int] = ()
    words: Callable[[int], str] = str
    bar_width: float = 1.0

    def in_theme(self, theme: Tokens) -> PlotSpec:
        """A copy with the theme's colours instead of their names."""
        curves = [replace(curve, colour=theme.colour(curve.colour)) for curve in self.curves]
        bars = [replace(bar, colour=theme.colour(bar.colour)) for bar in self.bars]
        return replace(self, curves=curves, bars=bars)
