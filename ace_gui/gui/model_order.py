"""The order in which people think of a model's tensors; files have them by the alphabet."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ace_gui.engine.plan import PlanRow

_DIGITS = re.compile(r"(\d+)")


def natural_key(name: str) -> list[tuple[int, str]]:
    """Sorts ``layer.10`` after ``layer.2``."""
    parts = _DIGITS.split(name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts if part]


def model_order(rows: Iterable[PlanRow]) -> tuple[PlanRow, ...]:
    """From input to output: embeddings, the blocks as they are numbered, the rest."""
    return tuple(sorted(rows, key=_place))


def _place(row: PlanRow) -> tuple[int, int, list[tuple[int, str]]]:
    if row.block is not None:
        return 1, row.block, natural_key(row.name)
    return (0 if "embed" in row.role or "embed" in row.name else 2), 0, natural_key(row.name)
