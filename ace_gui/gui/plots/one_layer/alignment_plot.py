"""How far refinement rotated the leading singular directions of a layer (ACE, Fig. 2 right)."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

# isort: split
import pyqtgraph as pg

from ace_gui.engine.contract.figures.findings import LayerSubspaces
from ace_gui.formatting import counted, number_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.frame.base_plot import Plot, quantity_axis
from ace_gui.gui.plots.frame.legend import LegendEntry
from ace_gui.gui.theme import Tokens

EMPTY: Final = "Choose a layer to see the effect of refinement on its directions."
LEFT: Final = "left"
RIGHT: Final = "right"
KEPT: Final = 0.9  # minimum |cosine| of a direction that counts as kept
_LABELS: Final = {LEFT: "left (outputs)", RIGHT: "right (inputs)"}
_TIP: Final = "|cosine| of the i-th singular vectors before and after refinement"


class AlignmentPlot(Plot):
    """|cosine| of the i-th singular vectors of W_pre and of the merged delta, against i.

    Near 1 the direction has not changed. Close singular values mix their vectors, so cosines can
    drop although the spanned subspace is the same.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        self._values: dict[str, NDArray[np.float64]] = {}
        self._items: dict[str, pg.PlotDataItem] = {}
        super().__init__(
            name="Directions before and after refinement",
            empty=EMPTY,
            bottom=quantity_axis("bottom", "index i of the singular vector"),
            left=quantity_axis("left", "|cos(before, after)|", "|cos|", grid=True),
            toggles=True,
            parent=parent,
        )
        self.canvas.getViewBox().setMouseEnabled(x=True, y=False)
        self.legend.toggled.connect(lambda *_: self._show_switched_on())

    def show_alignment(self, subspaces: LayerSubspaces) -> None:
        """Draw the alignment, or a message if there is nothing to compare."""
        self.set_busy(False)
        left, right = subspaces.alignment, subspaces.alignment_right
        if left is None or right is None or not left.size:
            self.clear("This merge has no preliminary solution to compare its directions with.")
            return
        self._values = {LEFT: left, RIGHT: right}
        self.title.set_whole(subspaces.name)
        self.caption.set_whole(_caption(left))
        self._draw()
        self.setAccessibleDescription(f"{subspaces.name}. {self.caption.whole}")
        self.show_canvas()

    def clear(self, message: str = "") -> None:
        """Show ``message`` instead of the curves."""
        self.set_busy(False)
        self._values = {}
        self.show_message(message or EMPTY)

    def columns(self) -> tuple[FigureColumn, ...]:
        """The cosines as a table, one row per direction."""
        count = len(next(iter(self._values.values()), ()))
        return (
            FigureColumn(title="i", values=np.arange(1, count + 1)),
            *(
                FigureColumn(title=f"|cos|, {_LABELS[side]}", values=values, tip=_TIP)
                for side, values in self._values.items()
            ),
        )

    def restyle(self, before: Tokens) -> None:  # noqa: ARG002  (nothing here depends on it)
        self._draw()

    def rescale(self) -> None:
        self._draw()

    def fit(self) -> None:
        count = max((len(values) for values in self._values.values()), default=2)
        view = self.canvas.getViewBox()
        view.setLimits(xMin=1, xMax=max(count, 2))
        view.setXRange(1, max(count, 2), padding=0)
        view.setYRange(0, 1, padding=0.03)

    def _draw(self) -> None:
        colours = {LEFT: self.theme.text, RIGHT: self.theme.accent}
        styles = {LEFT: Qt.PenStyle.SolidLine, RIGHT: Qt.PenStyle.DashLine}
        entries = {
            side: LegendEntry(
                key=side, label=_LABELS[side], colour=colours[side], style=styles[side]
            )
            for side in self._values
        }
        self.legend.set_entries(tuple(entries.values()))
        for item in self._items.values():
            self.canvas.removeItem(item)
        self._items = {}
        for side, values in self._values.items():
            pen = pg.mkPen(colours[side], width=2.0, style=styles[side])
            item = pg.PlotDataItem(np.arange(1, len(values) + 1), values, pen=pen)
            self.canvas.addItem(item, ignoreBounds=True)
            self._items[side] = item
        self._show_switched_on()
        self.fit()

    def _show_switched_on(self) -> None:
        for side, item in self._items.items():
            item.setVisible(self.legend.is_on(side))


def _caption(left_K: NDArray[np.float64]) -> str:
    """How many of the leading directions were kept."""
    kept = int((left_K >= KEPT).sum())
    mean = number_text(float(left_K.mean()), 2)
    return counted(
        len(left_K),
        "Of the %n leading direction, {kept} were kept: cosines of at least {least:g}, "
        "the mean is {mean}.",
        "Of the %n leading directions, {kept} were kept: cosines of at least {least:g}, "
        "the mean is {mean}.",
        kept=kept,
        least=KEPT,
        mean=mean,
    )
