"""Task vectors that are products of thin factors, in a common basis of their outputs.

T experts, O outputs, I inputs, ranks R_t; K = 1 + Σ R_t coordinates. The columns of all
ΔW_t = A_t B_t (A_t: O × R_t) lie in a space of at most Σ R_t dimensions. With an orthonormal basis
P (O × K) of it, ΔW_t = P C_t for the coordinates C_t = Pᵀ ΔW_t (K × I). A method that treats all
outputs alike merges to P merge(C_1 … C_T), with far less work if K ≪ O.

Some methods subtract the mean over the outputs. So the vector of ones is also in the space, and P
is turned so that Pᵀ1 has equal entries. C_t less the mean of its rows then has the coordinates of
ΔW_t less the mean of its rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import torch
from torch import Tensor

from ace_gui.linalg.products import full_float32, times
from ace_gui.methods.shared.experts import ChangedSpectrum, Merged

OUTPUTS_PER_COORDINATE: Final = 4
"""With fewer outputs for each coordinate, coordinates do not save enough work."""


class ThinFactors(NamedTuple):
    """ΔW = A B."""

    left_OR: Tensor
    """A."""
    right_RI: Tensor
    """B."""


def coordinate_count(outputs: int, ranks: Sequence[int]) -> int | None:
    """K; None if it is not far smaller than the number of outputs."""
    count = 1 + sum(ranks)
    if OUTPUTS_PER_COORDINATE * count > outputs:
        return None
    return count


def output_basis(lefts: Sequence[Tensor]) -> Tensor:
    """P (O × K, float64) for factors A_t (O × R_t), at least one of which has columns; K ≤ O."""
    outputs = len(lefts[0])
    ones_O1 = torch.ones(outputs, 1, dtype=torch.float64, device=lefts[0].device)
    columns_OK = torch.cat([ones_O1, *(left_OR.double() for left_OR in lefts)], dim=1)
    size = columns_OK.shape[1]
    basis_OK: Tensor = torch.linalg.qr(columns_OK).Q  # its first column is ±1/√O
    # The reflection that takes the first coordinate axis to the vector of equal entries.
    mirror_K = torch.full_like(basis_OK[0], -1 / math.sqrt(size))
    mirror_K[0] += 1
    mirror_K /= torch.linalg.vector_norm(mirror_K)
    return basis_OK - 2 * torch.outer(basis_OK @ mirror_K, mirror_K)


def coordinates(basis_OK: Tensor, factors: ThinFactors) -> Tensor:
    """C = Pᵀ A B (K × I, float64)."""
    return times(times(basis_OK.mT, factors.left_OR.double()), factors.right_RI.double())


def expanded(merged: Merged, basis_OK: Tensor) -> Merged:
    """The merge of task vectors from that of their coordinates: P times its matrices.

    Singular values that were changed are followed by zeros, as those of a matrix of O outputs are.
    """
    basis_OK = basis_OK.to(torch.float32)
    with full_float32():
        delta_OI = times(basis_OK, merged.delta)
        preliminary_OI = merged.preliminary
        if preliminary_OI is not None:
            preliminary_OI = times(basis_OK, preliminary_OI)
    reshaped = merged.diagnostics.reshaped
    if reshaped is not None:
        zeros = [0.0] * (min(delta_OI.shape) - len(reshaped.before))
        reshaped = ChangedSpectrum([*reshaped.before, *zeros], [*reshaped.after, *zeros])
    diagnostics = replace(merged.diagnostics, reshaped=reshaped)
    return replace(merged, delta=delta_OI, preliminary=preliminary_OI, diagnostics=diagnostics)
