"""TSV-Merging: keep each expert's leading singular vectors and decorrelate them across experts.

T experts, O outputs, I inputs, R = min(O, I), K singular vectors in all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import torch
from torch import Tensor

from ace_gui.linalg.leading import leading_triplets, orthogonalised
from ace_gui.methods.base import Context, Merged, MergeMethod, parameter
from ace_gui.methods.census import census, finished
from ace_gui.methods.experts import WeightedExperts


@dataclass(frozen=True, kw_only=True)
class TsvMParameters:
    """Parameters of TSV-Merging. ``scaling``: α."""

    scaling: float = parameter(
        1.0,
        label="Scaling α",
        help=(
            "Factor on the merged matrix; the usual value without validation is 1. Applies to "
            "matrices: everything else is averaged as it is."
        ),
        low=-10.0,
        high=10.0,
    )


def tsv_m(
    deltas: Sequence[Tensor],
    weights: Sequence[float],
    parameters: TsvMParameters,
    **_: Unpack[Context],
) -> Merged:
    """α · polar(U) diag(S) polar(V)ᵀ of the experts' leading triplets side by side; float32.

    floor(R / T) triplets of each w_t ΔW_t, T counting the experts that changed the matrix; at least
    one. The polar factors leave out directions in which the vectors depend on each other: there the
    published ones are arbitrary. Reads every expert twice, holds one and U, S, V.
    Raises MethodError for tensors that are no matrices or not finite.
    """
    experts = WeightedExperts(deltas, weights)
    found = census(experts, weights)
    if len(found.kept) < 2:
        alone = experts.matrix(found.kept[0] if found.kept else 0)
        return finished(alone, parameters.scaling, found.diagnostics())
    us, values, vs = [], [], []
    for t in found.kept:
        delta_OI = experts.matrix(t)
        own = leading_triplets(delta_OI, max(1, min(delta_OI.shape) // len(found.kept)))
        us.append(own.u_OK)
        values.append(own.s_K)
        vs.append(own.vh_KI.T)
        del delta_OI
    notes = _surplus(len(us), min(us[0].shape[0], vs[0].shape[0]))
    u_OK, v_IK = orthogonalised(torch.cat(us, dim=1)), orthogonalised(torch.cat(vs, dim=1))
    merged_OI = (u_OK * torch.cat(values)) @ v_IK.T
    return finished(merged_OI, parameters.scaling, found.diagnostics(notes))


def _surplus(experts: int, rank: int) -> list[str]:
    if experts <= rank:
        return []
    return [
        f"There are {experts} experts for a matrix of {rank} singular values: one direction of "
        "each was taken, and they overlap."
    ]


TSV_M = MergeMethod(
    name="tsv_m",
    title="TSV-Merging",
    summary=(
        "Keeps the leading singular vectors of every expert's change and rotates them so that "
        "experts do not interfere."
    ),
    formula=(
        "W = W₀ + α · polar([U₁ … U_T]) diag(S₁ … S_T) polar([V₁ … V_T])ᵀ\n"
        "wₜ ΔWₜ ≈ Uₜ Sₜ Vₜᵀ, its leading floor(min(O, I) / T) singular triplets\n"
        "polar(X) = P Qᵀ for X = P D Qᵀ, over the directions with D > 0"
    ),
    citation=(
        "A. A. Gargiulo, D. Crisostomi, M. S. Bucarelli, S. Scardapane, F. Silvestri, E. Rodolà, "
        "Task Singular Vectors: Reducing Task Interference in Model Merging, CVPR 2025, "
        "arXiv:2412.00081"
    ),
    parameters=TsvMParameters,
    merge=tsv_m,
)
