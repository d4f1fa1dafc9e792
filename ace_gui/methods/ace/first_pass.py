"""ACE's first pass over the experts: what decides how each is weighted, and how exactly to sum.

Equation numbers are those of Xu et al., ACE-Merging, arXiv:2603.02945v2. B layers of one
shape, T experts, O outputs, I inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ace_gui.linalg.heterogeneity import Heterogeneity, heterogeneity
from ace_gui.methods.ace.closed_form import few_experts
from ace_gui.methods.ace.float32_check import (
    SINGLE,
    ProbedExpert,
    Probes,
    inner_products,
    new_probes,
    probe,
)
from ace_gui.methods.shared.tolerance import EXACT, Tolerance
from ace_gui.methods.shared.weighted_experts import WeightedExperts, seen


@dataclass(frozen=True, kw_only=True)
class LayerEnergies:
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
    layers: Sequence[WeightedExperts], epsilon: float | None, tolerances: Sequence[Tolerance] = ()
) -> tuple[list[LayerEnergies], Probes | None]:
    """Read every expert of every layer once; raises MethodError if an energy is not finite.

    ``epsilon``: the ridge of the homogeneous regime, None if that regime is not used. The probes,
    for the float32 check, are of the layers that are ``single``. A GPU is synchronised after the
    last expert. A processor is checked after each expert, so that unneeded work ends early.
    """
    coarse_B = [tolerance.rounding > 0 for tolerance in tolerances] or [False] * len(layers)
    found: list[Tensor] = []
    probed: list[ProbedExpert] = []
    given_PI: Tensor | None = None
    for t in range(len(layers[0])):
        delta_BOI = seen(layers, t)
        if not t:
            shape = (delta_BOI.shape[1], delta_BOI.shape[2])
            usable = epsilon is not None and not few_experts(shape, len(layers[0]))
            given_PI = new_probes(delta_BOI) if usable or any(coarse_B) else None
        figures_B2, own = probe(delta_BOI, given_PI)
        found.append(figures_B2)
        if own is not None:
            probed.append(own)
            if delta_BOI.device.type == "cpu":
                vain_B = _in_vain(layers, torch.stack(found), shape, epsilon, coarse_B)
                given_PI = None if all(vain_B) else given_PI
        del delta_BOI
    figures_TB2, inner_BTT = _known(found, [] if given_PI is None else probed)
    vain_B, probes = [True] * len(layers), None
    if given_PI is not None:
        vain_B = _in_vain(layers, figures_TB2, shape, epsilon, coarse_B)
        probes = Probes(given_PI=given_PI, experts=probed, inner_BTT=inner_BTT)
    energies_BT, traces_BT = figures_TB2.permute(2, 1, 0).tolist()
    return [
        LayerEnergies(
            energies=tuple(energies),
            traces=tuple(traces),
            shape=shape,
            single=not vain,
            heterogeneity=heterogeneity(energies),
        )
        for energies, traces, vain in zip(energies_BT, traces_BT, vain_B, strict=True)
    ], probes


def _in_vain(
    layers: Sequence[WeightedExperts],
    figures_TB2: Tensor,
    shape: tuple[int, int],
    epsilon: float | None,
    coarse_B: Sequence[bool],
) -> list[bool]:
    """For which layers float32 is surely not exact enough, or float64 is as fast."""
    # ‖S₀‖_F is at least Tr S₀ / √I.
    largest = EXACT / SINGLE * len(layers[0]) * (epsilon or 0.0) * shape[1] ** 0.5
    few = few_experts(shape, len(layers[0]))  # then float64 is the faster
    traces_B = figures_TB2[..., 1].sum(dim=0).tolist()
    return [
        layer.double or (not coarse and (few or not trace <= largest))
        for layer, coarse, trace in zip(layers, coarse_B, traces_B, strict=True)
    ]


def _known(found: Sequence[Tensor], probed: Sequence[ProbedExpert]) -> tuple[Tensor, Tensor]:
    """Figures (T × B × 2) and inner products (B × T × T) in the processor's memory, at once."""
    figures_TB2 = torch.stack(list(found))
    count, layers, _ = figures_TB2.shape
    inner_BTT = inner_products(probed) if probed else figures_TB2.new_zeros(layers, 0, 0)
    known = torch.cat([figures_TB2.flatten(), inner_BTT.flatten()]).cpu()
    size = figures_TB2.numel()
    return known[:size].view(count, layers, 2), known[size:].view(inner_BTT.shape)
