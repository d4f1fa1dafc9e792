"""The curves of singular values of one layer: every expert, the merge before and after refinement.

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
from ace_gui.engine.contract.figures.spectral_figures import NEGLIGIBLE
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
_ALONE: Final = "method alone"
_SHORT: Final = {"after refinement": "after", "before (W_pre)": "before", _ALONE: _ALONE}
"""Names at the curves' ends, where the colour says of which merge they are."""


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
    count, regime = refined_count(spectrum), spectrum.report.regime
    said = ""
    if count:
        said = f"refinement changed the first {count} of {len(spectrum.merged)} values"
    elif _is_refined(spectrum) is False:
        said = "no refinement" + ", before = after" * (spectrum.unshaped is None)
    return Picture(
        spectrum.name,
        ": ".join(filter(None, ("" if regime is None else regime.value, said))),
        lambda theme: (*merge_curves(spectrum, theme), *expert_curves(spectrum, colours, theme)),
        refined=count,
    )


def curve_of(key: str, label: str, values: NDArray[np.float64], **look: Any) -> Curve:
    """A spectrum; those of experts are the first to lose the names at their ends."""
    strong, end = not key.startswith("expert"), _SHORT.get(label.rpartition(", ")[2], label)
    return Curve(key=key, label=label, y=values, end=end, strong=strong, **look)


def merge_curves(
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
    before, unshaped = spectrum.preliminary, spectrum.unshaped
    refined = _is_refined(spectrum)
    plain = "after refinement" if refined and unshaped is None else "merged"
    prefix, of_label = (f"{label} ", f"{label}, ") if label else ("", "")
    bold: dict[str, Any] = {"colour": colour or theme.text, "width": width}
    thin: dict[str, Any] = {"colour": colour or theme.base, "width": 0.75 * width}
    curves = [curve_of(prefix + AFTER, label or plain, spectrum.merged, **bold)]
    if refined and before is not None:
        name, dashed = f"{of_label}before (W_pre)", Qt.PenStyle.DashLine
        curves.append(curve_of(prefix + BEFORE, name, before, style=dashed, **thin))
    if unshaped is not None:
        name, dotted = f"{of_label}{_ALONE}", Qt.PenStyle.DotLine
        curves.append(curve_of(prefix + UNSHAPED, name, unshaped, style=dotted, **thin))
    return curves


def expert_curves(
    found: ExpertSpectra | LayerSpectrum, colours: Mapping[str, str], theme: Tokens
) -> tuple[Curve, ...]:
    """Those of the task vectors."""
    curves = []
    used: Counter[str] = Counter()
    for name, values in found.experts.items():
        colour = in_theme(colours.get(name, theme.text2), theme)
        # Colours repeat beyond the palette; the line's style then distinguishes experts.
        style = _EXPERT_STYLES[used[colour] % len(_EXPERT_STYLES)]
        used[colour] += 1
        curves.append(curve_of(f"expert {name}", name, values, colour=colour, style=style))
    return tuple(curves)


def _before_and_after(
    spectrum: LayerSpectrum,
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """The merge before and after refinement; None if there is nothing to compare."""
    before = spectrum.preliminary
    after = spectrum.merged if spectrum.unshaped is None else spectrum.unshaped
    return None if before is None or before.shape != after.shape else (before, after)


def _is_refined(spectrum: LayerSpectrum) -> bool | None:
    """Whether refinement changed the merge; None if that is not known."""
    pair = _before_and_after(spectrum)
    if pair is None:
        return None if spectrum.preliminary is None else True
    before, after = pair
    largest = float(after.max(initial=0.0))
    return not np.allclose(before, after, rtol=1e-9, atol=1e-9 * largest)


def refined_count(spectrum: LayerSpectrum) -> int:
    """How many leading singular values refinement changed; 0 if none, or nearly all of them."""
    pair = _before_and_after(spectrum)
    if pair is None:
        return 0
    before, after = pair
    changed = np.flatnonzero(np.abs(after - before) > _CHANGED * before.max(initial=0.0))
    count = int(changed[-1]) + 1 if changed.size else 0
    return count if count < 0.95 * len(before) else 0
