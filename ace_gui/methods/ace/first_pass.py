"""ACE's first pass over the experts: what decides how each is weighted, and how exactly to sum.

Equation numbers are those of Xu et al., ACE-Merging, arXiv:2603.02945v2. B layers of one
shape, T experts, O outputs, I inputs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ace_gui.linalg.centring import centre_
from ace_gui.linalg.heterogeneity import GUARD, Heterogeneity, heterogeneity, norms
from ace_gui.methods.ace.by_inputs import Share, ridge_masses
from ace_gui.methods.ace.by_rows import few_experts
from ace_gui.methods.ace.float32_check import LARGEST_CONDITION, Probes, new_probes, worth_trying
from ace_gui.methods.shared.weighted_experts import WeightedExperts, stacked


@dataclass(frozen=True, kw_only=True)
class Scan:
    """What one layer's experts are: ‖ΔW_t‖²_F and Tr Σ̂_t, one an expert, and γ.

    ``shape``: (O, I). ``single``: whether sums in float32 may do, in the homogeneous regime.
    """

    energies: tuple[float, ...]
    traces: tuple[float, ...]
    shape: tuple[int, int]
    single: bool
    found: Heterogeneity


def scan(layers: Sequence[WeightedExperts], epsilon: float) -> tuple[list[Scan], Probes | None]:
    """Read every expert of every layer once; raises MethodError where an energy is not finite.

    The probes are to check sums in float32 by, of those layers that are ``single``.
    """
    energies_TB, traces_TB = [], []
    probes: Probes | None = None
    hopeless_B = [False] * len(layers)
    for t in range(len(layers[0])):
        delta_BOI = stacked(layers, t)
        energies_TB.append([norm * norm for norm in norms(delta_BOI)])
        centre_(delta_BOI)
        traces_TB.append([norm * norm for norm in norms(delta_BOI)])
        _, outputs, inputs = delta_BOI.shape
        # ‖S₀‖_F is at least Tr S₀ / √I.
        largest = LARGEST_CONDITION * len(layers[0]) * epsilon * inputs**0.5
        few = few_experts((outputs, inputs), len(layers[0]))  # then float64 is the faster
        for b, traces in enumerate(zip(*traces_TB, strict=True)):
            hopeless_B[b] |= few or layers[b].double or not sum(traces) <= largest
        if not all(hopeless_B):
            probes = probes or new_probes(delta_BOI)
            probes.add_(delta_BOI, epsilon)
        del delta_BOI
    size_B = [math.inf] * len(layers) if probes is None else probes.norms()
    scans = []
    for b, energies in enumerate(zip(*energies_TB, strict=True)):
        found = heterogeneity(energies)
        may_do = worth_trying(size_B[b], epsilon * len(found.kept))
        scans.append(
            Scan(
                energies=energies,
                traces=tuple(traces_B[b] for traces_B in traces_TB),
                shape=(outputs, inputs),
                single=may_do and not hopeless_B[b],
                found=found,
            )
        )
    return scans, probes


def shares_of(scans: Sequence[Scan], epsilon: float, heterogeneous: bool) -> list[Share]:
    """Eqs. 8 and 9 in the heterogeneous regime, Eq. 10 in the homogeneous one.

    The same experts take part in all of the layers. Where all count alike whatever their size, the
    smallest comes first: what is taken from all experts must be small beside what is left.
    """

    def size(t: int) -> float:
        return sum(own.traces[t] / (math.fsum(own.traces) + GUARD) for own in scans)

    kept = scans[0].found.kept
    shares = []
    for t in sorted(kept, key=size) if heterogeneous else kept:
        weights = tuple(1 / (own.traces[t] + GUARD) if heterogeneous else 1.0 for own in scans)
        ridges = tuple(weight * epsilon for weight in weights)
        shares.append(Share(expert=t, weights=weights, ridges=ridges))
    return shares


def prior_scale(own: Scan, heterogeneous: bool) -> float:
    """Factor on the collective structural prior: 1, or 1/τ̄ (Eqs. 12, 13)."""
    if not heterogeneous:
        return 1.0
    return 1 / (statistics.fmean(own.energies[t] for t in own.found.kept) + GUARD)


def condition(own: Scan, epsilon: float, heterogeneous: bool) -> float:
    """An upper bound on the condition number of S = Σ_t w_t Σ̂_t + e I, from its trace."""
    shares = shares_of([own], epsilon, heterogeneous)
    trace = math.fsum(share.weights[0] * own.traces[share.expert] for share in shares)
    return 1.0 + trace / ridge_masses(shares)[0]
