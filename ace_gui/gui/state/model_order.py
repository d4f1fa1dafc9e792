"""The order in which people think of a model's tensors; files have them by the alphabet."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from ace_gui.engine.contract.plan import PlanRow

_DIGITS = re.compile(r"\d+")
_WIDTH = 12  # digits; larger numbers do not occur in names


@lru_cache(maxsize=65_536)
def natural_key(name: str) -> str:
    """Sorts ``layer.10`` after ``layer.2``."""
    return _DIGITS.sub(lambda digits: digits.group().zfill(_WIDTH), name)


def model_order(rows: Iterable[PlanRow]) -> tuple[PlanRow, ...]:
    """From input to output: embeddings, the blocks as they are numbered, the rest.

    The parts of a tensor stay as they lie in it.
    """
    return tuple(sorted(rows, key=_place))


def _place(row: PlanRow) -> tuple[int, int, str]:
    if row.block is not None:
        # Blocks are alike: without the number there are few different names to take apart.
        return 1, row.block, natural_key(row.tensor.replace(f".{row.block}.", ".#.", 1))
    return (0 if "embed" in row.role or "embed" in row.name else 2), 0, natural_key(row.tensor)
