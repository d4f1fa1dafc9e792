"""Leading directions of one matrix: before and after refinement, and from expert to expert.

O outputs, I inputs, R = min(O, I), K directions, T experts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ace_gui.engine.array_cache import Arrays
from ace_gui.engine.contract.figures.findings import LayerSubspaces
from ace_gui.engine.contract.figures.spectral_figures import leading
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.inspecting.layer_context import (
    InspectionCache,
    InspectionContext,
    inspect_row,
    require_matrix,
    side_by_side,
)
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.linalg.leading import leading_triplets

COMPARED: Final = 100
"""Most directions of W_pre that are compared with the merged ones."""


def subspaces(
    prepared: Prepared, row: PlanRow, device: torch.device, cache: InspectionCache
) -> Iterator[LayerSubspaces | None]:
    """Alignment of W_pre with the merged change, and the overlap of the experts' subspaces.

    The subspaces have the leading 5 % of the directions, fewer if an expert has fewer above
    rounding. Raises MethodError for a tensor that is not a matrix or that no expert has,
    NonFiniteError if a merge would stop.
    """
    require_matrix(row)
    return inspect_row(prepared, row, device, cache, _subspaces)


def _subspaces(context: InspectionContext) -> Iterator[LayerSubspaces | None]:
    wanted = leading(min(context.row.shape))
    key = context.key(f"overlap of {wanted}")
    between = context.cache.get(key)
    if between is None:
        bases = yield from side_by_side(
            lambda t: leading_triplets(context.deltas[t].double(), wanted).u_OK,
            range(len(context.names)),
            context.device,
        )
        overlap_TT, rank = overlap(bases)
        between = {"overlap": overlap_TT, "rank": np.array(rank)}
        context.cache.put(key, between)
        yield None
    yield from context.surveyed()
    along = context.remembered(context.merge_key("alignment"), lambda: _of_merge(context))
    yield LayerSubspaces(
        name=context.row.name,
        experts=context.names,
        alignment=along.get("left"),
        alignment_right=along.get("right"),
        overlap=between["overlap"],
        rank=int(between["rank"]),
    )


def _of_merge(context: InspectionContext) -> Arrays:
    merged = context.merged()
    if merged.preliminary is None:
        return {}
    left_K, right_K = alignment(merged.preliminary.double(), merged.delta.double())
    return {"left": left_K, "right": right_K}


def overlap(bases: list[Tensor]) -> tuple[NDArray[np.float64], int]:
    """‖U_aᵀU_b‖²_F / K of orthonormal bases (O × K_t each), T × T, and the common K.

    K is the least positive K_t, so that every subspace overlaps with itself by 1; the rows and
    columns of a basis without directions are NaN.
    """
    rank = min((basis.shape[1] for basis in bases if basis.shape[1]), default=0)
    overlap_TT = np.full((len(bases), len(bases)), np.nan)
    for a, one in enumerate(bases):
        for b, other in enumerate(bases[: a + 1]):
            if one.shape[1] and other.shape[1]:
                shared = torch.linalg.matrix_norm(one[:, :rank].T @ other[:, :rank])
                overlap_TT[a, b] = overlap_TT[b, a] = min(float(shared) ** 2 / rank, 1.0)
    return overlap_TT, rank


def alignment(
    before_OI: Tensor, after_OI: Tensor
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """|cosine| of the i-th left, and of the i-th right, singular vectors of two matrices.

    At most ``COMPARED`` of them, and none that rounding determines.
    """
    k = min(COMPARED, *before_OI.shape)
    before = leading_triplets(before_OI, k)
    # Without refinement both are equal.
    after = before if torch.equal(before_OI, after_OI) else leading_triplets(after_OI, k)
    both = min(len(before.s_K), len(after.s_K))
    left_K = (before.u_OK[:, :both] * after.u_OK[:, :both]).sum(dim=0).abs()
    right_K = (before.vh_KI[:both] * after.vh_KI[:both]).sum(dim=1).abs()
    return left_K.clamp(max=1).cpu().numpy(), right_K.clamp(max=1).cpu().numpy()
