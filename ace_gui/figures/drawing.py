"""Draws panels on a sheet with matplotlib, without a display; sizes are exact."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from ace_gui.figures.charts import Axis, Bars, Cells, Chart, Curve, Ink, Marks, Panel, letters
from ace_gui.figures.palettes import PALETTES
from ace_gui.figures.sheet import Colours, Letters, Sheet
from ace_gui.figures.ticks import labels_of, ticks_of
from ace_gui.formatting import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MM_PER_INCH: Final = 25.4

_DASHES: Final = ("solid", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)))
_MEDIAN: Final = "|"
_SYMBOLS: Final = {
    "attention": "o",
    "MLP": "s",
    "embedding": "^",
    "norm": "D",
    "median": _MEDIAN,
}
_OTHER_SYMBOL: Final = "v"

_SMALL: Final = 0.88
"""Size of the letters of ticks, legends and notes, as a share of the others."""

_SAMPLE: Final = 6
"""Letters as wide as a line of a legend before its name."""

_LONGEST_NAME: Final = 32
"""Letters of a name; the table of data has the whole one."""

_SHARE_OF_SHEET: Final = 0.45
"""Of the width of a sheet, that a chart beside another has at least."""

_NAME: Final = "name of a curve"
_NAME_GAP: Final = 3
"""Points between the end of a curve and its name."""

_STYLE: Final[dict[str, Any]] = {
    "pdf.fonttype": 42,  # letters stay letters, with their font in the file
    "svg.fonttype": "path",  # no font is needed to show it
    "svg.hashsalt": "figure",  # the same file each time
    "axes.unicode_minus": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 0,
    "figure.constrained_layout.use": True,
    "legend.frameon": False,
    "path.simplify": False,
    "text.parse_math": False,  # a name with two dollar signs is no formula
}


def style(sheet: Sheet) -> dict[str, Any]:
    """matplotlib's settings for a sheet. Files must be written with them, too."""
    if sheet.letters is Letters.SERIF:
        family = "DejaVu Serif"
    else:
        family = "DejaVu Sans"
    small = _SMALL * sheet.points
    palette = PALETTES[sheet.colours]
    text = palette.inks[Ink.TEXT]
    return {
        **_STYLE,
        "text.color": text,
        "axes.labelcolor": text,
        "axes.edgecolor": palette.edge,
        "xtick.color": palette.edge,
        "ytick.color": palette.edge,
        "xtick.labelcolor": palette.quiet,
        "ytick.labelcolor": palette.quiet,
        "axes.facecolor": palette.ground,
        "figure.facecolor": palette.ground,
        "font.family": family,
        "font.size": sheet.points,
        "axes.titlesize": sheet.points,
        "axes.labelsize": sheet.points,
        "xtick.labelsize": small,
        "ytick.labelsize": small,
        "legend.fontsize": small,
    }


def drawn(panels: Sequence[Panel], sheet: Sheet) -> Figure:
    """The figure, of the sheet's size. It is drawn with ``style``, inside matplotlib's context."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    size = sheet.width / MM_PER_INCH, sheet.tall(panels) / MM_PER_INCH
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    rows = sheet.rows(panels)
    bands = figure.subfigures(len(rows), 1, squeeze=False)[:, 0]
    names = letters(panels)
    for band, row in zip(bands, rows, strict=True):
        widths = [panels[index].width for index in row]
        parts = band.subfigures(1, len(row), width_ratios=widths, squeeze=False)[0]
        for part, index in zip(parts, row, strict=True):
            _draw_panel(part, panels[index], names[index], sheet)
    if sheet.names:
        figure.draw_without_rendering()  # now places are known
        for axes in figure.axes:
            _part_names(axes, 1.15 * _SMALL * sheet.points)
    return figure


def _part_names(axes: Axes, height: float) -> None:
    """Move the names at the ends of curves so far apart that none covers another.

    ``height``: of a line of text in points.
    """
    labels: list[Any] = [text for text in axes.texts if text.get_gid() == _NAME]
    points_per_pixel = 72 / axes.figure.dpi
    places = []
    for label in labels:
        _, pixel = axes.transData.transform(label.xy)
        places.append((pixel * points_per_pixel, label))
    lowest = -math.inf
    for place, label in sorted(places, key=lambda entry: entry[0]):
        moved = max(place, lowest + height)
        label.set_position((_NAME_GAP, moved - place))
        lowest = moved


def _draw_panel(part: Any, panel: Panel, letter: str, sheet: Sheet) -> None:
    if letter:
        part.suptitle(letter, x=0.004, ha="left", weight="bold", fontsize=1.1 * sheet.points)
    grid = part.subplots(1, len(panel.charts), squeeze=False)[0]
    entries: dict[str, Any] = {}
    for index, (axes, chart) in enumerate(zip(grid, panel.charts, strict=True)):
        drawing = _Drawing(axes, chart, sheet, f"{letter}{index}")
        drawing.draw(first=index == 0)
        for name, artist in drawing.entries.items():
            entries.setdefault(name, artist)
    if len(entries) > 1:
        _add_legend(part, entries, sheet)


def _add_legend(part: Any, entries: Mapping[str, Any], sheet: Sheet) -> None:
    """One legend for all charts of a panel, below them."""
    names = [_short(name) for name in entries]
    letter = 0.6 * _SMALL * sheet.points * MM_PER_INCH / 72
    widest = letter * (max(map(len, names)) + _SAMPLE)
    part.legend(
        list(entries.values()),
        names,
        loc="outside lower center",
        ncols=min(len(names), max(1, int(sheet.width / widest))),
        handlelength=1.6,
        columnspacing=1.2,
    )


def _short(name: str) -> str:
    """A name for a legend; the middle of a long one is left out."""
    name = printable(name)
    if len(name) <= _LONGEST_NAME:
        return name
    half = _LONGEST_NAME // 2
    return f"{name[:half]}…{name[-half:]}"


class _Drawing:
    """One chart on its axes."""

    def __init__(self, axes: Axes, chart: Chart, sheet: Sheet, place: str) -> None:
        self._axes = axes
        self._chart = chart
        self._sheet = sheet
        self._place = place
        self._palette = PALETTES[sheet.colours]
        self.entries: dict[str, Any] = {}
        """What the legend explains, by name."""

    def draw(self, *, first: bool) -> None:
        """Draw everything. ``first``: the title of y is written, as for the leftmost chart."""
        chart = self._chart
        axes = self._axes
        if chart.title:
            axes.set_title(_short(chart.title), loc="left", weight="bold", pad=5)
        axes.set_xlabel(chart.x.title)
        if first:
            axes.set_ylabel(chart.y.title)
        if chart.cells is not None:
            self._draw_cells(chart.cells)
            return
        self._scale()
        for bars in chart.bars:
            self._draw_bars(bars)
        for curve in chart.curves:
            self._draw_curve(curve)
        for index, marks in enumerate(chart.marks):
            self._draw_marks(marks, index)
        self._draw_limit()
        if chart.note:
            axes.set_title(chart.note, loc="right", fontsize=_SMALL * self._sheet.points, pad=5)

    # Axes

    def _scale(self) -> None:
        values = list(_points_of(self._chart))
        limit = self._chart.limit
        heights = [y for _, y in values]
        if limit is not None and self._sheet.limits:
            heights.append(limit[0])
        self._set_axis("x", self._chart.x, [x for x, _ in values])
        self._set_axis("y", self._chart.y, heights)
        if not self._chart.y.names:
            self._axes.grid(axis="y", color=self._palette.faint, linewidth=0.6)

    def _set_axis(self, which: str, axis: Axis, values: Sequence[float]) -> None:
        set_limits = getattr(self._axes, f"set_{which}lim")
        set_ticks = getattr(self._axes, f"set_{which}ticks")
        if axis.names:
            if which == "y":
                edge = (len(axis.names) - 0.4, -0.6)
            else:
                edge = (-0.6, len(axis.names) - 0.4)
            set_limits(*edge)
            set_ticks(range(len(axis.names)), [_short(name) for name in axis.names])
            if which == "x" and self._needs_room(axis.names):
                self._axes.tick_params(axis="x", rotation=30)
                for label in self._axes.get_xticklabels():
                    label.set_horizontalalignment("right")
            return
        if axis.log:
            getattr(self._axes, f"set_{which}scale")("log")
        ticks = ticks_of(axis, values)
        set_ticks(ticks, labels_of(axis, ticks))
        set_ticks([], minor=True)
        if axis.log:
            room = 0.0
        else:
            room = 0.015 * (ticks[-1] - ticks[0])
        set_limits(ticks[0] - room, ticks[-1] + room)

    def _needs_room(self, names: Sequence[str]) -> bool:
        """Whether names do not fit side by side below a chart, if it is as wide as the sheet."""
        longest = max(len(_short(name)) for name in names)
        millimetres = 0.6 * _SMALL * self._sheet.points * MM_PER_INCH / 72  # of a letter
        return longest * len(names) * millimetres > _SHARE_OF_SHEET * self._sheet.width

    # What is on them

    def _draw_curve(self, curve: Curve) -> None:
        points = shown_points(curve.points, self._chart)
        if not points:
            return
        colour, dashes = self._ink(curve.ink)
        is_merge = curve.ink is Ink.MERGED
        x_values = [x for x, _ in points]
        y_values = [y for _, y in points]
        (line,) = self._axes.plot(
            x_values,
            y_values,
            color=colour,
            linestyle=(0, (3, 2)) if curve.dashed else dashes,
            linewidth=1.4 if is_merge else 0.9,
            zorder=4 if is_merge else 3,
            clip_on=False,
        )
        if not self._sheet.names:
            self.entries.setdefault(curve.name, line)
        else:
            self._axes.annotate(
                _short(curve.name),
                (x_values[-1], y_values[-1]),
                xytext=(_NAME_GAP, 0),
                textcoords="offset points",
                va="center",
                color=colour,
                fontsize=_SMALL * self._sheet.points,
                gid=_NAME,
            )

    def _draw_marks(self, marks: Marks, index: int) -> None:
        crossed = marks.crossed and self._sheet.crosses
        symbol = _SYMBOLS.get(marks.family, _OTHER_SYMBOL)
        colour = self._family_colour(marks.family)
        points = shown_points(marks.points, self._chart)
        is_median = symbol == _MEDIAN
        size = (1.1 if is_median else 0.42) * self._sheet.points
        (line,) = self._axes.plot(
            [x for x, _ in points],
            [y for _, y in points],
            linestyle="none",
            marker="x" if crossed else symbol,
            markersize=size,
            markeredgewidth=1.2 if is_median else 0.7,
            markeredgecolor=colour,
            markerfacecolor=colour if marks.filled else self._palette.ground,
            zorder=4 if marks.filled else 3,
            clip_on=False,
            gid=gid_of_marks(self._place, index),
        )
        self.entries.setdefault(marks.name, line)

    def _draw_bars(self, bars: Bars) -> None:
        count = len(self._chart.bars)
        width = 0.8 / count
        start = -0.4 + width * (self._chart.bars.index(bars) + 0.5)
        colour, _ = self._ink(bars.ink)
        places = [index + start for index in range(len(bars.heights))]
        drawn_bars = self._axes.bar(places, bars.heights, 0.9 * width, color=colour)
        self.entries.setdefault(bars.name, drawn_bars)
        errors = [0.0 if math.isnan(error) else error for error in bars.errors]
        if any(errors):
            self._axes.errorbar(
                places,
                bars.heights,
                errors,
                fmt="none",
                ecolor=self._palette.inks[Ink.TEXT],
                elinewidth=0.6,
            )

    def _draw_limit(self) -> None:
        limit = self._chart.limit
        if limit is None or not self._sheet.limits:
            return
        value, name = limit
        self._axes.axhline(
            value, color=self._palette.inks[Ink.TEXT], linewidth=0.8, linestyle=(0, (4, 2))
        )
        self._axes.annotate(
            name,
            (0.01, value),
            xycoords=("axes fraction", "data"),
            xytext=(0, 2),
            textcoords="offset points",
            fontsize=_SMALL * self._sheet.points,
        )

    def _draw_cells(self, cells: Cells) -> None:
        from matplotlib.colors import LogNorm, Normalize

        all_values = chain.from_iterable(cells.values)
        finite = [value for value in all_values if not math.isnan(value)]
        if cells.log:
            finite = [value for value in finite if value > 0]
        low, high = cells.ends or (None, None)
        axis = Axis(title=cells.title, log=cells.log, low=low, high=high)
        ticks = ticks_of(axis, finite)
        scale = LogNorm if cells.log else Normalize
        image = self._axes.pcolormesh(
            [list(row) for row in cells.values],
            cmap=self._palette.cells,
            norm=scale(ticks[0], ticks[-1]),
            edgecolor=self._palette.ground,
            linewidth=0.3,
        )
        rows = len(self._chart.y.names)
        columns = len(self._chart.x.names)
        self._axes.set_ylim(rows, 0)
        self._axes.set_yticks([row + 0.5 for row in range(rows)], list(self._chart.y.names))
        step = max(1, math.ceil(columns * self._sheet.points / (2.2 * self._sheet.width)))
        marked = range(0, columns, step)
        names = [self._chart.x.names[column] for column in marked]
        self._axes.set_xticks([column + 0.5 for column in marked], names)
        self._axes.tick_params(length=0)
        for side in ("left", "bottom"):
            self._axes.spines[side].set_visible(False)
        if self._sheet.limits:
            for row, column in cells.dotted:
                self._axes.plot(column + 0.5, row + 0.5, "o", color="black", markersize=2)
        bar = self._axes.figure.colorbar(image, ax=self._axes, aspect=18, pad=0.015)
        bar.set_ticks(ticks, labels=labels_of(axis, ticks))
        bar.ax.minorticks_off()
        bar.set_label(cells.title)
        bar.outline.set_visible(False)

    def _ink(self, ink: Ink | int) -> tuple[str, Any]:
        """The colour and the dashes of something."""
        if isinstance(ink, Ink):
            return self._palette.inks[ink], "solid"
        experts = self._palette.experts
        if self._sheet.colours is Colours.GREY:
            dashes = ink
        else:
            dashes = ink // len(experts)
        return experts[ink % len(experts)], _DASHES[dashes % len(_DASHES)]

    def _family_colour(self, family: str) -> str:
        colours = self._palette.families
        if family == "median":
            return self._palette.inks[Ink.TEXT]
        places = list(_SYMBOLS)
        place = places.index(family) if family in places else len(places) - 1
        return colours[place % len(colours)]


def gid_of_marks(place: str, index: int) -> str:
    """The identifier of a group of marks in an SVG file, by its chart's place and its index."""
    return f"marks-{place}-{index}"


def shown_points(points: Sequence[tuple[float, float]], chart: Chart) -> list[tuple[float, float]]:
    """The finite points; on logarithmic axes only those above 0."""
    positive = []
    for x, y in points:
        fits = math.isfinite(x) and math.isfinite(y)
        if fits and (x > 0 or not chart.x.log) and (y > 0 or not chart.y.log):
            positive.append((x, y))
    return positive


def _points_of(chart: Chart) -> list[tuple[float, float]]:
    points: list[tuple[float, float]] = []
    for curve in chart.curves:
        points += shown_points(curve.points, chart)
    for marks in chart.marks:
        points += shown_points(marks.points, chart)
    for bars in chart.bars:
        for index, height in enumerate(bars.heights):
            if math.isfinite(height):
                error = bars.errors[index]
                points.append((index, height + (error if math.isfinite(error) else 0.0)))
                points.append((index, 0.0))
    return points
