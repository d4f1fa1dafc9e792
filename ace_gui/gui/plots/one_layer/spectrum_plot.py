"""Singular values of one layer: every expert, the merge before and after refinement."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtWidgets import QWidget

from ace_gui.engine.contract.figures.findings import ExpertSpectra, LayerSpectrum
from ace_gui.engine.contract.figures.spectral_figures import MARKS, directions_for
from ace_gui.formatting import counted, number_text, power_of_ten
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.frame.controls import Choice
from ace_gui.gui.plots.frame.spec import Axis, Curve, Mark, PlotSpec
from ace_gui.gui.plots.frame.spec_plot import SpecPlot
from ace_gui.gui.plots.one_layer.spectrum_curves import (
    AFTER,
    BEFORE,
    FLOOR_EXPONENT,
    Picture,
    Quantity,
    Spectrum,
    picture_of_comparison,
    picture_of_experts,
    picture_of_pair,
    picture_of_spectrum,
    same_experts,
    short_label,
)
from ace_gui.gui.theme import Tokens

__all__ = ["AFTER", "BEFORE", "FLOOR_EXPONENT", "SpectrumPlot"]


EMPTY: Final = "Choose a layer to see its singular values."
_TITLES: Final = {  # of the axis, longest first
    Quantity.VALUE: ("singular value σᵢ", "σᵢ"),
    Quantity.RELATIVE: ("singular value σᵢ / σ₁", "σᵢ / σ₁"),
    Quantity.ENERGY: ("cumulative energy (%)", "energy (%)", "%"),
}
_OPTIONS: Final[dict[Hashable, tuple[str, str]]] = {
    Quantity.VALUE: ("Singular values", "σᵢ, largest first"),
    Quantity.RELATIVE: (
        "Relative to the largest",
        "σᵢ / σ₁: the shape of each spectrum, whatever its size",
    ),
    Quantity.ENERGY: (
        "Cumulative energy",
        "Σσ² of the first i values as a share of all, with marks at 90, 95 and 99 %",
    ),
}


class SpectrumPlot(SpecPlot):
    """Singular values against their index, largest first.

    ``quantity`` chooses between σᵢ, σᵢ/σ₁ and the cumulative energy.
    """

    axis_named_outside = True  # by the choice of the quantity

    def __init__(self, parent: QWidget | None = None) -> None:
        self._picture: Picture | None = None
        self._sources: tuple[object, ...] = ()
        super().__init__(
            name="Singular values of the layer",
            empty=EMPTY,
            ends=True,
            logarithmic=True,
            parent=parent,
        )
        self.quantity = Choice("Quantity", _OPTIONS, self)
        self.quantity.chosen.connect(self.rescale)
        self.add_choice(self.quantity)

    def show_spectrum(self, spectrum: LayerSpectrum, expert_colours: Mapping[str, str]) -> None:
        """Draw ``spectrum``; ``expert_colours`` maps each expert's name to "#rrggbb"."""
        self.set_busy(False)
        picture = picture_of_spectrum(spectrum, expert_colours)
        self.show_picture(picture, spectrum, dict(expert_colours))

    def show_experts(
        self, found: ExpertSpectra, expert_colours: Mapping[str, str], *, awaited: bool = True
    ) -> None:
        """Draw the experts alone.

        If this recipe's merge is ``awaited``, the experts drawn for another recipe stay.
        """
        match self._sources:
            case ((ExpertSpectra() | LayerSpectrum()) as known, colours) if (
                colours == expert_colours
                and same_experts(known, found)
                and (awaited or isinstance(known, ExpertSpectra))
            ):
                return
        picture = picture_of_experts(found, expert_colours)
        self.show_picture(picture, found, dict(expert_colours), busy=True)

    def show_comparison(
        self, old: LayerSpectrum, new: LayerSpectrum, labels: tuple[str, str] = ("old", "new")
    ) -> None:
        """Draw the merged delta of two merges of one layer in one plot, without experts."""
        self.set_busy(False)
        self.show_picture(picture_of_comparison(old, new, labels), *labels, old, new)

    def show_pair(
        self, title: str, caption: str, spectra: Mapping[str, NDArray[np.float64]]
    ) -> None:
        """Draw two spectra by label in one plot."""
        self.set_busy(False)
        picture = picture_of_pair(title, caption, spectra)
        self.show_picture(picture, title, caption, *spectra, *spectra.values())

    def clear(self, message: str = "") -> None:
        self._picture, self._sources = None, ()
        super().clear(message)

    def curves(self) -> tuple[Spectrum, ...]:
        """The drawn spectra, the merge first; empty for a message."""
        return () if self._picture is None else self._picture.curves(self.theme)

    def show_picture(self, picture: Picture, *sources: object, busy: bool = False) -> None:
        """Draw a picture, unless that of the same ``sources`` is drawn already.

        The zoom is kept if the layer is the same. ``busy``: another picture is on its way.
        """
        known, self._sources = self._sources, sources
        if len(known) == len(sources) and all(map(_same, known, sources)):
            return
        zoomed = self._picture is not None and self._picture.title == picture.title
        self._picture = picture
        self.present(
            lambda theme: self._spec(picture, theme, self.quantity.current),
            zoomed=zoomed,
            busy=busy,
        )

    def _spec(self, picture: Picture, theme: Tokens, quantity: Quantity) -> PlotSpec:
        spectra, share = picture.curves(theme), quantity is Quantity.ENERGY
        logarithmic = self.log_box.isChecked() and not share
        curves = [self._curve(spectrum, quantity) for spectrum in spectra]
        cut = sum(int((c.y < c.floor).sum()) for c in curves) if logarithmic else 0
        remark = counted(
            cut,
            "%n value under {floor}·σ₁ cut off",
            "%n values under {floor}·σ₁ cut off",
            floor=power_of_ten(FLOOR_EXPONENT),
        )
        marks = [
            Mark(value=each, label=f"{100 * each:.0f} %", share=0.55 + 0.17 * index)
            for index, each in enumerate(MARKS)
        ]
        first = Mark(
            value=picture.refined + 0.5,
            label=f"refined: first {picture.refined}",
            upright=True,
            share=0.93,
        )
        return PlotSpec(
            title=picture.title,
            sentence=" · ".join(filter(None, (picture.caption, remark if cut else ""))),
            curves=[*self._reached(spectra, curves), *curves] if share else curves,
            x=Axis(titles=("index i",), low=1.0),
            y=Axis(
                titles=_TITLES[quantity],
                low=None if logarithmic else 0.0,
                padding=0.04,
                scale=100.0 if share else 1.0,
            ),
            marks=marks if share else [first] * bool(picture.refined),
            columns=lambda: _columns(spectra),
            logarithmic_choice=not share,
            position=lambda x: f"i = {x:.0f}",
            awaited=picture.awaited,
        )

    def _curve(self, spectrum: Spectrum, quantity: Quantity) -> Curve:
        entry, values = spectrum.entry, spectrum.of(quantity)

        def words(index: int) -> str:
            if quantity is Quantity.ENERGY:
                return f"{100 * values[index]:.1f} % of the energy in {index + 1} directions"
            return number_text(float(values[index]), 3)

        return Curve(
            key=entry.key,
            label=entry.label,
            y=values,
            colour=entry.colour,
            style=entry.style,
            width=entry.width,
            end=short_label(entry.label),
            strong=not entry.key.startswith("expert"),
            floor=float(values.max(initial=0.0)) * 10.0**FLOOR_EXPONENT,
            words=words,
        )

    def _reached(self, spectra: tuple[Spectrum, ...], curves: list[Curve]) -> list[Curve]:
        """A dot where each merge reaches each of the shares."""
        dots = []
        for spectrum, curve in zip(spectra, curves, strict=True):
            if curve.strong:
                reached = [directions_for(spectrum.values, share) for share in MARKS]
                x = np.array([index for index in reached if index], dtype=np.int64)
                dots.append(
                    Curve(
                        key=f"{curve.key}: reached",
                        label="",
                        x=x.astype(np.float64),
                        y=curve.y[x - 1],
                        colour=curve.colour,
                        width=0,
                        symbol="o",
                        size=7,
                        with_keys=(curve.key,),
                        in_legend=False,
                    )
                )
        return dots


def _columns(spectra: tuple[Spectrum, ...]) -> tuple[FigureColumn, ...]:
    """One row per index; NaN beyond the end of a spectrum."""
    count = max((len(spectrum.values) for spectrum in spectra), default=0)
    columns = [FigureColumn(title="i", values=np.arange(1, count + 1))]
    for spectrum in spectra:
        missing = (0, count - len(spectrum.values))
        values = np.pad(spectrum.of(Quantity.VALUE), missing, constant_values=np.nan)
        columns.append(FigureColumn(title=f"σ, {spectrum.entry.label}", values=values))
    return tuple(columns)


def _same(one: object, other: object) -> bool:
    """Compare texts and colours by value, and spectra, which never change, by identity."""
    return one is other or (isinstance(one, str | dict) and one == other)
