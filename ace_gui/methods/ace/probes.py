"""Random vectors and their exact products with the experts, for the check of float32.

For a matrix D and vectors z of independent normal numbers, the mean of ‖Dz‖² is ‖D‖²_F. A few thin
products therefore say how large a matrix is that nobody computes. B layers of one shape, T experts,
O outputs, I inputs, P probes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from ace_gui.linalg.passes import in_float64, times_transposed
from ace_gui.linalg.products import add_product_, moved, product

PROBES: Final = 8
"""Number of probes. Even for a D of rank one, the worst case, the estimate of ‖D‖_F is three times
too small only once in 800 times, and practically never for rank 4."""


@dataclass(frozen=True, kw_only=True)
class ProbedExpert:
    """Exact products of one expert with the probes z (float64)."""

    once_BPO: Tensor
    """W̃z."""

    squared_BPI: Tensor
    """W̃ᵀW̃z."""

    cubed_BPO: Tensor
    """W̃W̃ᵀW̃z."""

    mean_BP1: Tensor
    """μᵀW̃ᵀW̃z."""


@dataclass(frozen=True, kw_only=True)
class Probes:
    """The probes and their products with every expert.

    The vectors are rows, since thin products are much faster that way.
    """

    probes_PI: Tensor

    experts: Sequence[ProbedExpert]

    inner_BTT: Tensor
    """⟨W̃_sᵀW̃_s z, W̃_tᵀW̃_t z⟩, summed over the probes; in the processor's memory."""


def new_probes(like_BOI: Tensor) -> Tensor:
    """Random vectors (P × I), always the same for a shape, so that results can be repeated."""
    generator = torch.Generator().manual_seed(0)
    probes_PI = torch.randn(PROBES, like_BOI.shape[2], generator=generator, dtype=torch.float64)
    return moved(probes_PI, like_BOI.device)


def inner_products(experts: Sequence[ProbedExpert]) -> Tensor:
    """⟨W̃_sᵀW̃_s z, W̃_tᵀW̃_t z⟩ for all pairs of experts in every layer (B × T × T)."""
    flat_BTN = torch.stack([expert.squared_BPI.flatten(1) for expert in experts], dim=1)
    return product(flat_BTN, flat_BTN.mT)


def probe(delta_BOI: Tensor, probes_PI: Tensor | None) -> tuple[Tensor, ProbedExpert | None]:
    """‖ΔW‖²_F and ‖W̃‖²_F of every layer (B × 2), and the products of W̃ with the probes; float64.

    Reads the matrix twice. The sums are over Y = ΔW − 1sᵀ, where s is the first row. As ‖s − μ‖² is
    one of the O terms of ‖W̃‖²_F, rounding errors grow by a factor of at most O + 1, however large
    μ is. With ν = μ − s (Eq. 5), W̃ᵀW̃z is YᵀYz − O ν (νᵀz).
    """
    layers, outputs, _ = delta_BOI.shape
    shift_B1I = delta_BOI[:, :1].sum(dim=1, keepdim=True, dtype=torch.float64)
    mean_B1I = torch.zeros_like(shift_B1I)
    if probes_PI is None:
        probes_BPI = mean_B1I[:, :0]
    else:
        probes_BPI = probes_PI.expand(layers, -1, -1)
    squared_BPI = torch.zeros_like(probes_BPI, memory_format=torch.contiguous_format)
    square_B = mean_B1I.new_zeros(layers)
    once = []
    for _, part_BNI in in_float64(delta_BOI, subtracted_B1I=shift_B1I):
        square_B += torch.linalg.vector_norm(part_BNI, dim=(1, 2)).square()
        mean_B1I += part_BNI.sum(dim=1, keepdim=True)
        if probes_PI is not None:
            once.append(product(probes_BPI, part_BNI.mT))
            add_product_(squared_BPI, once[-1], part_BNI)
    mean_B1I /= max(1, outputs)
    apart_BP1 = product(probes_BPI, mean_B1I.mT)
    squared_BPI.addcmul_(apart_BP1, mean_B1I, value=-outputs)
    trace_B = square_B - outputs * mean_B1I.square().sum(dim=(1, 2))
    mean_B1I += shift_B1I
    trace_B.clamp_(min=0)
    energy_B = trace_B + outputs * mean_B1I.square().sum(dim=(1, 2))
    figures_B2 = torch.stack((energy_B, trace_B), 1)
    if probes_PI is None:
        return figures_B2, None
    mean_BP1 = product(squared_BPI, mean_B1I.mT)
    return figures_B2, ProbedExpert(
        once_BPO=torch.cat(once, dim=2).sub_(apart_BP1),
        squared_BPI=squared_BPI,
        cubed_BPO=times_transposed(squared_BPI, delta_BOI).sub_(mean_BP1),
        mean_BP1=mean_BP1,
    )
