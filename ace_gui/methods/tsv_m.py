"""TSV-Merging: keep each expert's leading singular vectors and decorrelate them across experts.

TSV-Compress merges in the same way, and stores each expert's leading singular triplets.

T experts, O outputs, I inputs, R = min(O, I), K singular vectors in all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Self

import torch
from torch import Tensor

from ace_gui.linalg.leading_float32 import (
    LeadingTriplets,
    leading_in_float32,
    polar_in_float32,
)
from ace_gui.linalg.products import full_float32, times
from ace_gui.linalg.side_by_side import matrices_side_by_side
from ace_gui.linalg.singular import Triplets, leading_triplets, orthogonalised
from ace_gui.methods.method import MergeMethod
from ace_gui.methods.shared.expert_modules import Factors
from ace_gui.methods.shared.experts import Context, Experts, Merged, on_experts
from ace_gui.methods.shared.kit import per_decomposition, per_matrix, scaling_parameter
from ace_gui.methods.shared.tolerance import IN_FLOAT64, Tolerance

CITATION = (
    "A. A. Gargiulo, D. Crisostomi, M. S. Bucarelli, S. Scardapane, F. Silvestri, E. Rodolà, "
    "Task Singular Vectors: Reducing Task Interference in Model Merging, CVPR 2025, "
    "arXiv:2412.00081"
)

_OVERLAP = (
    "There are {} experts for a matrix of {} singular values: one direction of each was taken, and "
    "they overlap."
)


SMALLEST_LIMIT: Final = 1e-3
"""Smallest limit of the error at which float32 is tried."""

SAFETY: Final = 2.0
"""Factor on the measured error of float32."""

PRODUCT_ROUNDING: Final = 1e-5
"""Largest error that float32's products leave in any case, relative to the merged matrix."""


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
def tsv_m(experts: Experts, parameters: TsvMParameters, context: Context) -> Merged:
    """α · polar(U) diag(S) polar(V)ᵀ of the experts' leading triplets side by side; float32.

    Takes floor(R / T) triplets of each w_t ΔW_t, at least one. T counts the experts that changed
    the matrix. The polar factors leave out directions in which the vectors depend on each other,
    because the published factors are arbitrary there. Computed in float64, or in float32 if that
    is exact enough for the context's ``tolerance``. Reads every expert twice, or three times.
    Holds few experts at a time, and U, S, V. Raises MethodError for tensors that are not matrices
    or not finite.
    """
    census = experts.census()
    if len(census.counted) < 2:
        alone = experts.matrix(census.counted[0] if census.counted else 0)
        return Merged.of(alone, parameters.scaling, census.diagnostics())
    problem = _TripletJoin(experts, census.counted, context.outputs)
    tolerance = context.tolerance.scaled(parameters.scaling)
    in_float32 = problem.in_float32(tolerance, math.sqrt(math.fsum(census.energies)))
    if in_float32 is None:
        merged_OI = problem.in_float64()
        precision = IN_FLOAT64
    else:
        merged_OI, error = in_float32
        precision = tolerance.describe(error)
    if len(census.counted) > problem.rank:
        notes = [_OVERLAP.format(len(census.counted), problem.rank)]
    else:
        notes = []
    return Merged.of(merged_OI, parameters.scaling, census.diagnostics(notes, precision))


class _TripletJoin:
    """The leading triplets of some experts, to be joined in either number format."""

    def __init__(
        self, experts: Experts, counted: Sequence[int], outputs: int | None = None
    ) -> None:
        like = experts.read_only_matrix(0)
        self.rank = min(outputs or like.shape[0], like.shape[1])  # R
        self._experts = experts
        self._counted = counted
        self._count = min(max(1, self.rank // len(counted)), *like.shape)
        self._together = partial(matrices_side_by_side, entries=like.numel(), device=like.device)

    def in_float64(self) -> Tensor:
        """The merged matrix."""
        joined = _JoinedTriplets.of(
            self._together(
                lambda t: leading_triplets(self._experts.matrix(t), self._count), self._counted
            )
        )
        left_OK, right_IK = self._together(orthogonalised, (joined.u_OK, joined.v_IK))
        return joined.product(left_OK, right_IK)

    def in_float32(self, tolerance: Tolerance, most: float) -> tuple[Tensor, float] | None:
        """The merged matrix, whose norm is below ``most``, and its error.

        None if that is not exact enough.
        """
        if not tolerance.relative(most) >= SMALLEST_LIMIT:
            return None
        with full_float32():
            first = self._leading(self._counted[0])
            if first is None:
                return None
            others = self._together(self._leading, self._counted[1:])
            leading = [triplets for triplets in (first, *others) if triplets is not None]
            if len(leading) < len(self._counted):
                return None
            joined = _JoinedTriplets.of([found.triplets for found in leading])
            errors_K = torch.cat([found.errors_K for found in leading])
            del first, others, leading
            left, right = self._together(
                lambda columns: polar_in_float32(columns, joined.s_K, errors_K, self._count),
                (joined.u_OK, joined.v_IK),
            )
            if left is None or right is None:
                return None
            merged_OI = joined.product(left.factor_NK, right.factor_NK)
        error = SAFETY * math.hypot(left.error, right.error) + PRODUCT_ROUNDING
        if not error <= tolerance.relative(float(torch.linalg.vector_norm(joined.s_K))):
            return None
        return merged_OI, error

    def _leading(self, t: int) -> LeadingTriplets | None:
        matrix_OI = self._experts.matrix(t, torch.float32)
        return leading_in_float32(matrix_OI, self._count)


@dataclass(frozen=True, kw_only=True)
class _JoinedTriplets:
    """The triplets of all experts side by side."""

    u_OK: Tensor
    s_K: Tensor
    v_IK: Tensor

    @classmethod
    def of(cls, leading: Sequence[Triplets]) -> Self:
        """Those of these experts."""
        return cls(
            u_OK=torch.cat([triplets.u_OK for triplets in leading], dim=1),
            s_K=torch.cat([triplets.s_K for triplets in leading]),
            v_IK=torch.cat([triplets.vh_KI.T for triplets in leading], dim=1),
        )

    def product(self, left_OK: Tensor, right_IK: Tensor) -> Tensor:
        """left diag(S) rightᵀ, of orthonormal columns.

        Inverse roots of nearly dependent columns, multiplied before them, would lose all digits.
        """
        largest = self.s_K.max()
        shares_K = (self.s_K / largest).to(left_OK.dtype)
        return times(left_OK * shares_K, right_IK.T).mul_(largest)


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
    outputs_alike=True,
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
    outputs_alike=True,
    modules=Factors(triplets_of=factors, rank=compressed_rank),
    working_memory=per_matrix(entries=4.5, smaller=5.5),
    flops=per_decomposition(per_expert=1, once=2),
)
