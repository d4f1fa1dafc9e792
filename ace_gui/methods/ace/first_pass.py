"""ACE's first pass over the experts: what decides how each is weighted, and how exactly to sum.

Equation numbers are those of Xu et al., ACE-Merging, arXiv:2603.02945v2. B layers of one
shape, T experts, O outputs, I inputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ace_gui.linalg.centring import centre_
from ace_gui.linalg.heterogeneity import Heterogeneity, heterogeneity, norms
from ace_gui.methods.ace.by_rows import few_experts
from ace_gui.methods.ace.float32_check import LARGEST_CONDITION, Probes, new_probes, worth_trying
from ace_gui.methods.shared.weighted_experts import WeightedExperts, stacked


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one layer's experts are: E_t = ‖ΔW_t‖²_F and Tr Σ̂_t, one an expert, and γ (Eq. 7).

    ``shape``: (O, I). ``single``: whether sums in float32 may do, in the homogeneous regime.
    """

    energies: tuple[float, ...]
    traces: tuple[float, ...]
    shape: tuple[int, int]
    single: bool
    heterogeneity: Heterogeneity

    @property
    def kept(self) -> tuple[int, ...]:
        """The experts that changed the layer, by index."""
        return self.heterogeneity.kept

    @property
    def gamma(self) -> float | None:
        """γ; None with fewer than two experts kept."""
        return self.heterogeneity.gamma


def measure(
    layers: Sequence[WeightedExperts], epsilon: float | None
) -> tuple[list[Measured], Probes | None]:
    """Read every expert of every layer once; raises MethodError where an energy is not finite.

    ``epsilon``: the ridge of the homogeneous regime, None where that regime will not be used. The
    probes are to check sums in float32 by, of those layers that are ``single``.
    """
    energies_TB, traces_TB = [], []
    probes: Probes | None = None
    hopeless_B = [epsilon is None] * len(layers)
    for t in range(len(layers[0])):
        delta_BOI = stacked(layers, t)
        energies_TB.append([norm * norm for norm in norms(delta_BOI)])
        centre_(delta_BOI)
        traces_TB.append([norm * norm for norm in norms(delta_BOI)])
        _, outputs, inputs = delta_BOI.shape
        if epsilon is None:
            continue
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
    measured = []
    for b, energies in enumerate(zip(*energies_TB, strict=True)):
        found = heterogeneity(energies)
        may_do = worth_trying(size_B[b], (epsilon or 0.0) * len(found.kept))
        measured.append(
            Measured(
                energies=energies,
                traces=tuple(traces_B[b] for traces_B in traces_TB),
                shape=(outputs, inputs),
                single=may_do and not hopeless_B[b],
                heterogeneity=found,
            )
        )
    return measured, probes
