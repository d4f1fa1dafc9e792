"""Isotropic merging: Iso-C evens out the sum's singular values; Iso-CTS leaves experts room.

T experts, O outputs, I inputs, R = min(O, I), C common and S specific directions, K in all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ace_gui.linalg.products import gram, times
from ace_gui.linalg.side_by_side import matrices_side_by_side
from ace_gui.linalg.singular import (
    Triplets,
    leading_triplets,
    orthogonalised,
    values_and_right_vectors,
)
from ace_gui.methods.method import MergeMethod
from ace_gui.methods.shared.experts import Context, Experts, Merged, on_experts
from ace_gui.methods.shared.kit import (
    per_decomposition,
    per_matrix,
    scaling_parameter,
    share_parameter,
)
from ace_gui.methods.shared.tolerance import IN_FLOAT64

CITATION = (
    "D. Marczak, S. Magistri, S. Cygert, B. Twardowski, A. D. Bagdanov, J. van de Weijer, No Task "
    "Left Behind: Isotropic Model Merging with Common and Task-Specific Subspaces, ICML 2025, "
    "arXiv:2502.04959"
)


def _scaling() -> Any:
    return scaling_parameter(
        symbol="α",
        help=(
            "Factor on the merged matrix, usually validated in (0, 3]. It applies to "
            "matrices only. All other tensors are averaged without it."
        ),
    )


@dataclass(frozen=True, kw_only=True)
class IsoCParameters:
    """Parameters of Iso-C. ``scaling``: α."""

    scaling: float = _scaling()


@dataclass(frozen=True, kw_only=True)
class IsoCtsParameters:
    """Parameters of Iso-CTS. ``common``: share of directions taken from the sum. ``scaling``: α."""

    common: float = share_parameter(
        0.8,
        label="Common share",
        help=(
            "Share of directions taken from the sum. The others are split evenly among the experts."
        ),
        above_zero=False,
    )
    scaling: float = _scaling()


@on_experts
def iso_c(experts: Experts, parameters: IsoCParameters, _: Context) -> Merged:
    """α · mean(S) · U Vᵀ of Σ w_t ΔW_t = U S Vᵀ; float32.

    Directions with a numerically zero singular value are left out, also of the mean, because U Vᵀ
    is arbitrary there. Reads every expert once. Raises MethodError for tensors that are not
    matrices or not finite.
    """
    census, sum_OI = experts.sum_of_counted()
    return Merged.of(
        isotropic(sum_OI), parameters.scaling, census.diagnostics(precision=IN_FLOAT64)
    )


@on_experts
def iso_cts(experts: Experts, parameters: IsoCtsParameters, _: Context) -> Merged:
    """α · mean(S) · polar(U) polar(V)ᵀ of common and specific directions side by side; float32.

    Common: the leading ones of the sum. Specific: the leading directions of each w_t ΔW_t outside
    the common outputs. Directions with a numerically zero singular value are left out. Reads every
    expert twice. Raises MethodError for tensors that are not matrices or not finite.
    """
    census, sum_OI = experts.sum_of_counted()
    report = census.diagnostics(precision=IN_FLOAT64)
    specific = specific_size(min(sum_OI.shape), len(census.counted), parameters.common)
    if not specific:
        return Merged.of(isotropic(sum_OI), parameters.scaling, report)
    common = leading_triplets(sum_OI, min(sum_OI.shape) - specific * len(census.counted))

    def specific_part(t: int) -> Triplets:
        delta_OI = experts.matrix(t)
        delta_OI -= times(common.u_OK, times(common.u_OK.T, delta_OI))
        return leading_triplets(delta_OI, specific, scale=math.sqrt(census.energies[t]))

    entries = sum_OI.numel()
    device = sum_OI.device
    parts = [
        common,
        *matrices_side_by_side(specific_part, census.counted, entries=entries, device=device),
    ]
    joined = Triplets(
        u_OK=orthogonalised(torch.cat([part.u_OK for part in parts], dim=1)),
        s_K=torch.cat([part.s_K for part in parts]),
        vh_KI=orthogonalised(torch.cat([part.vh_KI.T for part in parts], dim=1)).T,
    )
    merged_OI = times(joined.u_OK, joined.vh_KI)
    if len(joined.s_K):
        merged_OI.mul_(joined.s_K.mean())
    return Merged.of(merged_OI, parameters.scaling, report)


def specific_size(rank: int, experts: int, common: float) -> int:
    """Number of directions per expert: an equal share of what ``common`` leaves, rounded."""
    if not experts:
        return 0
    specific = rank - math.floor(common * rank + 1e-9)
    return min(round(specific / experts), rank // experts)


def isotropic(matrix_OI: Tensor) -> Tensor:
    """mean(S) · U Vᵀ of a float64 matrix U S Vᵀ, from the singular vectors of its smaller side."""
    wide = matrix_OI.shape[0] < matrix_OI.shape[1]
    s_K, vh_KR = values_and_right_vectors(matrix_OI.T if wide else matrix_OI)
    if not len(s_K):
        return torch.zeros_like(matrix_OI)
    root_RR = gram(vh_KR * (s_K.mean() / s_K).sqrt()[:, None])
    if wide:
        return times(root_RR, matrix_OI)
    return times(matrix_OI, root_RR)


ISO_C = MergeMethod(
    name="iso_c",
    title="Iso-C",
    summary=(
        "Adds the experts' changes and gives every direction of the sum the same strength, "
        "so that no expert dominates."
    ),
    formula="W = W₀ + α · mean(S) · U Vᵀ,  Σₜ wₜ ΔWₜ = U S Vᵀ over the directions with S > 0",
    citation=CITATION,
    parameters=IsoCParameters,
    merge=iso_c,
    working_memory=per_matrix(entries=3.6, smaller=1.2),
    flops=per_decomposition(once=1),
)

ISO_CTS = MergeMethod(
    name="iso_cts",
    title="Iso-CTS",
    summary=(
        "Iso-C, with the weakest directions of the sum replaced by directions that belong "
        "to single experts."
    ),
    formula=(
        "merged matrix: W = W₀ + α · mean(S) · polar([U_c U₁ … U_T]) polar([V_c V₁ … V_T])ᵀ\n"
        "subspaces: Σₜ wₜ ΔWₜ ≈ U_c S_c V_cᵀ,  (I − U_c U_cᵀ) wₜ ΔWₜ ≈ Uₜ Sₜ Vₜᵀ, leading "
        "singular triplets\n"
        "spectrum: S = all of S_c, S₁ … S_T"
    ),
    citation=CITATION,
    parameters=IsoCtsParameters,
    merge=iso_cts,
    working_memory=per_matrix(entries=6, smaller=2, smaller_per_expert=1.05),
    flops=per_decomposition(per_expert=1, once=3),
)
