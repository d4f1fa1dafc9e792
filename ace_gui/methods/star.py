"""STAR: truncate each expert's spectrum, restore its nuclear norm, average.

O outputs, I inputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ace_gui.linalg.singular import triplets_of_share
from ace_gui.methods.method import MergeMethod
from ace_gui.methods.shared.experts import Context, Experts, Merged, on_experts
from ace_gui.methods.shared.kit import parameter, per_decomposition, per_matrix, scaling_parameter
from ace_gui.methods.shared.tolerance import IN_FLOAT64


@dataclass(frozen=True, kw_only=True)
class StarParameters:
    """Parameters of STAR. ``eta``: η, percent of the nuclear norm kept. ``scaling``: α."""

    eta: float = parameter(
        40.0,
        label="Kept η (%)",
        help="Percentage of each expert's nuclear norm that the kept singular values make up.",
        low=0.0,
        high=100.0,
        low_open=True,
    )
    scaling: float = scaling_parameter(
        symbol="α",
        help="Factor on the merged matrix. Tensors that are not matrices are averaged without it.",
    )


@on_experts
def star(experts: Experts, parameters: StarParameters, _: Context) -> Merged:
    """α Σ w_t c_t SVD_k(ΔW_t) / Σ w_t, where c_t restores each nuclear norm; float32.

    Experts that do not change the matrix count as zero matrices. Draws no random numbers. Reads
    every expert twice. Raises MethodError for tensors that are not matrices or not finite, and for
    weights that sum to zero.
    """
    total = experts.total_weight
    census = experts.census()
    merged_OI = torch.zeros_like(experts.matrix(0))
    for t in census.counted:
        merged_OI.add_(truncated(experts.matrix(t), parameters.eta))
    return Merged.of(
        merged_OI, parameters.scaling / total, census.diagnostics(precision=IN_FLOAT64)
    )


def truncated(matrix_OI: Tensor, eta: float) -> Tensor:
    """The matrix cut to the fewest triplets that hold η % of the nuclear norm, scaled up to it."""
    if eta == 100:
        return matrix_OI
    triplets, nuclear_norm = triplets_of_share(matrix_OI, eta / 100)
    return triplets.product.mul_(nuclear_norm / triplets.s_K.sum())


STAR = MergeMethod(
    name="star",
    title="STAR",
    summary=(
        "Keeps the strongest singular directions of every expert's change, rescales them to "
        "its original strength, and averages."
    ),
    formula=(
        "merged matrix: W = W₀ + α Σₜ wₜ cₜ SVD_k(ΔWₜ) / Σₜ wₜ,  cₜ = ‖ΔWₜ‖* / ‖SVD_k(ΔWₜ)‖*\n"
        "truncation: k: the fewest leading singular triplets with ‖SVD_k(ΔWₜ)‖* ≥ η % of ‖ΔWₜ‖*"
    ),
    citation=(
        "Y.-A. Lee, C.-Y. Ko, T. Pedapati, I.-H. Chung, M.-Y. Yeh, P.-Y. Chen, STAR: Spectral "
        "Truncation and Rescale for Model Merging, NAACL 2025, arXiv:2502.10339"
    ),
    parameters=StarParameters,
    merge=star,
    working_memory=per_matrix(entries=4.6, smaller=1.2),
    flops=per_decomposition(per_expert=1),
)
