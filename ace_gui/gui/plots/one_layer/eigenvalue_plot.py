"""Eigenvalues of the covariance of an expert's inputs, and of ACE's estimate of it."""

from __future__ import annotations

from typing import Final

from ace_gui.engine.contract.figures.covariance_match import LayerCovariances
from ace_gui.gui.plots.one_layer.spectrum_curves import Quantity, picture_of_covariances
from ace_gui.gui.plots.one_layer.spectrum_plot import SpectrumPlot, Words

EIGENVALUES: Final = Words(
    name="Eigenvalues of both covariances",
    empty="Choose a layer to see its covariances.",
    symbol="λ",
    titles={
        Quantity.VALUE: ("eigenvalue λᵢ / Σλ", "λᵢ / Σλ"),
        Quantity.RELATIVE: ("eigenvalue λᵢ / λ₁", "λᵢ / λ₁"),
        Quantity.ENERGY: ("cumulative variance (%)", "variance (%)", "%"),
    },
    options={
        Quantity.VALUE: (
            "eigenvalues",
            "λᵢ over their sum, largest first: the share of the variance along direction i",
        ),
        Quantity.RELATIVE: (
            "relative to the largest",
            "λᵢ / λ₁: how steep each spectrum is",
        ),
        Quantity.ENERGY: (
            "cumulative variance",
            "Share of the variance in the first i directions, with marks at 90, 95, 99 %",
        ),
    },
    share="{share:.1f} % of the variance in {i} directions",
)


class EigenvaluePlot(SpectrumPlot):
    """Three curves: the inputs' eigenvalues, those of Σ̂, and Σ̂ along the inputs' directions.

    If the last one falls like the first, the estimate captures the directions in which inputs vary.
    If it is flat, it does not.
    """

    words = EIGENVALUES

    def show_covariances(
        self, found: LayerCovariances, index: int, colour: str, caption: str
    ) -> None:
        """Draw those of the expert at ``index``, whose colour is "#rrggbb"."""
        self.set_busy(False)
        picture = picture_of_covariances(found, index, colour, caption)
        self.show_picture(picture, found, str(index), colour)
