"""How exact a merged tensor must be, from the number formats of what is merged.

Weights in 16 bits carry a rounding that no arithmetic undoes: of the experts, it is in the task
vectors already; of the output, it is still to come. What computing adds may be a small share of the
larger of both. Weights in float32 are so exact that computing decides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import torch

EXACT: Final = 3e-6
"""Largest relative error where nothing is rounded more coarsely than float32."""

COARSEST: Final = 1e-3
"""Largest relative error whatever the formats: of changes that are hardly larger than rounding."""

SHARE: Final = 1 / 30
"""Of the rounding. What is computed so is 1 + 1/1800 times as far from the exact result."""

LARGEST_SHARE: Final = 1 / 6
"""Where the merge multiplies the experts' rounding; so it is 1.014 times as far at most."""


IN_FLOAT64: Final = "Computed in float64, as float32 would not be exact enough, or not be faster."


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """How far from its exact value a merged task vector may be.

    ``rounding``: Frobenius norm of the rounding that is in the merged task vector, or will be.
    ``carried``: of what is in the experts' task vectors already, 0 where that is nothing.
    ``source``: whose the rounding is, in words. Without any of it, all is float32 or wider.
    """

    rounding: float = 0.0
    carried: float = 0.0
    source: str = ""

    def relative(self, norm: float, multiplied: float = 1.0) -> float:
        """The largest error of a merged task vector of that norm, as a share of it.

        ``multiplied``: by how much the merge multiplies errors of the task vectors.
        """
        felt = min(SHARE * self.carried * multiplied, LARGEST_SHARE * self.rounding)
        allowed = max(SHARE * self.rounding, felt) / (norm or math.inf)
        return min(COARSEST, max(EXACT, allowed))

    def told(self, error: float, numbers: str = "float32") -> str:
        """Which numbers were taken, what error that leaves, and why it is small enough."""
        left = f"Computed in {numbers}, which leaves {error:.0e} of the change"
        if not self.rounding:
            return f"{left} (limit: {EXACT:.0e})."
        return f"{left}: less than a thirtieth of the rounding of {self.source}."

    def scaled(self, factor: float) -> Tolerance:
        """Of what is multiplied by ``factor`` afterwards; that a factor is small does not count."""
        by = max(1.0, abs(factor))
        return replace(self, rounding=self.rounding / by, carried=self.carried / by)


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
    return Tolerance(
        rounding=rounding, carried=rounding, source=f"the experts' {' and '.join(coarse)}"
    )


def with_output(tolerance: Tolerance, dtype: torch.dtype, norm: float) -> Tolerance:
    """The same where weights of that norm will be stored in this format, if that is coarser."""
    rounding = unit(dtype) * norm
    if rounding <= tolerance.rounding:
        return tolerance
    name = str(dtype).removeprefix("torch.")
    return replace(tolerance, rounding=rounding, source=f"the output's {name}")
