"""Whether sums over experts taken in float32 are exact enough, found out with random vectors.

Equation numbers are those of Xu et al., ACE-Merging, arXiv:2603.02945v2. B layers, T experts,
O outputs, I inputs, P probes. Homogeneous regime only: all experts weigh alike there, so that what
the exact sums do to the probes is known before the regime is.

Eq. 14 asks for the W_pre with W_pre A = B, where A = S + 1cᵀ. What is found from sums in float32 is
off by δW = (W_pre A − B) A⁻¹, and A⁻¹ is about 1/e at most, e being the ridge mass. For a matrix D
and vectors z of independent normal numbers the mean of ‖Dz‖² is ‖D‖²_F, so that a few thin products
tell how large δW may be, whatever its causes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor

from ace_gui.linalg.heterogeneity import norms
from ace_gui.linalg.products import add_product_, one_each, product
from ace_gui.methods.ace import by_inputs
from ace_gui.methods.ace.problem import Problem, Terms

PROBES: Final = 8
"""Enough: even of a D of rank one, the worst, ‖D‖_F is found three times too small only once in
800 times, of one of rank 4 practically never."""

LARGEST_CONDITION: Final = 100.0
"""Up to this ‖S₀‖_F/e float32 is tried: its rounding (6e-8) costs W_pre 0.3 to 3 times as much."""

LARGEST_ROUNDING: Final = 3e-6
"""Largest relative error of W_pre that float32 may leave; a third of what is promised."""


@dataclass(frozen=True, kw_only=True)
class Probes:
    """The products of the exact sums over experts with P random vectors (float64).

    ``given_PI``: the vectors, as rows, since thin products are much faster so. ``scaled_BPI``:
    S₀ times them. ``numerator_BPO``: B times them. Experts that will be left out are among the
    sums; what they add, 1e-5 of an expert at most, can only make float32 look worse.
    """

    given_PI: Tensor
    scaled_BPI: Tensor
    numerator_BPO: Tensor

    def add_(self, centred_BOI: Tensor, epsilon: float) -> None:
        """Add W̃_t, with ridge ε, to both sums."""
        given_BPI = self.given_PI.expand(len(centred_BOI), -1, -1)
        scaled_BPI = product(product(given_BPI, centred_BOI.mT), centred_BOI)
        self.scaled_BPI.add_(scaled_BPI)
        scaled_BPI.add_(self.given_PI, alpha=epsilon)
        add_product_(self.numerator_BPO, scaled_BPI, centred_BOI.mT)

    def of(self, layers: Sequence[int]) -> Probes:
        """Those of some of the layers."""
        chosen = list(layers)
        return replace(
            self, scaled_BPI=self.scaled_BPI[chosen], numerator_BPO=self.numerator_BPO[chosen]
        )

    def norms(self) -> list[float]:
        """About ‖S₀‖_F of each layer."""
        return [norm / math.sqrt(PROBES) for norm in norms(self.scaled_BPI)]

    def missed(self, value_BOI: Tensor, ridge_masses: Sequence[float]) -> list[float]:
        """About ‖W_pre A − B‖_F; the prior (Eq. 11) adds to each entry of S₀z their mean."""
        system_BPI = self.scaled_BPI + self.scaled_BPI.mean(dim=2, keepdim=True)
        system_BPI.addcmul_(self.given_PI, one_each(ridge_masses, system_BPI))
        missed_BPO = product(system_BPI, value_BOI.mT) - self.numerator_BPO
        return [norm / math.sqrt(PROBES) for norm in norms(missed_BPO)]


def new_probes(like_BOI: Tensor) -> Probes:
    """Always the same random vectors for a shape, so that results can be repeated."""
    layers, outputs, inputs = like_BOI.shape
    generator = torch.Generator().manual_seed(0)
    given_PI = torch.randn(PROBES, inputs, generator=generator, dtype=torch.float64)
    return Probes(
        given_PI=given_PI.to(like_BOI.device),
        scaled_BPI=like_BOI.new_zeros(layers, PROBES, inputs),
        numerator_BPO=like_BOI.new_zeros(layers, PROBES, outputs),
    )


def worth_trying(norm: float, ridge_mass: float) -> bool:
    """Whether sums in float32 may do, ``norm`` being about ‖S₀‖_F."""
    return norm <= LARGEST_CONDITION * ridge_mass


def solve(problem: Problem, probes: Probes) -> Terms:
    """W_pre in the homogeneous regime from sums in float32; in float64 where that is too coarse.

    Each expert is read once, and once more where a layer is solved anew.
    """
    found, coarse = in_float32(problem, probes)
    if len(coarse) == len(problem.layers):
        del found
        return by_inputs.solve(problem)
    if coarse:
        exact = by_inputs.solve(problem.of(coarse))
        found.preliminary_BOI[coarse] = exact.preliminary_BOI
        for b, cut in zip(coarse, exact.cuts, strict=True):
            found.cuts[b] = cut
    return found


def in_float32(problem: Problem, probes: Probes) -> tuple[Terms, list[int]]:
    """W_pre from sums in float32, and the layers for which it is too coarse."""
    sums = by_inputs.collect(problem, torch.float32)
    value_BOI, cuts = by_inputs.preliminary(sums.double(), problem)
    sizes, masses = norms(value_BOI), problem.ridge_masses
    missed = probes.missed(value_BOI, masses)
    coarse = [
        b
        for b, (error, mass, size) in enumerate(zip(missed, masses, sizes, strict=True))
        if not error / mass <= LARGEST_ROUNDING * size
    ]
    return Terms(preliminary_BOI=value_BOI, cuts=cuts), coarse
