"""Number formats of the window only; the others are in ``formatting``."""

from __future__ import annotations

from ace_gui import formatting


def short_score_text(score: float) -> str:
    """A mean score in short form: ".807"."""
    return f"{score:.3f}".removeprefix("0")


def value_text(value: float | bool | str) -> str:
    """A parameter's value as text: ``0.3``, ``1e-5``, ``yes``, a choice."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return formatting.value_text(value)


def gamma_text(gamma: float) -> str:
    """γ or τ: "0.413"; with an exponent where three decimals would show zeros alone."""
    if 10 <= gamma < 100:
        return f"{gamma:.1f}"
    return f"{gamma:.3f}" if 5e-4 <= gamma < 10 else formatting.number_text(gamma, 2)
