"""A histogram compared with the Gaussian of the same mean and deviation. B bins."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

TAIL: Final = 3.0
"""Start of the tail, in standard deviations from the mean."""

GAUSSIAN_TAIL: Final = math.erfc(TAIL / math.sqrt(2))
"""Share of a Gaussian's entries in its tails, 0.27 %."""


def expected_counts(
    edges: NDArray[np.float64], count: int, mean: float, deviation: float
) -> NDArray[np.float64]:
    """The expected number of ``count`` Gaussian entries in each of the B bins; NaN without
    deviation."""
    if deviation == 0:
        return np.full(len(edges) - 1, np.nan)
    below = [0.5 * math.erfc(-z / math.sqrt(2)) for z in (edges - mean) / deviation]
    return count * np.diff(below)


def tail_share(
    edges: NDArray[np.float64],
    counts_B: NDArray[np.int64],
    outside: int,
    mean: float,
    deviation: float,
) -> float:
    """Share of the entries further than ``TAIL`` standard deviations from the mean.

    Entries are assumed to be spread evenly within a bin; those outside the bins count as tail. NaN
    without entries, without deviation, or if the bins end before the tail starts.
    """
    total = int(counts_B.sum()) + outside
    low, high = mean - TAIL * deviation, mean + TAIL * deviation
    if total == 0 or deviation == 0 or (outside and (low < edges[0] or high > edges[-1])):
        return math.nan
    below = np.concatenate([[0], np.cumsum(counts_B)])
    inside = float(np.interp(high, edges, below) - np.interp(low, edges, below))
    return 1 - inside / total
