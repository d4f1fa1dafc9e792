"""How exact a merged tensor must be, from the number formats of what is merged.

Weights in 16 bits carry a rounding that no arithmetic undoes: that of the experts is in the task
vectors already, that of the output is still to come. Computing may add a fifth of the larger of
both, which puts the result at most 1.02 times as far from the exact one, as √(1 + 1/25) = 1.02.
Weights in float32 are so exact that computing decides.
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
"""Of the rounding, which computing may add."""

IN_FLOAT64: Final = "Computed in float64, as float32 would not be exact enough, or not be faster."


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """How far from its exact value a merged task vector may be.

    ``rounding``: Frobenius norm of the rounding that is in the merged task vector, or will be; 0
    where all is float32 or wider. ``source``: whose rounding it is, in words.
    """

    rounding: float = 0.0
    source: str = ""

    def relative(self, norm: float) -> float:
        """The largest error of a merged task vector of that norm, as a share of it."""
        return max(EXACT, SHARE * self.rounding / (norm or math.inf))

    def describe(self, error: float) -> str:
        """What error float32 leaves, and why it is small enough."""
        left = f"Computed in float32, which leaves {error:.0e} of the change"
        if not self.rounding:
            return f"{left} (limit: {EXACT:.0e})."
        return f"{left}: less than a fifth of the rounding of {self.source}."

    def scaled(self, factor: float) -> Tolerance:
        """Of what is multiplied by ``factor`` afterwards; that a factor is small does not count."""
        return replace(self, rounding=self.rounding / max(1.0, abs(factor)))


STRICT: Final = Tolerance()
"""Of float32 and wider, and where nothing is known."""


def unit(dtype: torch.dtype) -> float:
    """Root mean square of the relative rounding of numbers of all sizes; 0 from float32 on.

    Rounding to a grid of spacing ε 2^e leaves 1/√12 of the spacing; a sixth of ε is a little less
    than that for mantissas however they are spread.
    """
    eps = torch.finfo(dtype).eps
    return eps / 6 if eps > torch.finfo(torch.float32).eps else 0.0


def of_experts(dtypes: Sequence[torch.dtype], weights: Sequence[float], norm: float) -> Tolerance:
    """From the formats of weights of that norm, one an expert: how far each is from its training.

    The root mean square over the experts, those included that are exact.
    """
    squares = [(unit(dtype) * weight) ** 2 for dtype, weight in zip(dtypes, weights, strict=True)]
    rounding = norm * math.sqrt(math.fsum(squares) / max(1, len(squares)))
    coarse = sorted({str(each).removeprefix("torch.") for each in dtypes if unit(each)})
    return Tolerance(rounding=rounding, source=f"the experts' {' and '.join(coarse)}")


def with_output(tolerance: Tolerance, dtype: torch.dtype, norm: float) -> Tolerance:
    """The same where weights of that norm will be stored in this format, if that is coarser."""
    rounding = unit(dtype) * norm
    if rounding <= tolerance.rounding:
        return tolerance
    name = str(dtype).removeprefix("torch.")
    return replace(tolerance, rounding=rounding, source=f"the output's {name}")
