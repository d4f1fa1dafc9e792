"""What a figure shows, as plain values: panels of charts, each with points, curves, bars or cells.

A figure has panels (a, b, c); a panel is one chart, or several of one kind beside each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ace_gui.errors import RecipeError
from ace_gui.formatting import listing, quoted_value

Point = tuple[float, float]


class PanelKind(StrEnum):
    """What a panel shows. The value is its name in commands."""

    GAMMA = "gamma"
    ROLES = "roles"
    MAP = "map"
    ENERGIES = "energies"
    SPECTRA = "spectra"
    SUBSPACES = "subspaces"
    SCORES = "scores"


def panel_kinds(names: Iterable[str]) -> tuple[PanelKind, ...]:
    """The panels with these names, in order. Raises RecipeError for an unknown one, or none."""
    kinds = []
    for name in names:
        try:
            kinds.append(PanelKind(name.strip()))
        except ValueError:
            raise RecipeError(
                f"There is no panel {quoted_value(name)}; there are {listing(list(PanelKind))}.",
                key="panels",
            ) from None
    if not kinds:
        raise RecipeError("Choose at least one panel for the figure.", key="panels")
    return tuple(kinds)


class Ink(StrEnum):
    """What a colour stands for, apart from experts."""

    TEXT = "text"
    MERGED = "merged"
    BEFORE = "before refinement"
    ALONE = "method alone"


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A quantity along one side of a chart."""

    title: str
    """With its unit, if it has one. Empty: the axis needs no title."""

    log: bool = False
    """Whether it is logarithmic. Values of 0 and below are then left out."""

    low: float | None = None
    """Where it begins; None: before the smallest value."""

    high: float | None = None
    """Where it ends; None: after the largest value."""

    counts: bool = False
    """Whether it counts, so that only whole numbers have ticks."""

    names: Sequence[str] = ()
    """Names of the values 0, 1, …, which replace ticks."""


def axis_of_counts(title: str, last: float) -> Axis:
    """An axis of 1, 2, … up to ``last``."""
    return Axis(title=title, counts=True, low=1.0, high=float(last))


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Points joined by a line."""

    name: str
    """For the legend and the table of data."""

    points: Sequence[Point]

    ink: Ink | int
    """Its colour: an expert's index, or what it stands for."""

    dashed: bool = False


@dataclass(frozen=True, kw_only=True)
class Marks:
    """Points that are not joined."""

    name: str
    """For the legend and the table of data."""

    points: Sequence[Point]
    """Where the marks are."""

    labels: Sequence[str]
    """What each point is, for the table of data."""

    family: str
    """Of roles; its symbol."""

    filled: bool = False
    """Whether the symbols are filled."""

    crossed: bool = False
    """Whether the points are crosses: their values are unreliable."""


@dataclass(frozen=True, kw_only=True)
class Bars:
    """A bar for each name of the x axis."""

    name: str
    """For the legend and the table of data."""

    heights: Sequence[float]
    """NaN where there is no bar."""

    errors: Sequence[float]
    """Standard errors; NaN where there is none."""

    ink: Ink | int
    """The colour."""


@dataclass(frozen=True, kw_only=True)
class Cells:
    """A map: a colour for each pair of names of the axes."""

    title: str
    """The quantity, beside the scale of colours."""

    values: Sequence[Sequence[float]]
    """Rows from the top, in the order of the y axis's names; NaN where there is none."""

    log: bool = False
    """Whether the scale of colours is logarithmic."""

    ends: tuple[float, float] | None = None
    """Of the scale of colours; None: around the values."""

    dotted: Sequence[tuple[int, int]] = ()
    """Row and column of the cells with a dot."""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One pair of axes with what is drawn on them."""

    title: str
    """Above the chart; may be empty."""

    x: Axis
    """The horizontal axis."""
    y: Axis
    """The vertical axis."""
    curves: Sequence[Curve] = ()
    """Lines."""
    marks: Sequence[Marks] = ()
    """Points that are not joined."""
    bars: Sequence[Bars] = ()
    """Groups of bars."""
    cells: Cells | None = None
    """Coloured cells; None without any."""

    limit: tuple[float, str] | None = None
    """A dashed line across at this value of y, and its name."""

    note: str = ""
    """A short sentence inside, at the top right."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A part of a figure with a letter of its own."""

    charts: Sequence[Chart]
    """Beside each other."""

    caption: str
    """A clause of the figure's caption, without letter and full stop."""

    width: float
    """The least width in mm at which it reads well."""


@dataclass(frozen=True, kw_only=True)
class Datum:
    """One value of a figure, for the table beside it."""

    panel: str
    """The panel's title."""
    chart: str
    """The chart in it."""
    series: str
    """The curve, bar or group of marks."""
    label: str
    """What the value belongs to."""
    x: float
    """Its place."""
    y: float
    """The value."""
    note: str = ""
    """Such as "unreliable"; empty without one."""


COLUMNS = ("panel", "chart", "series", "label", "x", "y", "note")
"""Of the table of data."""


def letters(panels: Sequence[Panel]) -> list[str]:
    """a, b, c …, one for each panel; empty if there is only one."""
    if len(panels) == 1:
        return [""]
    return [chr(ord("a") + index) for index in range(len(panels))]


def data_of(panels: Sequence[Panel]) -> Iterator[Datum]:
    """Every value of a figure, in the order in which it is drawn."""
    for letter, panel in zip(letters(panels), panels, strict=True):
        for chart in panel.charts:
            yield from _data_of(letter, chart)


def _data_of(letter: str, chart: Chart) -> Iterator[Datum]:
    def datum(series: str, label: str, x: float, y: float, note: str = "") -> Datum:
        return Datum(
            panel=letter, chart=chart.title, series=series, label=label, x=x, y=y, note=note
        )

    for curve in chart.curves:
        for x, y in curve.points:
            yield datum(curve.name, "", x, y)
    for marks in chart.marks:
        if marks.crossed:
            note = "unreliable"
        else:
            note = ""
        for label, (x, y) in zip(marks.labels, marks.points, strict=True):
            yield datum(marks.name, label, x, y, note)
    for bars in chart.bars:
        pairs = zip(chart.x.names, bars.heights, bars.errors, strict=True)
        for index, (name, height, error) in enumerate(pairs):
            if error != error:
                note = ""
            else:
                note = f"standard error {error:.6g}"
            yield datum(bars.name, name, index, height, note)
    if chart.cells is not None:
        for name, values in zip(chart.y.names, chart.cells.values, strict=True):
            for column, value in zip(chart.x.names, values, strict=True):
                if value == value:
                    yield datum(chart.cells.title, name, float(column), value)


def caption_of(panels: Sequence[Panel]) -> str:
    """The caption of a figure: a sentence, whose clauses name the panels' letters."""
    clauses = []
    for letter, panel in zip(letters(panels), panels, strict=True):
        clauses.append(f"{panel.caption} ({letter})" if letter else panel.caption)
    text = "; ".join(clauses)
    return f"{text[:1].upper()}{text[1:]}."
