"""TSV-Merging: keep each expert's leading singular vectors and decorrelate them across experts.

TSV-Compress merges in the same way, and stores each expert's leading singular triplets.

T experts, O outputs, I inputs, R = min(O, I), K singular vectors in all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch

from ace_gui.linalg.polar import side_by_side
from ace_gui.linalg.products import times
from ace_gui.linalg.singular import Triplets, inverse_root, leading_triplets
from ace_gui.methods.method import MergeMethod
from ace_gui.methods.shared.expert_modules import Factors
from ace_gui.methods.shared.experts import Context, Experts, Merged, on_experts
from ace_gui.methods.shared.kit import per_decomposition, per_matrix, scaling_parameter
from ace_gui.methods.shared.tolerance import IN_FLOAT64

CITATION = (
    "A. A. Gargiulo, D. Crisostomi, M. S. Bucarelli, S. Scardapane, F. Silvestri, E. Rodolà, "
    "Task Singular Vectors: Reducing Task Interference in Model Merging, CVPR 2025, "
    "arXiv:2412.00081"
)

_OVERLAP = (
    "There are {} experts for a matrix of {} singular values: one direction of each was taken, and "
    "they overlap."
)


@dataclass(frozen=True, kw_only=True)
class TsvMParameters:
    """Parameters of TSV-Merging. ``scaling``: α."""

    scaling: float = scaling_parameter(
        symbol="α",
        help=(
            "Factor on the merged matrix. The usual value without validation is 1. It applies "
            "to matrices only. All other tensors are averaged without it."
        ),
    )


@on_experts
def tsv_m(experts: Experts, parameters: TsvMParameters, _: Context) -> Merged:
    """α · polar(U) diag(S) polar(V)ᵀ of the experts' leading triplets side by side; float32.

    Takes floor(R / T) triplets of each w_t ΔW_t, at least one. T counts the experts that changed
    the matrix. The polar factors leave out directions in which the vectors depend on each other,
    because the published factors are arbitrary there. Reads every expert twice. Holds few experts
    at a time, and U, S, V. Raises MethodError for tensors that are not matrices or not finite.
    """
    census = experts.census()
    if len(census.counted) < 2:
        alone = experts.matrix(census.counted[0] if census.counted else 0)
        return Merged.of(alone, parameters.scaling, census.diagnostics())
    shape = (like := experts.matrix(0)).shape
    device = like.device
    del like
    rank = min(shape)
    together = partial(side_by_side, entries=shape.numel(), device=device)
    count = max(1, rank // len(census.counted))
    leading = together(lambda t: leading_triplets(experts.matrix(t), count), census.counted)
    u_OK = torch.cat([triplets.u_OK for triplets in leading], dim=1)
    s_K = torch.cat([triplets.s_K for triplets in leading])
    v_IK = torch.cat([triplets.vh_KI.T for triplets in leading], dim=1)
    del leading
    left_KK, right_KK = together(inverse_root, (u_OK, v_IK))
    middle_KK = times(left_KK * s_K, right_KK)
    if shape[0] < shape[1]:  # the shorter product first
        merged_OI = times(times(u_OK, middle_KK), v_IK.T)
    else:
        merged_OI = times(u_OK, times(middle_KK, v_IK.T))
    if len(census.counted) > rank:
        notes = [_OVERLAP.format(len(census.counted), rank)]
    else:
        notes = []
    return Merged.of(merged_OI, parameters.scaling, census.diagnostics(notes, IN_FLOAT64))


def factors(experts: Experts) -> Iterator[Triplets]:
    """The leading triplets of each w_t ΔW_t, at most ``compressed_rank``. Reads each once.

    Raises MethodError for tensors that are not matrices.
    """
    for t in range(len(experts)):
        delta_OI = experts.matrix(t)
        outputs, inputs = delta_OI.shape
        yield leading_triplets(delta_OI, compressed_rank(outputs, inputs, len(experts)))


def compressed_rank(outputs: int, inputs: int, experts: int) -> int:
    """Triplets per expert: all factors together take at most the space of two matrices."""
    rank = min(outputs, inputs)
    return min(rank, max(1, rank // experts))


TSV_M = MergeMethod(
    name="tsv_m",
    title="TSV-Merging",
    summary=(
        "Keeps the leading singular vectors of every expert's change and makes them "
        "orthogonal, so that experts do not interfere."
    ),
    formula=(
        "merged matrix: W = W₀ + α · polar([U₁ … U_T]) diag(S₁ … S_T) polar([V₁ … V_T])ᵀ\n"
        "singular vectors: wₜ ΔWₜ ≈ Uₜ Sₜ Vₜᵀ, its leading floor(min(O, I) / T) singular triplets\n"
        "orthogonal factor: polar(X) = P Qᵀ for X = P D Qᵀ, over the directions with D > 0"
    ),
    citation=CITATION,
    parameters=TsvMParameters,
    merge=tsv_m,
    working_memory=per_matrix(entries=4.5, smaller=5.5),
    flops=per_decomposition(per_expert=1, once=2),
)

TSV_C = MergeMethod(
    name="tsv_c",
    title="TSV-Compress",
    summary=(
        "Merges as TSV-Merging does, and stores the leading singular triplets of each expert. "
        "The matrices of the expert's model can be rebuilt from them. Biases, norms and "
        "embeddings stay the mean of all experts."
    ),
    formula=(
        "merged matrix: W = W₀ + α · polar([U₁ … U_T]) diag(S₁ … S_T) polar([V₁ … V_T])ᵀ, as "
        "TSV-Merging\n"
        "expert t: W₀ + Uₜ Sₜ Vₜᵀ, the leading floor(min(O, I) / T) singular triplets of wₜ ΔWₜ"
    ),
    citation=CITATION,
    parameters=TsvMParameters,
    merge=tsv_m,
    modules=Factors(of=factors, rank=compressed_rank),
    working_memory=per_matrix(entries=4.5, smaller=5.5),
    flops=per_decomposition(per_expert=1, once=2),
)
