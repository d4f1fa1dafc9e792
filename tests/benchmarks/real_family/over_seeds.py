"""Means over seeds of experts, and whether a difference stands.

A standard error over the examples of a test set says nothing about other experts: here a value is
of one seed, and errors are over seeds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

CRITICAL = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}
"""By number of seeds: so many errors a mean difference must have at the 5 % level of a t-test."""


@dataclass(frozen=True)
class OverSeeds:
    """``values``: one of each seed; differences to another merge, if seeds are paired."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def error(self) -> float:
        """Standard error of the mean; NaN for one seed."""
        if len(self.values) < 2:
            return math.nan
        return statistics.stdev(self.values) / math.sqrt(len(self.values))

    @property
    def stands(self) -> bool:
        """Whether the mean is not 0 at the 5 % level (two-sided, paired t-test)."""
        if len(self.values) < 2:
            return False
        return abs(self.mean) > CRITICAL[len(self.values)] * self.error

    def __str__(self) -> str:
        return f"{self.mean:.3f}" + self._error

    @property
    def as_difference(self) -> str:
        """With its sign, and a star if it stands."""
        return f"{self.mean:+.3f}{self._error}{' *' if self.stands else ''}"

    @property
    def _error(self) -> str:
        return "" if math.isnan(self.error) else f" ± {self.error:.3f}"


def differences(ones: Sequence[float], others: Sequence[float]) -> OverSeeds:
    """Of each seed, the one less the other."""
    return OverSeeds(tuple(one - other for one, other in zip(ones, others, strict=True)))
