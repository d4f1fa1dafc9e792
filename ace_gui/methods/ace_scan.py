"""ACE's first pass over the experts: what decides how each is weighted, and how exactly to sum.

Equation numbers are those of Xu et al., ACE-Merging, arXiv:2603.02945v2. O outputs, I inputs.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from ace_gui.linalg.centring import centre_
from ace_gui.linalg.heterogeneity import GUARD, Heterogeneity, energy, heterogeneity
from ace_gui.methods.ace_probes import LARGEST_CONDITION, Probes, new_probes
from ace_gui.methods.ace_terms import Share
from ace_gui.methods.experts import WeightedExperts


@dataclass(frozen=True, kw_only=True)
class Scan:
    """‖ΔW_t‖²_F and Tr Σ̂_t, one an expert, and γ.

    ``shape``: (O, I). ``probes``: to check sums in float32; None where those cannot do.
    """

    energies: tuple[float, ...]
    traces: tuple[float, ...]
    shape: tuple[int, int]
    probes: Probes | None
    found: Heterogeneity


def scan(experts: WeightedExperts, epsilon: float) -> Scan:
    """Read every expert once; raises MethodError where an energy is not finite."""
    energies, traces = [], []
    probes: Probes | None = None
    hopeless = False
    for t in range(len(experts)):
        delta_OI = experts.matrix(t)
        energies.append(energy(delta_OI))
        centre_(delta_OI)
        traces.append(energy(delta_OI))
        outputs, inputs = delta_OI.shape
        # ‖S₀‖_F is at least Tr S₀ / √I.
        hopeless |= not sum(traces) <= LARGEST_CONDITION * len(experts) * epsilon * inputs**0.5
        if not (hopeless or experts.double):
            probes = probes or new_probes(delta_OI)
            probes.add_(delta_OI, epsilon)
        del delta_OI
    return Scan(
        energies=tuple(energies),
        traces=tuple(traces),
        shape=(outputs, inputs),
        probes=None if hopeless or experts.double else probes,
        found=heterogeneity(energies),
    )


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


def condition(found: Scan, shares: list[Share]) -> float:
    """An upper bound on the condition number of S = Σ_t w_t Σ̂_t + e I, from its trace."""
    trace = math.fsum(share.weight * found.traces[share.expert] for share in shares)
    return 1.0 + trace / math.fsum(share.ridge for share in shares)
