"""The content of a spectrum plot: curves and captions.

R singular values, largest first.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import Qt

from ace_gui.engine.contract.figures.findings import ExpertSpectra, LayerSpectrum
from ace_gui.engine.contract.figures.health import norm_ratio
from ace_gui.engine.contract.figures.spectral_figures import NEGLIGIBLE
from ace_gui.formatting import number_text
from ace_gui.gui.plots.frame.colours import in_theme
from ace_gui.gui.plots.frame.spec import Curve
from ace_gui.gui.theme import Tokens

AFTER: Final = "merge: after"
BEFORE: Final = "merge: before"
UNSHAPED: Final = "merge: unshaped"

FLOOR_EXPONENT: Final = round(math.log10(NEGLIGIBLE))
"""Values below 10^this of a curve's σ₁ are rounding errors; a logarithmic axis cuts them off."""

_CHANGED: Final = 1e-3  # of the largest value: smaller changes are not seen
_EXPERT_STYLES: Final = (Qt.PenStyle.SolidLine, Qt.PenStyle.DashDotLine, Qt.PenStyle.DotLine)
_SHORT: Final = {"after refinement": "after", "before (W_pre)": "before"}  # at the curves' ends


@dataclass(frozen=True)
class Picture:
    """The content of a plot: ``curves`` of σ_R in a theme's colours, with a title and a caption.

    ``awaited``: a merge's curve will follow; the legend already has its entry. ``refined``: number
    of leading values that refinement changed.
    """

    title: str
    caption: str
    curves: Callable[[Tokens], tuple[Curve, ...]]
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
    ratios = [norm_ratio(each.report) for each in (old, new)]
    parts = (f"{label} {number_text(r, 3)}" for label, r in zip(labels, ratios, strict=True) if r)
    caption = ", ".join(parts)
    return Picture(
        new.name,
        f"‖ΔW‖ over the experts' mean: {caption}" if caption else "",
        lambda theme: (
            *_merge_curves(new, theme, label=labels[1], colour=theme.accent),
            *_merge_curves(old, theme, label=labels[0], colour=theme.text2, width=1.8),
        ),
    )


def picture_of_pair(
    title: str, caption: str, spectra: Mapping[str, NDArray[np.float64]]
) -> Picture:
    """Spectra by label in one plot; the first has a thinner line."""

    def curves(theme: Tokens) -> tuple[Curve, ...]:
        styles = ((theme.text2, 1.8), (theme.accent, 2.6))
        return tuple(
            _curve(label, label, values, colour=colour, width=width)
            for (label, values), (colour, width) in zip(spectra.items(), styles, strict=True)
        )

    return Picture(title, caption, curves)


def unrefined(spectrum: LayerSpectrum) -> bool:
    """Whether the merge before and after refinement is the same."""
    before = spectrum.preliminary
    after = spectrum.merged if spectrum.unshaped is None else spectrum.unshaped
    if before is None or before.shape != after.shape:
        return False
    largest = float(after.max(initial=0.0))
    return np.allclose(before, after, rtol=1e-9, atol=1e-9 * largest)


def _curve(key: str, label: str, values: NDArray[np.float64], **look: Any) -> Curve:
    """A spectrum; those of experts are the first to lose the names at their ends."""
    return Curve(
        key=key,
        label=label,
        y=values,
        end=_SHORT.get(label, label),
        strong=not key.startswith("expert"),
        **look,
    )


def _merge_curves(
    spectrum: LayerSpectrum,
    theme: Tokens,
    *,
    label: str = "",
    colour: str = "",
    width: float = 2.2,
) -> list[Curve]:
    """The merged delta; W_pre dashed if refinement changed it; the method's result dotted if the
    recipe changed its singular values.

    Keys start with ``label``.
    """
    refined = spectrum.preliminary is not None and not unrefined(spectrum)
    plain = "after refinement" if refined and spectrum.unshaped is None else "merged"
    prefix, of_label = (f"{label} ", f"{label}, ") if label else ("", "")
    thin: dict[str, Any] = {"colour": colour or theme.base, "width": 0.75 * width}
    after = _curve(
        prefix + AFTER, label or plain, spectrum.merged, colour=colour or theme.text, width=width
    )
    curves = [after]
    if refined and spectrum.preliminary is not None:
        name, dashed = f"{of_label}before (W_pre)", Qt.PenStyle.DashLine
        curves.append(_curve(prefix + BEFORE, name, spectrum.preliminary, style=dashed, **thin))
    if spectrum.unshaped is not None:
        name, dotted = f"{of_label}method alone", Qt.PenStyle.DotLine
        curves.append(_curve(prefix + UNSHAPED, name, spectrum.unshaped, style=dotted, **thin))
    return curves


def _expert_curves(
    found: ExpertSpectra | LayerSpectrum, colours: Mapping[str, str], theme: Tokens
) -> tuple[Curve, ...]:
    curves = []
    used: Counter[str] = Counter()
    for name, values in found.experts.items():
        colour = in_theme(colours.get(name, theme.text2), theme)
        # Colours repeat beyond the palette; the line's style then distinguishes experts.
        style = _EXPERT_STYLES[used[colour] % len(_EXPERT_STYLES)]
        used[colour] += 1
        curves.append(_curve(f"expert {name}", name, values, colour=colour, style=style))
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
