"""Whether sums over experts taken in float32 are exact enough, found out with random vectors.

Equation numbers are those of Xu et al., ACE-Merging, arXiv:2603.02945v2. T experts, O outputs,
I inputs, P probes. Homogeneous regime only: all experts weigh alike there, so that what the exact
sums do to the probes is known before the regime is.

Eq. 14 asks for the W_pre with W_pre A = B, where A = S + 1cᵀ. What is found from sums in float32 is
off by δW = (W_pre A − B) A⁻¹, and A⁻¹ is about 1/e at most, e being the ridge mass. For a matrix D
and vectors z of independent normal numbers the mean of ‖Dz‖² is ‖D‖²_F, so that a few thin products
tell how large δW may be, whatever its causes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from ace_gui.methods.ace_terms import Preliminary, Share, collect, preliminary

PROBES: Final = 8
"""Enough: even of a D of rank one, the worst, ‖D‖_F is found three times too small only once in
800 times, of one of rank 4 practically never."""

LARGEST_CONDITION: Final = 100.0
"""Up to this ‖S₀‖_F/e float32 is tried: its rounding (6e-8) costs W_pre 0.3 to 3 times as much."""

LARGEST_ROUNDING: Final = 3e-6
"""Largest relative error of W_pre that float32 may leave; a third of what is promised."""


@dataclass(frozen=True, kw_only=True)
class Probes:
    """What the sums over experts do to P random vectors, exactly (float64).

    ``given_PI``: the vectors, as rows, since thin products are much faster so. ``scaled_PI``:
    S₀ times them. ``numerator_PO``: B times them. Experts that will be left out are among the sums;
    what they add, 1e-5 of an expert at most, can only make float32 look worse.
    """

    given_PI: Tensor
    scaled_PI: Tensor
    numerator_PO: Tensor

    def add_(self, centred_OI: Tensor, epsilon: float) -> None:
        """Add W̃_t, with ridge ε, to both sums."""
        scaled_PI = (self.given_PI @ centred_OI.T) @ centred_OI
        self.scaled_PI.add_(scaled_PI)
        self.numerator_PO.addmm_(scaled_PI.add_(self.given_PI, alpha=epsilon), centred_OI.T)

    @property
    def norm(self) -> float:
        """About ‖S₀‖_F."""
        return float(torch.linalg.vector_norm(self.scaled_PI)) / math.sqrt(PROBES)

    def missed(self, value_OI: Tensor, ridge_mass: float) -> float:
        """About ‖W_pre A − B‖_F; the prior (Eq. 11) adds to each entry of S₀z their mean."""
        system_PI = self.scaled_PI + self.scaled_PI.mean(dim=1, keepdim=True)
        system_PI.add_(self.given_PI, alpha=ridge_mass)
        missed_PO = system_PI @ value_OI.T - self.numerator_PO
        return float(torch.linalg.vector_norm(missed_PO)) / math.sqrt(PROBES)


def new_probes(like_OI: Tensor) -> Probes:
    """Always the same random vectors for a shape, so that results can be repeated."""
    outputs, inputs = like_OI.shape
    generator = torch.Generator().manual_seed(0)
    given_PI = torch.randn(PROBES, inputs, generator=generator, dtype=torch.float64)
    return Probes(
        given_PI=given_PI.to(like_OI.device),
        scaled_PI=like_OI.new_zeros(PROBES, inputs),
        numerator_PO=like_OI.new_zeros(PROBES, outputs),
    )


def in_float32(
    read: Callable[[int, torch.dtype], Tensor], shares: Sequence[Share], probes: Probes
) -> Preliminary | None:
    """W_pre in the homogeneous regime from sums in float32; None where their rounding weighs.

    ``read(t, dtype)`` gives ΔW_t as ``collect`` wants it; each is read once, or not at all.
    """
    ridge_mass = math.fsum(share.ridge for share in shares)
    if probes.norm > LARGEST_CONDITION * ridge_mass:
        return None
    sums = collect(lambda t: read(t, torch.float32), shares, with_residual=False)
    found = preliminary(sums.double(), 1.0)
    error = probes.missed(found.value_OI, ridge_mass) / ridge_mass
    largest = LARGEST_ROUNDING * float(torch.linalg.vector_norm(found.value_OI))
    return found if error <= largest else None
