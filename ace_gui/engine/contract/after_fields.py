"""The steps after any method, as fields of a form and of the command line."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ace_gui.field_info import FieldInfo
from ace_gui.recipe.overrides import LARGEST_CAP, LARGEST_FACTOR, LARGEST_POWER
from ace_gui.recipe.values import After, Cap, ParameterValue


def _field(name: str, default: float, label: str, help: str, low: float, high: float) -> FieldInfo:
    return FieldInfo(
        name=f"after.{name}",
        default=default,
        label=label,
        help=help,
        low=low,
        high=high,
        low_open=name == "rank",
    )


AFTER_FIELDS: Final = (
    _field("rank", 1.0, "Rank", "Share of the singular directions that is kept.", 0, 1),
    _field(
        "spectrum",
        1.0,
        "Spectrum p",
        "Power of the singular values: σ becomes σ^p, and the Frobenius norm stays. Below 1 the "
        "spectrum is flatter.",
        0,
        LARGEST_POWER,
    ),
    _field(
        "depth[0]",
        1.0,
        "First block",
        "Factor of the first block; see the last block.",
        *(-LARGEST_FACTOR, LARGEST_FACTOR),
    ),
    _field(
        "depth[1]",
        1.0,
        "Last block",
        "Factor of the last block, linear in between (LiNeS). A matrix in no block has that of the "
        "first.",
        -LARGEST_FACTOR,
        LARGEST_FACTOR,
    ),
    _field("scale", 1.0, "Scale", "Factor on every change.", -LARGEST_FACTOR, LARGEST_FACTOR),
)
"""In the order in which they are applied; the cap is the last."""

CAP_FIELD: Final = _field(
    "cap",
    Cap().delta,
    "Cap δ",
    "Share of the norm of the base's matrix up to which the experts' changes may add up.",
    0,
    LARGEST_CAP,
)


def value_of(after: After, name: str) -> float | None:
    """The value of one of ``AFTER_FIELDS``; None if it is not set."""
    match name.removeprefix("after."):
        case "depth[0]":
            return None if after.depth is None else after.depth[0]
        case "depth[1]":
            return None if after.depth is None else after.depth[1]
        case plain:
            value: float | None = getattr(after, plain)
            return value


def with_value(after: After, name: str, value: ParameterValue | None) -> After:
    """A copy with another value of one of ``AFTER_FIELDS``; None unsets it."""
    plain, number = name.removeprefix("after."), None if value is None else float(value)
    if plain not in ("depth[0]", "depth[1]"):
        made: After = replace(after, **{plain: number})  # type: ignore[arg-type]
        return made
    first, last = after.depth or (1.0, 1.0)
    usual = 1.0 if number is None else number
    depth = (usual, last) if plain == "depth[0]" else (first, usual)
    return replace(after, depth=None if number is None and depth == (1.0, 1.0) else depth)
