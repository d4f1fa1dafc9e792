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
    """An entry of a legend."""

    key: str
    """Identifies the curves that it shows and hides."""
    label: str
    """Its text."""
    colour: str
    """A name for ``Tokens.colour``."""
    style: Qt.PenStyle = Qt.PenStyle.SolidLine
    """Of its line."""
    width: float = 1.6
    """Of its line, in pixels."""
    symbol: str = ""
    """One of pyqtgraph's codes, drawn instead of a line; empty: a line."""
    filled: bool = True
    """Whether the symbol is filled."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PlotCurve(LegendEntry):
    """Values drawn as a line, as symbols, or both. Its key in the legend shows and hides it."""

    y: NDArray[np.float64]
    """The values; NaN is a gap."""
    x: NDArray[np.float64] | None = None
    """Their places; None: 0, 1, 2, …."""
    size: float = 9.0
    """Of the symbols, in pixels."""
    end: str = ""
    """The name at the curve's end; empty for none."""
    strong: bool = False
    """Whether the name is bold, and kept if there is little room."""
    floor: float = 0.0
    """Smaller values are cut off by a logarithmic axis."""
    words: Callable[[int], str] | None = None
    """Returns the value at an index as text; None: the number."""
    names: Sequence[str] = ()
    """The texts next to the points."""
    indices: Sequence[int] = ()
    """What ``point_chosen`` carries for a clicked point; empty: its index. Only points of curves
    without a line can be clicked.
    """
    with_keys: tuple[str, ...] = ()
    """Further keys that hide it."""
    in_legend: bool = True
    """Whether it has an entry in the legend."""

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

    def last_visible(self, heights: NDArray[np.float64]) -> int | None:
        """The index of the last of the drawn ``heights`` that is no rounding error, if any is."""
        visible = np.isfinite(heights)
        if self.floor > 0:
            visible &= self.y > self.floor
        if not visible.any():
            return None
        return int(np.flatnonzero(visible)[-1])

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
class PlotAxis:
    """An axis of a plot."""

    title: str = ""
    """With the unit."""
    names: Sequence[str] = ()
    """Instead of the numbers 0, 1, 2, …."""
    logarithmic: bool = False
    """Whether it is logarithmic."""
    scale: float = 1.0
    """Multiplies the numbers."""
    counts: bool = False
    """Whether it counts, so that only whole numbers have ticks."""
    low: float | None = None
    """Its fixed start; None: the data's."""
    high: float | None = None
    """Its fixed end; None: the data's."""
    padding: float = 0.0
    """Room beyond the data, as a share of their range."""

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
class PlotMark:
    """A line across the plot at a value of one axis, with a label at a share of its length.

    ``above``: the label ends there, above the line, instead of being on it.
    """

    value: float
    label: str = ""
    upright: bool = False
    share: float = 0.5
    above: bool = False


@dataclass(frozen=True, kw_only=True)
class PlotBar:
    """A bar from zero."""

    group: int
    """Its group, from 0."""
    value: float
    """Its length."""
    text: str
    """At its end."""
    colour: str
    """A name for ``Tokens.colour``."""
    offset: float = 0.0
    """From the middle of its group to its own."""
    error: float = 0.0
    """A standard error; 0 for none."""
    strong: bool = False
    """Whether its text is bold."""
    outlined: bool = False
    """Whether it has an outline."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PlotCells:
    """A matrix of cells, the first row on top. The two axes name its rows and columns.

    ``colours``: uint8, rows × columns × red, green, blue and alpha. ``texts`` are drawn in the
    cells. ``words``: describes a cell, given its row and column.
    """

    colours: NDArray[np.uint8]
    texts: Sequence[Sequence[str]] = ()
    words: Callable[[int, int], str] = "{}, {}".format


@dataclass(frozen=True, kw_only=True, eq=False)
class PlotSpec:
    """A plot."""

    title: str
    """Above it."""
    curves: Sequence[PlotCurve] = ()
    """In drawing order."""
    sentence: str = ""
    """What it shows."""
    x: PlotAxis = field(default_factory=PlotAxis)
    """The horizontal axis."""
    y: PlotAxis = field(default_factory=PlotAxis)
    """The vertical axis."""
    marks: Sequence[PlotMark] = ()
    """Lines across, with a name."""
    columns: Callable[[], Sequence[FigureColumn]] = tuple
    """Its data as a table."""
    logarithmic_choice: bool = False
    """Whether the person chooses if the axis of values is logarithmic."""
    position: Callable[[float], str] | None = None
    """Returns the position under the pointer as text; None: no position is shown."""
    description: str = ""
    """For screen readers."""
    awaited: bool = False
    """Whether the merge's curve will follow; the legend already has its entry."""
    cells: PlotCells | None = None
    """Coloured cells; None without any."""
    bars: Sequence[PlotBar] = ()
    """They belong to groups, which an axis names."""
    strong_groups: Sequence[int] = ()
    """Groups with a background."""
    words: Callable[[int], str] = str
    """Describes a whole group."""
    bar_width: float = 1.0
    """Of upright bars; neighbouring groups are 1 apart."""

    def in_theme(self, theme: Tokens) -> PlotSpec:
        """A copy with the theme's colours instead of their names."""
        curves = [replace(curve, colour=theme.colour(curve.colour)) for curve in self.curves]
        bars = [replace(bar, colour=theme.colour(bar.colour)) for bar in self.bars]
        return replace(self, curves=curves, bars=bars)
