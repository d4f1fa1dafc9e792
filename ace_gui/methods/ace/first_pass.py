"""ACE's first pass over the experts: what decides how each is weighted, and how exactly to sum.

Equation numbers are those of Xu et al., ACE-Merging, arXiv:2603.02945v2. B layers of one
shape, T experts, O outputs, I inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ace_gui.linalg.heterogeneity import Heterogeneity, heterogeneity
from ace_gui.methods.ace.by_rows import few_experts
from ace_gui.methods.ace.float32_check import SUMS
from ace_gui.methods.ace.probes import Probes, new_probes, probe
from ace_gui.methods.shared.tolerance import EXACT, Tolerance
from ace_gui.methods.shared.weighted_experts import WeightedExperts, seen


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one layer's experts are: E_t = ‖ΔW_t‖²_F and Tr Σ̂_t, one an expert, and γ (Eq. 7).

    ``shape``: (O, I). ``single``: whether float32 may do.
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
    layers: Sequence[WeightedExperts],
    epsilon: float | None,
    tolerances: Sequence[Tolerance] = (),
) -> tuple[list[Measured], Probes | None]:
    """Read every expert of every layer once; raises MethodError where an energy is not finite.

    ``epsilon``: the ridge of the homogeneous regime, None where that regime will not be used. The
    probes are to check float32 by, of those layers that are ``single``.
    """
    coarse_B = [tolerance.rounding > 0 for tolerance in tolerances] or [False] * len(layers)
    figures_TB: list[list[tuple[float, float]]] = []
    probes: Probes | None = None
    hopeless_B = [epsilon is None and not coarse for coarse in coarse_B]
    for t in range(len(layers[0])):
        delta_BOI = seen(layers, t)
        shape = (delta_BOI.shape[1], delta_BOI.shape[2])
        if not t and not all(hopeless_B):
            probes = new_probes(delta_BOI)
        figures_B, own = probe(delta_BOI, None if probes is None else probes.given_PI)
        del delta_BOI
        figures_TB.append(figures_B)
        if probes is None or own is None:
            continue
        probes.experts.append(own)
        # ‖S₀‖_F is at least Tr S₀ / √I.
        largest = EXACT / SUMS * len(layers[0]) * (epsilon or 0.0) * shape[1] ** 0.5
        few = few_experts(shape, len(layers[0]))  # then float64 is the faster
        for b, found in enumerate(zip(*figures_TB, strict=True)):
            vain = few or not sum(trace for _, trace in found) <= largest
            hopeless_B[b] |= layers[b].double or (vain and not coarse_B[b])
        if all(hopeless_B):
            probes = None
    return [
        Measured(
            energies=tuple(energy for energy, _ in figures),
            traces=tuple(trace for _, trace in figures),
            shape=shape,
            single=not hopeless,
            heterogeneity=heterogeneity([energy for energy, _ in figures]),
        )
        for figures, hopeless in zip(zip(*figures_TB, strict=True), hopeless_B, strict=True)
    ], probes
