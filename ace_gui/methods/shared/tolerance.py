"""How exact a merged tensor must be, given the number formats of inputs and output.

Weights in 16 bits carry a rounding that no arithmetic undoes: the task vectors already have the
experts' rounding, and the output's is still to come. The computation may add a fifth of the larger
of the two. The error then grows by a factor of at most √(1 + 1/25) = 1.02. Weights in float32 are
so exact that the computation decides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import torch

EXACT: Final = 3e-6
"""Largest relative error where nothing is rounded more coarsely than float32."""

SHARE: Final = 1 / 5
"""Error that the computation may add, as a share of the rounding."""

IN_FLOAT64: Final = "Computed in float64, as float32 would not be exact enough, or not be faster."


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """How far from its exact value a merged task vector may be."""

    rounding: float = 0.0
    """Frobenius norm of the rounding that the merged task vector has or will get; 0 if all is
    float32 or wider.
    """
    source: str = ""
    """Whose rounding it is, in words."""

    def relative(self, norm: float) -> float:
        """The largest error of a merged task vector of that norm, as a share of it."""
        if norm == 0:
            return EXACT
        return max(EXACT, SHARE * self.rounding / norm)

    def part(self, share: float) -> Tolerance:
        """What one of several steps may use.

        The steps' errors add up as squares, so the squares of their shares should sum to 1.
        """
        return replace(self, rounding=share * self.rounding)

    def describe(self, error: float) -> str:
        """A sentence on float32's error and why it is small enough."""
        start = f"Computed in float32, which leaves {error:.0e} of the change"
        if not self.rounding:
            return f"{start} (limit: {EXACT:.0e})."
        return f"{start}: less than a fifth of the rounding of {self.source}."

    def scaled(self, factor: float) -> Tolerance:
        """The tolerance before a later multiplication; a factor below 1 does not relax it."""
        return replace(self, rounding=self.rounding / max(1.0, abs(factor)))


STRICT: Final = Tolerance()
"""The tolerance for float32 and wider, and where the formats are unknown."""


def rounding_of(dtype: torch.dtype) -> float:
    """Root mean square of the relative rounding in this format; 0 for float32 and wider.

    A number m 2^e, 1 ≤ m < 2, is rounded to a multiple of ε 2^e, which leaves 1/√12 of that. As a
    share of the number it is ε / (√12 m), which is ε/4.9 in the mean if mantissas m are spread
    evenly. A sixth of ε is used: too little only makes the computation more exact than it need be.
    """
    eps = torch.finfo(dtype).eps
    if eps > torch.finfo(torch.float32).eps:
        return eps / 6
    return 0.0


def tolerance_of_experts(
    dtypes: Sequence[torch.dtype], weights: Sequence[float], norm: float
) -> Tolerance:
    """The tolerance for weights of this norm, with one format per expert.

    Its rounding is the root mean square over all experts, exact ones included.
    """
    squares = []
    coarse_formats = set()
    for dtype, weight in zip(dtypes, weights, strict=True):
        squares.append((rounding_of(dtype) * weight) ** 2)
        if rounding_of(dtype):
            coarse_formats.add(_name(dtype))
    rounding = norm * math.sqrt(math.fsum(squares) / max(1, len(squares)))
    source = f"the experts' {' and '.join(sorted(coarse_formats))}"
    return Tolerance(rounding=rounding, source=source)


def with_output(tolerance: Tolerance, dtype: torch.dtype, norm: float) -> Tolerance:
    """The tolerance if weights of this norm are stored in ``dtype``, where that is coarser."""
    rounding = rounding_of(dtype) * norm
    if rounding <= tolerance.rounding:
        return tolerance
    return replace(tolerance, rounding=rounding, source=f"the output's {_name(dtype)}")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
