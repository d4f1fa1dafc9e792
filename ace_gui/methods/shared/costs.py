"""What methods take of memory, and how many operations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

WorkingMemory = Callable[[tuple[int, ...], int], float]
"""From the shape of a tensor (O × I for a matrix) and T to how many float64 numbers the method
holds at once at most, the expert in hand included."""


Flops = Callable[[tuple[int, ...], int, Any], float]
"""From the shape of a matrix (O × I), T and the parameters to how many arithmetic operations."""


def products_with_itself(shape: tuple[int, ...], experts: int, _parameters: Any = None) -> float:
    """Operations of the product of T matrices with their own transposes, on the larger side."""
    return 2.0 * experts * math.prod(shape) * max(shape)


def per_decomposition(*, experts: float = 0.0, once: float = 0.0) -> Flops:
    """Operations of so many singular value decompositions for each expert, and once."""

    def flops(shape: tuple[int, ...], found: int, _parameters: Any) -> float:
        one = _DECOMPOSITION * math.prod(shape) * min(shape)
        return (experts * found + once) * one

    return flops


_DECOMPOSITION: Final = 14.0
"""Operations of one, in multiples of O · I · min(O, I): with vectors, of a matrix not far from
square; the usual count."""


def per_entry(numbers: float) -> WorkingMemory:
    """So many float64 numbers an entry, whatever the number of experts."""
    return lambda shape, _experts: numbers * math.prod(shape)


def per_matrix(
    *,
    entries: float,
    smaller: float = 0.0,
    outputs: float = 0.0,
    inputs: float = 0.0,
    expert: float = 0.0,
) -> WorkingMemory:
    """So many float64 numbers for each of O·I, min(O, I)², O² and I².

    ``expert``: more of min(O, I)², for each expert.
    """

    def numbers(shape: tuple[int, ...], experts: int) -> float:
        rows, columns = shape
        squares = (smaller + expert * experts) * min(shape) ** 2
        return entries * rows * columns + squares + outputs * rows**2 + inputs * columns**2

    return numbers
