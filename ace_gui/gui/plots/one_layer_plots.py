"""Plots of one layer besides its spectrum: energies, histogram, directions, pairs of experts.

T experts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor

from ace_gui.engine.contract.findings import LayerDistribution, LayerSubspaces
from ace_gui.formatting import counted, number_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.frame.bars_and_cells import BarsPlot, CellsPlot
from ace_gui.gui.plots.frame.spec import PlotAxis, PlotBar, PlotCells, PlotCurve, PlotSpec
from ace_gui.gui.plots.frame.spec_plot import SpecPlot
from ace_gui.gui.theme import Tokens

_ENERGY_TIP = "Squared Frobenius norm of the expert's change: the sum of its squared entries"
_NORM_TIP = "Frobenius norm of the expert's change"


class EnergiesPlot(BarsPlot):
    """One bar per expert, the first expert on top, with its energy next to it."""

    called = "Energy of each expert in the layer"
    empty = "Choose a layer to see how much each expert changed it."
    logarithmic_first = False

    def show_energies(
        self, name: str, energies: Mapping[str, float], colours: Mapping[str, str]
    ) -> None:
        """Draw ``energies`` of the layer ``name``. ``colours``: the names of experts' colours."""
        if not energies:
            self.clear("The energies of this layer are not known.")
            return
        names = list(energies)
        words = [number_text(e, 3) for e in energies.values()]

        def spec() -> PlotSpec:
            return PlotSpec(
                title=name,
                sentence=_spread(energies),
                bars=[
                    PlotBar(
                        group=row,
                        value=energy,
                        text=words[row] if energy else "0, unchanged",
                        colour=colours.get(expert, "text2"),
                    )
                    for row, (expert, energy) in enumerate(energies.items())
                ],
                y=PlotAxis(names=names),
                words=lambda row: f"{names[row]}: ‖ΔW‖² = {number_text(energies[names[row]], 4)}",
                x=PlotAxis(title="energy ‖ΔW‖²", logarithmic=self.log_box.isChecked()),
                columns=lambda: _energy_columns(energies),
                logarithmic_choice=True,
                description=f"{name}: "
                + ", ".join(f"{name} {word}" for name, word in zip(names, words, strict=True)),
            )

        self.present(spec, name, dict(energies), dict(colours))


def _energy_columns(energies: Mapping[str, float]) -> tuple[FigureColumn, ...]:
    """The energies and the norms of the experts as a table."""
    values = np.array(list(energies.values()), dtype=np.float64)
    return (
        FigureColumn("expert", tuple(energies)),
        FigureColumn("energy ‖ΔW‖²", values, _ENERGY_TIP),
        FigureColumn("norm ‖ΔW‖", np.sqrt(values), _NORM_TIP),
    )


def _spread(energies: Mapping[str, float]) -> str:
    """The spread of the energies as text."""
    changed = {name: energy for name, energy in energies.items() if energy > 0}
    if len(changed) < 2:
        return ""
    most = max(changed, key=changed.__getitem__)
    least = min(changed, key=changed.__getitem__)
    ratio = number_text(changed[most] / changed[least], 2)
    return f"the energy of {most} is {ratio} times that of {least}"


GAUSSIAN: Final = "Gaussian"
TAIL: Final = 3.0
"""Start of the tail, in standard deviations from the mean."""

GAUSSIAN_TAIL: Final = math.erfc(TAIL / math.sqrt(2))
"""Share of a Gaussian's entries in its tails, 0.27 %."""
_LEAST: Final = 0.5  # counts; start of a logarithmic axis


class HistogramPlot(SpecPlot):
    """One stepped curve per expert, over the dashed Gaussian of its mean and deviation."""

    called = "Distribution of the changes in the layer"
    empty = "Choose a layer to see how its changes are distributed."
    logarithmic_first = True

    @property
    def distribution(self) -> LayerDistribution | None:
        """The drawn distribution; None for a message."""
        source = next(iter(self.sources), None)
        if isinstance(source, LayerDistribution):
            return source
        return None

    def show_distribution(
        self, distribution: LayerDistribution, expert_colours: Mapping[str, str]
    ) -> None:
        """Draw ``distribution``; ``expert_colours`` has the names of the experts' colours."""
        low = float(distribution.edges[0])
        high = float(distribution.edges[-1])

        def spec() -> PlotSpec:
            colours = {name: expert_colours.get(name, "text2") for name in distribution.counts}
            dashed = PlotCurve(
                key=GAUSSIAN,
                label=GAUSSIAN,
                y=np.zeros(0),
                colour="text2",
                style=Qt.PenStyle.DashLine,
                width=1.2,
            )
            if self.log_box.isChecked():
                lowest = float(np.log10(_LEAST))
            else:
                lowest = 0.0
            return PlotSpec(
                title=distribution.name,
                sentence=_outside_text(distribution),
                curves=[*_steps(distribution, colours), dashed, *_gaussians(distribution, colours)],
                x=PlotAxis(title="entry of ΔW", low=low, high=high),
                y=PlotAxis(title="entries in a bin", low=lowest, padding=0.03),
                columns=lambda: _histogram_columns(distribution),
                logarithmic_choice=True,
                position=lambda x: f"around {x:.3g}".replace("-", "−"),
            )

        self.present(spec, distribution, dict(expert_colours))


def _steps(distribution: LayerDistribution, colours: Mapping[str, str]) -> Iterator[PlotCurve]:
    corners = np.repeat(distribution.edges, 2)[1:-1]
    for name, colour in colours.items():
        y = np.repeat(distribution.counts[name].astype(np.float64), 2)

        def words(index: int, counts: np.ndarray = y) -> str:
            return counted(int(counts[index]), "%n entry", "%n entries")

        yield PlotCurve(
            key=_key(name), label=name, x=corners, y=y, colour=colour, floor=_LEAST, words=words
        )


def _gaussians(distribution: LayerDistribution, colours: Mapping[str, str]) -> Iterator[PlotCurve]:
    middles = (distribution.edges[:-1] + distribution.edges[1:]) / 2
    for name, colour in colours.items():
        total = int(distribution.counts[name].sum()) + distribution.outside[name]
        moments = distribution.means[name], distribution.deviations[name]
        yield PlotCurve(
            key=f"{GAUSSIAN} {name}",
            label="",
            x=middles,
            y=expected_counts(distribution.edges, total, *moments),
            colour=colour,
            style=Qt.PenStyle.DashLine,
            width=1.2,
            floor=_LEAST,
            with_keys=(_key(name), GAUSSIAN),
            in_legend=False,
        )


def _histogram_columns(distribution: LayerDistribution) -> list[FigureColumn]:
    """One row per bin."""
    return [
        FigureColumn("from", distribution.edges[:-1]),
        FigureColumn("to", distribution.edges[1:]),
        *(
            FigureColumn(name, counts, "entries in the bin")
            for name, counts in distribution.counts.items()
        ),
    ]


def _key(name: str) -> str:
    return f"expert {name}"


def _outside_text(distribution: LayerDistribution) -> str:
    outside = sum(distribution.outside.values())
    if not outside:
        return ""
    return counted(outside, "%n entry lies outside the plot.", "%n entries lie outside the plot.")


def expected_counts(
    edges: NDArray[np.float64], count: int, mean: float, deviation: float
) -> NDArray[np.float64]:
    """The number of entries in each bin that ``count`` Gaussian entries would have on average; NaN
    without deviation."""
    if deviation == 0:
        return np.full(len(edges) - 1, np.nan)
    below = [0.5 * math.erfc(-z / math.sqrt(2)) for z in (edges - mean) / deviation]
    return count * np.diff(below)


def tail_share(
    edges: NDArray[np.float64],
    counts_B: NDArray[np.int64],
    outside: int,
    mean: float,
    deviation: float,
) -> float:
    """Share of the entries further than ``TAIL`` standard deviations from the mean.

    Entries are assumed to be spread evenly within a bin; those outside the bins count as tail. NaN
    without entries, without deviation, or if the bins end before the tail starts.
    """
    total = int(counts_B.sum()) + outside
    low = mean - TAIL * deviation
    high = mean + TAIL * deviation
    if total == 0 or deviation == 0 or (outside and (low < edges[0] or high > edges[-1])):
        return math.nan
    below = np.concatenate([[0], np.cumsum(counts_B)])
    inside = float(np.interp(high, edges, below) - np.interp(low, edges, below))
    return 1 - inside / total


LEFT: Final = "left"
RIGHT: Final = "right"
KEPT: Final = 0.9  # a direction with this |cosine| or more counts as kept
_LABELS: Final = {LEFT: "left (outputs)", RIGHT: "right (inputs)"}
_TIP: Final = "|cosine| of the i-th singular vectors before and after refinement"


class AlignmentPlot(SpecPlot):
    """|cosine| of the i-th singular vectors of W_pre and of the merged delta, against i.

    Near 1 the direction has not changed. Close singular values mix their vectors, so cosines can
    drop although the spanned subspace is the same.
    """

    called = "Directions before and after refinement"
    empty = "Choose a layer to see the effect of refinement on its directions."

    def show_alignment(self, subspaces: LayerSubspaces) -> None:
        """Draw the alignment, or a message if there is nothing to compare."""
        alignment_left = subspaces.alignment
        alignment_right = subspaces.alignment_right
        if alignment_left is None or alignment_right is None or not alignment_left.size:
            self.clear("This merge has no preliminary solution to compare its directions with.")
            return
        values = {LEFT: alignment_left, RIGHT: alignment_right}
        styles = {LEFT: Qt.PenStyle.SolidLine, RIGHT: Qt.PenStyle.DashLine}
        columns = [FigureColumn("i", np.arange(1, len(alignment_left) + 1))]
        columns += [
            FigureColumn(f"|cos|, {_LABELS[side]}", cosines_K, _TIP)
            for side, cosines_K in values.items()
        ]
        self.present(
            PlotSpec(
                title=subspaces.name,
                sentence=_kept_text(alignment_left),
                curves=[
                    PlotCurve(
                        key=side,
                        label=_LABELS[side],
                        y=cosines_K,
                        colour="text" if side == LEFT else "accent",
                        style=styles[side],
                        width=2.0,
                    )
                    for side, cosines_K in values.items()
                ],
                x=PlotAxis(title="index i of the singular vector", counts=True, low=1.0),
                y=PlotAxis(title="|cos(before, after)|", low=0.0, high=1.0, padding=0.03),
                columns=lambda: columns,
                position=lambda x: f"i = {x:.0f}",
            )
        )


def _kept_text(left_K: NDArray[np.float64]) -> str:
    """How many of the leading directions were kept."""
    count = int((left_K >= KEPT).sum())
    mean = number_text(float(left_K.mean()), 2)
    return (
        f"Leading directions kept (cosine at least {KEPT:g}): {count} of {len(left_K)}; "
        f"mean cosine {mean}."
    )


_POSITIVE: Final = {False: "#0a4f9e", True: "#8cc4ff"}  # by whether the theme is dark
_NEGATIVE: Final = {False: "#8a4200", True: "#ffb066"}
_LEAST_SPAN: Final = 0.1  # range of the colours, so that rounding does not look like a difference


class ExpertMatrixPlot(CellsPlot):
    """T × T numbers in [−1, 1]. The colours span the values of different experts."""

    empty = "Choose a layer to compare its experts."

    def __init__(self, name: str) -> None:
        self.called = name
        super().__init__()

    def show_matrix(
        self,
        title: str,
        names: Sequence[str],
        values_TT: NDArray[np.float64],
        *,
        meaning: str,
        caption: str = "",
        directed: str = "",
    ) -> None:
        """Draw ``values_TT``, NaN if unknown. ``meaning`` explains a number.

        ``directed``: a text with {one} for the row and {other} for the column if these are
        different properties of an expert. Then the matrix is not symmetric and its diagonal counts.
        """
        pairs = "" if directed else agreement(names, values_TT)
        sentence = " ".join(filter(None, (pairs, caption)))
        pattern = directed or "{one} and {other}"

        def words(row: int, column: int) -> str:
            pair = pattern.format(one=names[row], other=names[column])
            return f"{pair}: {meaning} {number_text(float(values_TT[row, column]), 4)}"

        pairs_of = zip(names, values_TT.T, strict=True)
        columns = [FigureColumn("expert", names)]
        columns += [FigureColumn(name, values, meaning) for name, values in pairs_of]
        self.present(
            lambda: PlotSpec(
                title=title,
                sentence=sentence,
                x=PlotAxis(names=names),
                y=PlotAxis(names=names),
                cells=PlotCells(
                    colours=_colours(values_TT, self.theme, idle=not directed),
                    texts=[[pair_text(float(value)) for value in row] for row in values_TT],
                    words=words,
                ),
                columns=lambda: columns,
            ),
            title,
            values_TT,
            sentence,
        )


def _colours(values_TT: NDArray[np.float64], theme: Tokens, *, idle: bool) -> NDArray[np.uint8]:
    """The colour of every cell. ``idle``: the diagonal has no information and is muted."""
    is_drawn = np.isfinite(values_TT) & ~(np.eye(len(values_TT), dtype=bool) & idle)
    span = max(float(np.abs(values_TT[is_drawn]).max(initial=0.0)), _LEAST_SPAN)
    colours = np.full((*values_TT.shape, 4), QColor(theme.grid).getRgb(), dtype=np.uint8)
    for row, column in np.argwhere(is_drawn):
        share = float(values_TT[row, column]) / span
        colours[row, column] = QColor(cell_colour(share, theme)).getRgb()
    return colours


def cell_colour(share: float, theme: Tokens) -> str:
    """From the background at 0 to blue at 1 and to orange at −1, clipped beyond.

    The lightness alone shows the value, so it can be read with any colour vision. The hue only
    repeats the sign of the number in the cell.
    """
    start, end = (
        np.array(QColor(colour).getRgb())
        for colour in (theme.card, (_POSITIVE if share >= 0 else _NEGATIVE)[theme.dark])
    )
    return QColor(*map(round, start + min(abs(share), 1.0) * (end - start))).name()


def pair_text(value: float) -> str:
    """A pair's number for a cell: ``.31``, ``−.02``, ``1``, ``0``, ``–``."""
    if np.isnan(value):
        return "–"
    text = f"{abs(value):.2f}"
    if text in ("0.00", "1.00"):
        if text == "0.00":
            return "0"
        if value < 0:
            return "−1"
        return "1"
    return f"{'−' if value < 0 else ''}{text[1:]}"


def agreement(names: Sequence[str], values_TT: NDArray[np.float64]) -> str:
    """A sentence that names the most and the least similar pair of experts."""
    pairs = [
        (float(values_TT[a, b]), f"{names[a]} and {names[b]}")
        for a, b in combinations(range(len(names)), 2)
        if np.isfinite(values_TT[a, b])
    ]
    if not pairs:
        return ""
    (low, least) = min(pairs)
    (high, most) = max(pairs)
    if len(pairs) == 1:
        return f"{most}: {number_text(high)}."
    return f"{most} agree most ({number_text(high)}), {least} least ({number_text(low)})."
