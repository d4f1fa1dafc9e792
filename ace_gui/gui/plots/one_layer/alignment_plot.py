"""How far refinement rotated the leading singular directions of a layer (ACE, Fig. 2 right)."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import Qt

from ace_gui.engine.contract.figures.findings import LayerSubspaces
from ace_gui.formatting import number_text
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.frame.spec import Axis, Curve, PlotSpec
from ace_gui.gui.plots.frame.spec_plot import SpecPlot

LEFT: Final = "left"
RIGHT: Final = "right"
KEPT: Final = 0.9  # minimum |cosine| of a direction that counts as kept
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
        left, right = subspaces.alignment, subspaces.alignment_right
        if left is None or right is None or not left.size:
            self.clear("This merge has no preliminary solution to compare its directions with.")
            return
        values = {LEFT: left, RIGHT: right}
        styles = {LEFT: Qt.PenStyle.SolidLine, RIGHT: Qt.PenStyle.DashLine}
        columns = [FigureColumn(title="i", values=np.arange(1, len(left) + 1))]
        columns += [
            FigureColumn(title=f"|cos|, {_LABELS[side]}", values=own, tip=_TIP)
            for side, own in values.items()
        ]
        self.present(
            lambda theme: PlotSpec(
                title=subspaces.name,
                sentence=_caption(left),
                curves=[
                    Curve(
                        key=side,
                        label=_LABELS[side],
                        y=own,
                        colour=theme.text if side == LEFT else theme.accent,
                        style=styles[side],
                        width=2.0,
                    )
                    for side, own in values.items()
                ],
                x=Axis(title="index i of the singular vector", low=1.0),
                y=Axis(title="|cos(before, after)|", low=0.0, high=1.0, padding=0.03),
                columns=lambda: columns,
                position=lambda x: f"i = {x:.0f}",
            )
        )


def _caption(left_K: NDArray[np.float64]) -> str:
    """How many of the leading directions were kept."""
    kept = int((left_K >= KEPT).sum())
    mean = number_text(float(left_K.mean()), 2)
    return (
        f"Leading directions kept (cosine at least {KEPT:g}): {kept} of {len(left_K)}; "
        f"mean cosine {mean}."
    )
