"""The steps after any method, as fields of a form and of the command line."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ace_gui.field_info import FieldInfo
from ace_gui.recipe.overrides import limits_of
from ace_gui.recipe.values import After, Cap, ParameterValue

_DEPTHS: Final = ("depth[0]", "depth[1]")


def _field(name: str, label: str, help: str, of: str = "") -> FieldInfo:
    """A step that is one number. ``of``: the step whose limits it has; empty: its own."""
    limits = limits_of(After, of or name)
    return FieldInfo(name=f"after.{name}", default=1.0, label=label, help=help, **limits)


_FIRST: Final = "Factor of the first block; see the last block."
_LAST: Final = (
    "Factor of the last block; between the two it changes linearly (LiNeS). A matrix outside the "
    "blocks has the first block's factor."
)
_RANK: Final = (
    "Share of the singular directions that is kept. Their number is rounded down, but at least one."
)
_SPECTRUM: Final = (
    "Power of the singular values: σ becomes σ^p, and the Frobenius norm stays the same. A power "
    "below 1 makes the spectrum flatter."
)
_CAP: Final = "Limit on a change's norm, as a share of the base's. The experts' mean is allowed."

AFTER_FIELDS: Final = (
    _field("rank", "Rank", _RANK),
    _field("spectrum", "Spectrum p", _SPECTRUM),
    _field(_DEPTHS[0], "First block", _FIRST, of="scale"),
    _field(_DEPTHS[1], "Last block", _LAST, of="scale"),
    _field("scale", "Scale", "Factor on every change."),
)
"""In the order in which they are applied; the cap is the last."""

CAP_FIELD: Final = FieldInfo(
    name="after.cap", default=Cap().delta, label="Cap δ", help=_CAP, **limits_of(Cap, "delta")
)


def value_of(after: After, name: str) -> float | None:
    """The value of one of ``AFTER_FIELDS``; None if it is not set."""
    plain = name.removeprefix("after.")
    if plain in _DEPTHS:
        return after.depth and after.depth[_DEPTHS.index(plain)]
    value: float | None = getattr(after, plain)
    return value


def with_value(after: After, name: str, value: ParameterValue | None) -> After:
    """A copy with another value of one of ``AFTER_FIELDS``; None unsets it."""
    plain = name.removeprefix("after.")
    if value is None:
        number = None
    else:
        number = float(value)
    if plain not in _DEPTHS:
        changed: After = replace(after, **{plain: number})  # type: ignore[arg-type]
        return changed
    first, last = after.depth or (1.0, 1.0)
    if number is None:
        factor = 1.0
    else:
        factor = number
    if plain == _DEPTHS[0]:
        depth = (factor, last)
    else:
        depth = (first, factor)
    return replace(after, depth=None if number is None and depth == (1.0, 1.0) else depth)
