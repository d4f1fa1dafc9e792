"""One number for every pair of experts, as a matrix of coloured cells with numbers.

T experts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtGui import QColor

from ace_gui.formatting import number_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.frame.cells_plot import CellsPlot
from ace_gui.gui.plots.frame.colours import cell_colour
from ace_gui.gui.plots.frame.spec import Axis, Cells, PlotSpec
from ace_gui.gui.theme import Tokens

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
        said = directed or "{one} and {other}"

        def words(row: int, column: int) -> str:
            pair = said.format(one=names[row], other=names[column])
            return f"{pair}: {meaning} {number_text(float(values_TT[row, column]), 4)}"

        columns = [
            FigureColumn(title="expert", values=names),
            *(
                FigureColumn(title=name, values=values, tip=meaning)
                for name, values in zip(names, values_TT.T, strict=True)
            ),
        ]
        self.present(
            lambda theme: PlotSpec(
                title=title,
                sentence=sentence,
                x=Axis(names=names),
                y=Axis(names=names),
                cells=Cells(
                    colours=_colours(values_TT, theme, idle=not directed),
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
    """The colour of every cell; a diagonal without information is muted (``idle``)."""
    known = np.isfinite(values_TT) & ~(np.eye(len(values_TT), dtype=bool) & idle)
    span = max(float(np.abs(values_TT[known]).max(initial=0.0)), _LEAST_SPAN)
    found = np.full((*values_TT.shape, 4), QColor(theme.grid).getRgb(), dtype=np.uint8)
    for row, column in np.argwhere(known):
        share = float(values_TT[row, column]) / span
        found[row, column] = QColor(cell_colour(share, theme)).getRgb()
    return found


def pair_text(value: float) -> str:
    """A pair's number for a cell: ``.31``, ``−.02``, ``1``, ``0``, ``–``."""
    if np.isnan(value):
        return "–"
    text = f"{abs(value):.2f}"
    if text in ("0.00", "1.00"):
        return "0" if text == "0.00" else ("−1" if value < 0 else "1")
    return f"{'−' if value < 0 else ''}{text[1:]}"


def agreement(names: Sequence[str], values_TT: NDArray[np.float64]) -> str:
    """A sentence: the two experts with most in common, and the two with least."""
    pairs = [
        (float(values_TT[a, b]), f"{names[a]} and {names[b]}")
        for a, b in combinations(range(len(names)), 2)
        if np.isfinite(values_TT[a, b])
    ]
    if not pairs:
        return ""
    (low, least), (high, most) = min(pairs), max(pairs)
    if len(pairs) == 1:
        return f"{most}: {number_text(high)}."
    return f"{most} agree most ({number_text(high)}), {least} least ({number_text(low)})."
