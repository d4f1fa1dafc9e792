"""ACE's first pass over the experts: what decides how each is weighted, and how exactly to sum.

Equation numbers are those of Xu et al., ACE-Merging, arXiv:2603.02945v2. O outputs, I inputs.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from ace_gui.linalg.centring import centre_
from ace_gui.linalg.heterogeneity import GUARD, Heterogeneity, energy, heterogeneity
from ace_gui.linalg.spectra import largest_eigenvalue
from ace_gui.methods.ace_terms import Share
from ace_gui.methods.experts import WeightedExperts

LARGEST_SINGLE_CONDITION: Final = 100.0
"""Up to this condition number of S the sums over experts are taken in float32.

Their rounding costs W_pre at most about 6e-8 (the rounding of float32) times the condition number.
"""

MARGIN: Final = 1.5
"""By how much power iteration may fall short of λ_max."""


@dataclass(frozen=True, kw_only=True)
class Scan:
    """‖ΔW_t‖²_F, Tr Σ̂_t and about λ_max(Σ̂_t) (at least, in doubt), one an expert, and γ.

    ``shape``: (O, I). ``single``: whether all task vectors came in float32 or less.
    """

    energies: tuple[float, ...]
    traces: tuple[float, ...]
    largest: tuple[float, ...]
    shape: tuple[int, int]
    single: bool
    found: Heterogeneity


def scan(experts: WeightedExperts, epsilon: float) -> Scan:
    """Read every expert once; raises MethodError where an energy is not finite."""
    energies, traces, largest = [], [], []
    for t in range(len(experts)):
        delta_OI = experts.matrix(t)
        energies.append(energy(delta_OI))
        centre_(delta_OI)
        traces.append(energy(delta_OI))
        largest.append(_largest(delta_OI, traces[t], LARGEST_SINGLE_CONDITION * epsilon))
        outputs, inputs = delta_OI.shape
        del delta_OI
    return Scan(
        energies=tuple(energies),
        traces=tuple(traces),
        largest=tuple(largest),
        shape=(outputs, inputs),
        single=not experts.double,
        found=heterogeneity(energies),
    )


def _largest(centred_OI: Tensor, trace: float, limit: float) -> float:
    """λ_max(Σ̂_t), estimated only where the trace does not decide on which side of the limit it is.

    λ_max lies between the trace divided by the rank and the trace, which is returned otherwise.
    """
    if trace <= limit or trace > limit * min(centred_OI.shape) or not math.isfinite(trace):
        return trace
    return min(trace, MARGIN * largest_eigenvalue(centred_OI))


def shares_of(found: Scan, epsilon: float, heterogeneous: bool) -> list[Share]:
    """Eqs. 8 and 9 in the heterogeneous regime, Eq. 10 in the homogeneous one."""
    shares = []
    for t in found.found.kept:
        weight = 1 / (found.traces[t] + GUARD) if heterogeneous else 1.0
        shares.append(Share(expert=t, weight=weight, ridge=weight * epsilon))
    return shares


def prior_scale(found: Scan, heterogeneous: bool) -> float:
    """Factor on the collective structural prior: 1, or 1/τ̄ (Eqs. 12, 13)."""
    if not heterogeneous:
        return 1.0
    return 1 / (statistics.fmean(found.energies[t] for t in found.found.kept) + GUARD)


def precision(found: Scan, shares: list[Share]) -> torch.dtype:
    """Float32 where S = Σ_t w_t Σ̂_t + e I is conditioned well enough for it, or else float64."""
    largest = math.fsum(share.weight * found.largest[share.expert] for share in shares)
    ridge_mass = math.fsum(share.ridge for share in shares)
    if found.single and largest <= LARGEST_SINGLE_CONDITION * ridge_mass:
        return torch.float32
    return torch.float64
