"""The content of a spectrum plot: curves, colours and quantity.

R singular values, largest first.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import Qt

from ace_gui.engine.contract.figures.findings import ExpertSpectra, LayerSpectrum
from ace_gui.engine.contract.figures.health import norm_ratio
from ace_gui.engine.contract.figures.spectral_figures import NEGLIGIBLE, cumulative_energy
from ace_gui.formatting import number_text
from ace_gui.gui.plots.frame.colours import in_theme
from ace_gui.gui.plots.frame.legend import LegendEntry
from ace_gui.gui.theme import Tokens

AFTER: Final = "merge: after"
BEFORE: Final = "merge: before"
UNSHAPED: Final = "merge: unshaped"

FLOOR_EXPONENT: Final = round(math.log10(NEGLIGIBLE))
"""Values below 10^this of a curve's σ₁ are rounding errors; a logarithmic axis cuts them off."""

_CHANGED: Final = 1e-3  # of the largest value: smaller changes are not seen
_EXPERT_STYLES: Final = (Qt.PenStyle.SolidLine, Qt.PenStyle.DashDotLine, Qt.PenStyle.DotLine)


class Quantity(Enum):
    """The quantity of the vertical axis."""

    VALUE = auto()
    RELATIVE = auto()
    ENERGY = auto()


def short_label(label: str) -> str:
    """A curve's label if there is little room."""
    short = {
        "after refinement": "after",
        "before (W_pre)": "before",
    }
    return short.get(label, label)


@dataclass(frozen=True)
class Spectrum:
    """One spectrum σ_R with its style."""

    entry: LegendEntry
    values: NDArray[np.float64]

    def of(self, quantity: Quantity) -> NDArray[np.float64]:
        """The R values of ``quantity``. For a zero spectrum these are zero or, as a share, NaN."""
        if quantity is Quantity.ENERGY:
            return cumulative_energy(self.values)
        relative = quantity is Quantity.RELATIVE and self.values[0] > 0
        return self.values / self.values[0] if relative else self.values


@dataclass(frozen=True)
class Picture:
    """The content of a plot: ``curves`` in a theme's colours, with a title and a caption.

    ``awaited``: a merge's curve will follow; the legend already has its entry. ``refined``: number
    of leading values that refinement changed.
    """

    title: str
    caption: str
    curves: Callable[[Tokens], tuple[Spectrum, ...]]
    awaited: bool = False
    refined: int = 0


def picture_of_spectrum(spectrum: LayerSpectrum, colours: Mapping[str, str]) -> Picture:
    """The merge before and after refinement, then the experts with their ``colours``."""
    return Picture(
        spectrum.name,
        _caption(spectrum),
        lambda theme: (*_merge_curves(spectrum, theme), *_expert_curves(spectrum, colours, theme)),
        refined=refined_count(spectrum),
    )


def picture_of_experts(found: ExpertSpectra, colours: Mapping[str, str]) -> Picture:
    """The experts with their ``colours``, while the merge's spectrum is pending."""
    return Picture(
        found.name,
        "task vectors of the experts",
        lambda theme: _expert_curves(found, colours, theme),
        awaited=True,
    )


def picture_of_comparison(
    old: LayerSpectrum, new: LayerSpectrum, labels: tuple[str, str]
) -> Picture:
    """Two merges of one layer in one plot, each with its W_pre if that differs."""

    def curves(theme: Tokens) -> tuple[Spectrum, ...]:
        return (
            *_merge_curves(new, theme, label=labels[1], colour=theme.accent),
            *_merge_curves(old, theme, label=labels[0], colour=theme.text2, width=1.8),
        )

    ratios = [norm_ratio(each.report) for each in (old, new)]
    parts = (f"{label} {number_text(r, 3)}" for label, r in zip(labels, ratios, strict=True) if r)
    caption = ", ".join(parts)
    return Picture(
        new.name,
        f"‖ΔW‖ over the experts' mean: {caption}" if caption else "",
        curves,
    )


def picture_of_pair(
    title: str, caption: str, spectra: Mapping[str, NDArray[np.float64]]
) -> Picture:
    """Spectra by label in one plot; the first has a thinner line."""

    def curves(theme: Tokens) -> tuple[Spectrum, ...]:
        styles = ((theme.text2, 1.8), (theme.accent, 2.6))
        return tuple(
            Spectrum(LegendEntry(key=label, label=label, colour=colour, width=width), values)
            for (label, values), (colour, width) in zip(spectra.items(), styles, strict=True)
        )

    return Picture(title, caption, curves)


def same_experts(one: ExpertSpectra | LayerSpectrum, other: ExpertSpectra | LayerSpectrum) -> bool:
    """Whether both show the same curves of the same experts for one layer."""
    first, second = one.experts, other.experts
    return (
        one.name == other.name
        and list(first) == list(second)
        and all(np.array_equal(first[name], second[name]) for name in first)
    )


def unrefined(spectrum: LayerSpectrum) -> bool:
    """Whether the merge before and after refinement is the same."""
    before = spectrum.preliminary
    after = spectrum.merged if spectrum.unshaped is None else spectrum.unshaped
    if before is None or before.shape != after.shape:
        return False
    largest = float(after.max(initial=0.0))
    return np.allclose(before, after, rtol=1e-9, atol=1e-9 * largest)


def _merge_curves(
    spectrum: LayerSpectrum,
    theme: Tokens,
    *,
    label: str = "",
    colour: str = "",
    width: float = 2.2,
) -> list[Spectrum]:
    """The merged delta; W_pre dashed if refinement changed it; the method's result dotted if the
    recipe changed its singular values.

    Keys start with ``label``.
    """
    refined = spectrum.preliminary is not None and not unrefined(spectrum)
    plain = "after refinement" if refined and spectrum.unshaped is None else "merged"
    names = (
        label or plain,
        f"{label}, before (W_pre)" if label else "before (W_pre)",
    )
    prefix = f"{label} " if label else ""
    after = LegendEntry(
        key=prefix + AFTER, label=names[0], colour=colour or theme.text, width=width
    )
    curves = [Spectrum(after, spectrum.merged)]
    if refined and spectrum.preliminary is not None:
        before = LegendEntry(
            key=prefix + BEFORE,
            label=names[1],
            colour=colour or theme.base,
            style=Qt.PenStyle.DashLine,
            width=0.75 * width,
        )
        curves.append(Spectrum(before, spectrum.preliminary))
    if spectrum.unshaped is not None:
        unshaped = LegendEntry(
            key=prefix + UNSHAPED,
            label=f"{label}, method alone" if label else "method alone",
            colour=colour or theme.base,
            style=Qt.PenStyle.DotLine,
            width=0.75 * width,
        )
        curves.append(Spectrum(unshaped, spectrum.unshaped))
    return curves


def _expert_curves(
    found: ExpertSpectra | LayerSpectrum, colours: Mapping[str, str], theme: Tokens
) -> tuple[Spectrum, ...]:
    curves = []
    used: Counter[str] = Counter()
    for name, values in found.experts.items():
        colour = in_theme(colours.get(name, theme.text2), theme)
        # Colours repeat beyond the palette; the line's style then distinguishes experts.
        style = _EXPERT_STYLES[used[colour] % len(_EXPERT_STYLES)]
        used[colour] += 1
        entry = LegendEntry(key=f"expert {name}", label=name, colour=colour, style=style, width=1.6)
        curves.append(Spectrum(entry, values))
    return tuple(curves)


def refined_count(spectrum: LayerSpectrum) -> int:
    """How many leading singular values refinement changed; 0 if none, or nearly all of them."""
    before, after = spectrum.preliminary, spectrum.unshaped
    after = spectrum.merged if after is None else after
    if before is None or before.shape != after.shape:
        return 0
    changed = np.flatnonzero(np.abs(after - before) > _CHANGED * before.max(initial=0.0))
    count = int(changed[-1]) + 1 if changed.size else 0
    return count if count < 0.95 * len(before) else 0


def _caption(spectrum: LayerSpectrum) -> str:
    regime = spectrum.report.regime
    words = "" if regime is None else f"{regime.value}: "
    count = refined_count(spectrum)
    if count:
        return f"{words}refinement changed the first {count} of {len(spectrum.merged)} values"
    if unrefined(spectrum):
        same = "no refinement" if spectrum.unshaped is not None else "no refinement, before = after"
        return words + same
    return words.removesuffix(": ")
