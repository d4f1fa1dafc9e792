"""Singular values of one layer for every expert, and for the merge before and after refinement."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import Qt

from ace_gui.engine.contract.findings import ExpertSpectra, LayerSpectrum
from ace_gui.engine.contract.health import norm_ratio
from ace_gui.engine.contract.matrix_figures import (
    INVISIBLE,
    MARKS,
    NEGLIGIBLE,
    cumulative_energy,
    directions_for,
    look_equal,
)
from ace_gui.formatting import counted, number_text, power_of_ten
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.plots.frame.spec import PlotAxis, PlotCurve, PlotMark, PlotSpec
from ace_gui.gui.plots.frame.spec_plot import BlockGrid, SpecPlot
from ace_gui.gui.plots.layers_plot import block_of
from ace_gui.gui.theme import repetition
from ace_gui.gui.widgets.controls import Choice

AFTER: Final = "merge: after"
BEFORE: Final = "merge: before"
_UNSHAPED: Final = "merge: unshaped"

_FLOOR_EXPONENT: Final = round(math.log10(NEGLIGIBLE))
"""Values below 10^this of a curve's σ₁ are rounding errors; a logarithmic axis cuts them off."""

_EXPERT_STYLES: Final = (Qt.PenStyle.SolidLine, Qt.PenStyle.DashDotLine, Qt.PenStyle.DotLine)
_ALONE: Final = "method alone"
_SHORT: Final = {"after refinement": "after", "before (W_pre)": "before", _ALONE: _ALONE}
"""Short names for the curves' ends, where the colour already tells the merges apart."""


def spec_of_spectrum(spectrum: LayerSpectrum, colours: Mapping[str, str]) -> PlotSpec:
    """Declares the merge before and after refinement, then the experts in their ``colours``."""
    count = _refined_count(spectrum)
    regime = spectrum.report.regime
    change = ""
    if count:
        change = f"refinement changed the first {count} of {len(spectrum.merged)} values"
    elif _is_refined(spectrum) is False:
        change = "no refinement" + ", before = after" * (spectrum.unshaped is None)
    mark = PlotMark(value=count + 0.5, label=f"refined: first {count}", upright=True, share=0.93)
    return PlotSpec(
        title=spectrum.name,
        sentence=": ".join(filter(None, ("" if regime is None else regime.value, change))),
        curves=(*_merge_curves(spectrum), *_expert_curves(spectrum, colours)),
        marks=[mark] * bool(count),
    )


def _curve_of(key: str, label: str, values: NDArray[np.float64], **look: Any) -> PlotCurve:
    """The curve of a spectrum. Experts' curves are the first to lose the names at their ends."""
    strong = not key.startswith("expert")
    end = _SHORT.get(label.rpartition(", ")[2], label)
    return PlotCurve(key=key, label=label, y=values, end=end, strong=strong, **look)


def _merge_curves(
    spectrum: LayerSpectrum, *, label: str = "", colour: str = "", width: float = 2.2
) -> list[PlotCurve]:
    """The merged delta, with W_pre dashed if refinement changed it, and with the method's result
    dotted if the recipe changed its singular values. Keys start with ``label``.

    W_pre is left out where it would be drawn on top of another curve.
    """
    before = spectrum.preliminary
    unshaped = spectrum.unshaped
    refined = _is_refined(spectrum)
    if refined and unshaped is None:
        plain = "after refinement"
    else:
        plain = "merged"
    prefix, of_label = (f"{label} ", f"{label}, ") if label else ("", "")
    bold: dict[str, Any] = {"colour": colour or "text", "width": width}
    thin: dict[str, Any] = {"colour": colour or "base", "width": 0.75 * width}
    curves = [_curve_of(prefix + AFTER, label or plain, spectrum.merged, **bold)]
    if unshaped is not None:
        name = f"{of_label}{_ALONE}"
        dotted = Qt.PenStyle.DotLine
        curves.append(_curve_of(prefix + _UNSHAPED, name, unshaped, style=dotted, **thin))
    if before is not None:
        hidden = any(look_equal(curve.y, before) for curve in curves)
    else:
        hidden = True
    if refined and before is not None and not hidden:
        name = f"{of_label}before (W_pre)"
        dashed = Qt.PenStyle.DashLine
        curves.insert(1, _curve_of(prefix + BEFORE, name, before, style=dashed, **thin))
    return curves


def _expert_curves(
    spectra: ExpertSpectra | LayerSpectrum, colours: Mapping[str, str]
) -> tuple[PlotCurve, ...]:
    """The curves of the experts' task vectors."""
    curves = []
    for name, values in spectra.experts.items():
        colour = colours.get(name, "text2")
        # With more experts than colours, the line's style distinguishes those of one colour.
        style = _EXPERT_STYLES[repetition(colour) % len(_EXPERT_STYLES)]
        curves.append(_curve_of(f"expert {name}", name, values, colour=colour, style=style))
    return tuple(curves)


def _before_and_after(
    spectrum: LayerSpectrum,
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """The merge before and after refinement; None if there is nothing to compare."""
    before = spectrum.preliminary
    if spectrum.unshaped is None:
        after = spectrum.merged
    else:
        after = spectrum.unshaped
    if before is None or before.shape != after.shape:
        return None
    return (before, after)


def _is_refined(spectrum: LayerSpectrum) -> bool | None:
    """Whether refinement changed the merge; None if that is not known."""
    pair = _before_and_after(spectrum)
    if pair is None:
        if spectrum.preliminary is None:
            return None
        return True
    before, after = pair
    largest = float(after.max(initial=0.0))
    return not np.allclose(before, after, rtol=1e-9, atol=1e-9 * largest)


def _refined_count(spectrum: LayerSpectrum) -> int:
    """How many leading singular values refinement changed; 0 if none, or nearly all of them."""
    pair = _before_and_after(spectrum)
    if pair is None:
        return 0
    before, after = pair
    changed = np.flatnonzero(np.abs(after - before) > INVISIBLE * before.max(initial=0.0))
    if changed.size:
        count = int(changed[-1]) + 1
    else:
        count = 0
    if count < 0.95 * len(before):
        return count
    return 0


_NAMES: Final = " · ".join(f"{100 * mark:.0f}" for mark in MARKS) + " %"
"""Of the lines at ``MARKS``, above all curves. Between the lines, curves would cover them."""
_ABOVE_ALL: Final = 0.16  # of the axis, where the names are


class Quantity(Enum):
    """What the vertical axis shows, as its name, its definition, and the axis' title."""

    VALUE = ("Singular values", "σᵢ, largest first", "singular value σᵢ")
    RELATIVE = (
        "Relative to the largest",
        "σᵢ / σ₁: the shape of each spectrum, whatever its size",
        "singular value σᵢ / σ₁",
    )
    ENERGY = (
        "Cumulative energy",
        "Σσ² of the first i values as a share of all, with marks at 90, 95 and 99 %",
        "cumulative energy (%)",
    )


class SpectrumPlot(SpecPlot):
    """Singular values against their index, largest first.

    ``quantity`` chooses between σᵢ, σᵢ/σ₁ and the cumulative energy.
    """

    called = "Singular values of the layer"
    empty = "Choose a layer to see its singular values."
    named_ends = True
    logarithmic_first = True
    axis_named_outside = True  # by the choice of the quantity

    def __init__(self) -> None:
        self._spectra: PlotSpec | None = None
        """The declaration of the singular values, whatever quantity is shown."""
        super().__init__()
        self.quantity = Choice("Quantity", {quantity: quantity.value[:2] for quantity in Quantity})
        self.quantity.chosen.connect(self.rescale)
        self.add_control(self.quantity, first=True)

    def show_spectrum(self, spectrum: LayerSpectrum, expert_colours: Mapping[str, str]) -> None:
        """Draw ``spectrum``; ``expert_colours`` has the names of the experts' colours."""
        spec = spec_of_spectrum(spectrum, expert_colours)
        self._show(spec, spectrum, dict(expert_colours))

    def show_experts(
        self, spectra: ExpertSpectra, expert_colours: Mapping[str, str], *, awaited: bool = True
    ) -> None:
        """Draw the experts alone.

        If this recipe's merge is ``awaited``, the drawn merge of another recipe stays until then.
        """
        match self.sources:
            case ((ExpertSpectra() | LayerSpectrum()) as known, colours) if (
                colours == expert_colours
                and _same_experts(known, spectra)
                and (awaited or isinstance(known, ExpertSpectra))
            ):
                return
        curves = _expert_curves(spectra, expert_colours)
        sentence = "task vectors of the experts"
        spec = PlotSpec(title=spectra.name, sentence=sentence, curves=curves, awaited=True)
        self._show(spec, spectra, dict(expert_colours), busy=True)

    def show_comparison(
        self, old: LayerSpectrum, new: LayerSpectrum, labels: tuple[str, str] = ("old", "new")
    ) -> None:
        """Draw two merges of one layer without experts, each with its W_pre if that differs."""
        ratios = [norm_ratio(spectrum.report) for spectrum in (old, new)]
        parts = (f"{name} {number_text(r, 3)}" for name, r in zip(labels, ratios, strict=True) if r)
        caption = ", ".join(parts)
        if caption:
            caption = f"‖ΔW‖ over the experts' mean: {caption}"
        else:
            caption = ""

        curves = (
            *_merge_curves(new, label=labels[1], colour="accent"),
            *_merge_curves(old, label=labels[0], colour="text2", width=1.8),
        )
        self._show(PlotSpec(title=new.name, sentence=caption, curves=curves), *labels, old, new)

    def show_pair(
        self, title: str, caption: str, spectra: Mapping[str, NDArray[np.float64]]
    ) -> None:
        """Draw two spectra by their labels. The first has a thinner line."""

        looks = (("text2", 1.8), ("accent", 2.6))
        curves = tuple(
            _curve_of(label, label, values, colour=colour, width=width)
            for (label, values), (colour, width) in zip(spectra.items(), looks, strict=True)
        )
        sources = title, caption, *spectra, *spectra.values()
        self._show(PlotSpec(title=title, sentence=caption, curves=curves), *sources)

    def by_block(
        self, spectra: Sequence[LayerSpectrum], expert_colours: Mapping[str, str]
    ) -> BlockGrid:
        """The same matrix of every block, as one small plot per block."""
        specs = [spec_of_spectrum(spectrum, expert_colours) for spectrum in spectra]

        def one(spec: PlotSpec) -> PlotSpec:
            number = block_of(spec.title)
            if number is None:
                title = spec.title
            else:
                title = f"Block {number}"
            return replace(self._in_quantity(spec), title=title, sentence="", marks=())

        def columns() -> list[FigureColumn]:
            every = [spec.curves for spec in specs]
            count = max(len(curve.y) for curves in every for curve in curves)
            columns = [FigureColumn("i", np.arange(1, count + 1))]
            for spec, curves in zip(specs, every, strict=True):
                columns += [
                    replace(column, title=f"{column.title}, {spec.title}")
                    for column in _columns(curves, count)[1:]
                ]
            return columns

        return BlockGrid(self, [partial(one, spec) for spec in specs], columns)

    def clear(self, message: str = "") -> None:
        self._spectra = None
        super().clear(message)

    def curves(self) -> Sequence[PlotCurve]:
        """The drawn spectra, the merge first; empty for a message."""
        if self._spectra is None:
            return ()
        return self._spectra.curves

    def _show(self, spectra: PlotSpec, *sources: object, busy: bool = False) -> None:
        """Draw ``spectra``; the same layer keeps its zoom. ``busy``: another plot will follow."""
        zoomed = self._spectra is not None and self._spectra.title == spectra.title
        self._spectra = spectra
        self.present(partial(self._in_quantity, spectra), *sources, zoomed=zoomed, busy=busy)

    def _in_quantity(self, spectra: PlotSpec) -> PlotSpec:
        quantity: Quantity = self.quantity.current
        share = quantity is Quantity.ENERGY
        logarithmic = self.log_box.isChecked() and not share
        curves = [_curve_in(spectrum, quantity) for spectrum in spectra.curves]
        last = max((_last_shown(spectrum) for spectrum in spectra.curves), default=1)
        counts = [_count_cut(curve, last, floor=logarithmic) for curve in curves]
        cut = 0 if share else sum(counts)
        remark = counted(
            cut,
            "%n value not drawn: zero but for rounding (below {floor} of the largest)",
            "%n values not drawn: zero but for rounding (below {floor} of the largest)",
            floor=power_of_ten(_FLOOR_EXPONENT),
        )
        marks = [PlotMark(value=mark) for mark in MARKS[:-1]]
        marks.append(PlotMark(value=MARKS[-1], label=_NAMES, share=1.0, above=True))
        return replace(
            spectra,
            sentence=" · ".join(filter(None, (spectra.sentence, remark if cut else ""))),
            curves=[*_reached(spectra.curves, curves), *curves] if share else curves,
            x=PlotAxis(title="index i", counts=True, low=1.0, high=float(max(last, 2))),
            y=PlotAxis(
                title=quantity.value[2],
                low=None if logarithmic else 0.0,
                padding=_ABOVE_ALL if share else 0.04,
                scale=100.0 if share else 1.0,
            ),
            marks=marks if share else spectra.marks,
            columns=lambda: _columns(spectra.curves),
            logarithmic_choice=not share,
            position=lambda x: f"i = {x:.0f}",
        )


def _last_shown(spectrum: PlotCurve) -> int:
    """The last index from 1 whose singular value is more than a rounding error."""
    visible = np.flatnonzero(spectrum.y > 10.0**_FLOOR_EXPONENT * spectrum.y.max(initial=0.0))
    if visible.size:
        return int(visible[-1]) + 1
    return 1


def _count_cut(curve: PlotCurve, last: int, *, floor: bool) -> int:
    """How many values are beyond the last index, or below the floor if the axis has one."""
    is_cut = np.arange(1, len(curve.y) + 1) > last
    if floor:
        is_cut |= curve.y < curve.floor
    return int(is_cut.sum())


def _curve_in(spectrum: PlotCurve, quantity: Quantity) -> PlotCurve:
    """The curve of ``quantity``. A spectrum of zeros stays zero, or is NaN as a share of energy."""
    values = spectrum.y
    if quantity is Quantity.ENERGY:
        values = cumulative_energy(values)
    elif quantity is Quantity.RELATIVE and values[0] > 0:
        values = values / values[0]

    def words(index: int) -> str:
        if quantity is Quantity.ENERGY:
            return f"{100 * values[index]:.1f} % of the energy in {index + 1} directions"
        return number_text(float(values[index]), 3)

    floor = float(values.max(initial=0.0)) * 10.0**_FLOOR_EXPONENT
    return replace(spectrum, y=values, floor=floor, words=words)


def _reached(spectra: Sequence[PlotCurve], curves: list[PlotCurve]) -> list[PlotCurve]:
    """The dots where a merge reaches each share of ``MARKS``."""
    dots = []
    for spectrum, curve in zip(spectra, curves, strict=True):
        if curve.strong:
            reached = [directions_for(spectrum.y, share) for share in MARKS]
            x = np.array([index for index in reached if index], dtype=np.int64)
            dots.append(
                PlotCurve(
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


def _columns(spectra: Sequence[PlotCurve], least: int = 0) -> tuple[FigureColumn, ...]:
    """One row per index, at least ``least`` rows; NaN beyond the end of a spectrum."""
    count = max((len(spectrum.y) for spectrum in spectra), default=0)
    count = max(count, least)
    columns = [FigureColumn("i", np.arange(1, count + 1))]
    for spectrum in spectra:
        missing = (0, count - len(spectrum.y))
        values = np.pad(spectrum.y, missing, constant_values=np.nan)
        columns.append(FigureColumn(f"σ, {spectrum.label}", values))
    return tuple(columns)


def _same_experts(before: ExpertSpectra | LayerSpectrum, after: ExpertSpectra) -> bool:
    """Whether both have the same spectra of the same experts for the same layer."""
    first = before.experts
    second = after.experts
    return (
        before.name == after.name
        and list(first) == list(second)
        and all(np.array_equal(first[name], second[name]) for name in first)
    )
