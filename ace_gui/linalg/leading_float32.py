"""Leading singular triplets, and polar factors, in float32 with a measured error.

For matrices that are rounded to 16 bits. Float64 does the same in ``singular``; it also knows
matrices of less than full rank, for which the functions here return None.

R rows, C ≥ R columns of a matrix M or of its transpose; O outputs, I inputs; K leading directions,
D directions near the cut behind them, S smaller ones. Columns side by side are N × K, with N ≥ K.
P random vectors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from ace_gui.linalg.eigenvectors import eigenvectors
from ace_gui.linalg.passes import energy
from ace_gui.linalg.probing import random_rows, row_errors, times_vectors
from ace_gui.linalg.products import as_wide, gram, times
from ace_gui.linalg.singular import Triplets

RESOLVED_SQUARE: Final = 1e-6
"""Least squared singular value, as a share of the largest, that float32's Gram matrix resolves."""

INACCURATE_SQUARE: Final = 1e-3
"""Directions with a squared singular value up to this share of the largest are decomposed again."""

NEAR_CUT: Final = 32
"""Directions on either side of the cut that are decomposed again, as they are nearly equal."""

NEAR_CUT_ROUNDING: Final = 2e-6
"""Error of vᵢᵀ M Mᵀ vⱼ for two of the directions near the cut, as a share of the squared singular
values there.
"""

SMALLEST_SHARE: Final = 1e-4
"""Least singular value of independent columns, as a share of the largest."""


@dataclass(frozen=True, kw_only=True)
class LeadingTriplets:
    """The leading triplets of a matrix."""

    triplets: Triplets
    """Vectors in float32; float64 singular values, not sorted where they are nearly equal."""
    errors_K: Tensor
    """For each vector of the matrix's shorter side, the estimated square of its part outside the
    span of the K exact ones. Infinite if the cut lies between equal singular values.
    """


@dataclass(frozen=True, kw_only=True)
class PolarFactor:
    """F = X (XᵀX)^(−1/2) of columns X."""

    factor_NK: Tensor
    """F, float32."""
    error: float
    """Estimate of ‖δF W‖_F / ‖W‖_F, where the diagonal matrix W has a weight for each column."""


def leading_in_float32(matrix_OI: Tensor, k: int) -> LeadingTriplets | None:
    """The k largest singular values and vectors of a float32 matrix that is not zero, 1 ≤ k ≤ R.

    None if the matrix has fewer that float32 resolves. Overwrites the matrix.
    """
    norm = math.sqrt(energy(matrix_OI))
    matrix_OI.div_(norm)  # so that squares stay in the range of float32
    tall = matrix_OI.shape[0] > matrix_OI.shape[1]
    wide_RC = as_wide(matrix_OI)
    eigenvalues_R, vectors_RR = eigenvectors(gram(wide_RC.mT))
    squares_R = eigenvalues_R.double().clamp_(min=0)
    cut = len(squares_R) - k
    if float(squares_R[cut]) <= RESOLVED_SQUARE * float(squares_R[-1]):
        return None
    near = slice(max(0, cut - NEAR_CUT), cut + NEAR_CUT)
    _decompose_again_(wide_RC, vectors_RR, squares_R, near)
    errors_K = _cut_errors(wide_RC, vectors_RR, squares_R, cut, near).flip(0)
    u_RK = vectors_RR[:, cut:].flip(1)
    rows_KC = times(u_RK.mT, wide_RC)  # the other vectors, times the singular values
    s_K = torch.linalg.vector_norm(rows_KC, dim=1)
    rows_KC /= s_K[:, None]
    if tall:  # the wide matrix is the transpose, with left and right exchanged
        u_OK = rows_KC.mT
        vh_KI = u_RK.mT
    else:
        u_OK = u_RK
        vh_KI = rows_KC
    triplets = Triplets(u_OK=u_OK, s_K=s_K.double() * norm, vh_KI=vh_KI)
    return LeadingTriplets(triplets=triplets, errors_K=errors_K)


def _decompose_again_(wide_RC: Tensor, vectors_RR: Tensor, squares_R: Tensor, near: slice) -> None:
    """Rotate the eigenvectors ``near`` the cut into those of M Mᵀ projected onto them.

    Float32 mixes directions whose eigenvalues differ by less than about 1e-6 of the largest one.
    """
    near_DC = times(vectors_RR[:, near].mT, wide_RC).double()
    squares_D, rotation_DD = eigenvectors(gram(near_DC.mT))
    squares_R[near] = squares_D.clamp_(min=0)
    vectors_RR[:, near] = times(vectors_RR[:, near], rotation_DD.to(vectors_RR.dtype))


def _cut_errors(
    wide_RC: Tensor, vectors_RR: Tensor, squares_R: Tensor, cut: int, near: slice
) -> Tensor:
    """‖δu‖² of the K leading eigenvectors of M Mᵀ, which follow the S = ``cut`` smaller ones.

    To first order, H = Vᵀ M Mᵀ V − Λ turns a leading direction j into a smaller one i by
    H_ji / (λ_j − λ_i). The mean of H_ji² over the smaller directions stands for that of each i.
    Among the directions ``near`` the cut, H is only rounding.
    """
    if not cut:
        return torch.zeros_like(squares_R)
    mean_h_squares_K = row_errors(wide_RC, vectors_RR, squares_R, slice(0, cut))[cut:]
    gaps_KS = squares_R[cut:, None] - squares_R[None, :cut]
    squared_turns_KS = mean_h_squares_K[:, None] / gaps_KS.square()
    rounding = NEAR_CUT_ROUNDING * squares_R[cut]
    # ``near`` counts from the smallest of all R directions. The S smaller ones have the same
    # indices, from 0 to the cut; the K leading ones follow, and their own indices begin at 0.
    near_smaller = slice(near.start, cut)
    near_leading = slice(0, near.stop - cut)
    near_gaps = gaps_KS[near_leading, near_smaller]
    squared_turns_KS[near_leading, near_smaller] = (rounding / near_gaps).square()
    return squared_turns_KS.sum(dim=1)


def polar_in_float32(
    columns_NK: Tensor, weights_K: Tensor, errors_K: Tensor, block: int
) -> PolarFactor | None:
    """F = X (XᵀX)^(−1/2) of float32 columns X; None if they are nearly dependent.

    ``weights_K``: the diagonal of W, a weight for each column. ``block``: the number of columns of
    one expert, which follow each other and are orthonormal among themselves, but for rounding.
    ``errors_K``: ‖δx‖² of each column x for any other reason; float64.
    """
    gram_KK = gram(columns_NK)
    errors_K = errors_K + _orthonormality_errors(gram_KK, block)
    squares_K, vectors_KK = eigenvectors(gram_KK)
    del gram_KK
    values_K = squares_K.clamp_(min=0).sqrt()
    rows_KK = vectors_KK.mT
    small_count = int((squares_K <= INACCURATE_SQUARE * squares_K[-1]).sum())
    if small_count:
        small = slice(0, small_count)
        projected_NS = times(columns_NK, rows_KK[small].mT)
        _, values_S, rotation_SS = torch.linalg.svd(projected_NS, full_matrices=False)
        # Largest first, unlike the others; from here on, the order does not matter.
        values_K[small] = values_S
        rows_KK[small] = times(rotation_SS, rows_KK[small])
    if float(values_K.min()) <= SMALLEST_SHARE * float(values_K.max()):
        return None
    # With the rows Vᵀ and values s: (XᵀX)^(−1/2) = V s⁻¹ Vᵀ, the Gram matrix of Vᵀ / √s.
    inverse_root_KK = gram(rows_KK / values_K.sqrt()[:, None])
    factor_NK = times(columns_NK, inverse_root_KK)
    del inverse_root_KK
    shares_K = weights_K / torch.linalg.vector_norm(weights_K)
    squared_shares_K = shares_K.square()
    passed_on_square = _passed_on_square(
        rows_KK, values_K, errors_K, squared_shares_K, len(columns_NK)
    )
    residual = _orthonormality_residual(factor_NK, shares_K)
    return PolarFactor(factor_NK=factor_NK, error=math.hypot(math.sqrt(passed_on_square), residual))


def _orthonormality_errors(gram_KK: Tensor, block: int) -> Tensor:
    """‖δx‖² of each column x, for the nearest columns that are orthonormal in each block.

    These are X (1 − E/2) to first order, with E = XᵀX − 1 of the block. Thus ‖δx‖² is a quarter of
    the squared norm of E's column.
    """
    errors = []
    for start in range(0, len(gram_KK), block):
        columns = slice(start, start + block)
        difference = gram_KK[columns, columns].double()
        difference.diagonal().sub_(1)
        errors.append(difference.square_().sum(dim=0) / 4)
    return torch.cat(errors)


def _passed_on_square(
    rows_KK: Tensor, values_K: Tensor, errors_K: Tensor, squared_shares_K: Tensor, dimensions: int
) -> float:
    """‖δF Ŵ‖²_F, with Ŵ = W / ‖W‖_F, for errors δX whose columns have random directions.

    X = Q H, where H has the eigenvectors ``rows_KK`` and eigenvalues h. In their basis, to first
    order, δF = Q Z + (1 − Q Qᵀ) δX H⁻¹ with Z_ij = (A_ij − A_ji) / (h_i + h_j) for A = Qᵀ δX.
    ``squared_shares_K``: the diagonal of Ŵ², whose sum is 1. ``dimensions``: N, the length of a
    column.
    """
    squared_KK = rows_KK.square().double()
    # In the basis of the eigenvectors:
    basis_errors_K = squared_KK @ errors_K
    basis_shares_K = squared_KK @ squared_shares_K
    squared_sums_KK = (values_K[:, None] + values_K).double().square_()
    pairs_KK = (basis_errors_K[:, None] + basis_errors_K) / squared_sums_KK * basis_shares_K
    within = float(pairs_KK.sum() - pairs_KK.diagonal().sum())  # Z_ii = 0
    outside = float((basis_errors_K * basis_shares_K / values_K.double().square()).sum())
    return (within + (dimensions - len(values_K)) * outside) / dimensions


def _orthonormality_residual(factor_NK: Tensor, shares_K: Tensor) -> float:
    """‖(FᵀF − 1) Ŵ‖_F, about a bound of ‖δF Ŵ‖_F, with Ŵ = W / ‖W‖_F.

    X = Q H with orthonormal Q and positive H, and F = X (H⁻¹ + Δ) with a small symmetric Δ. Then
    δF = Q H Δ, and to first order FᵀF − 1 = H Δ + Δ H. In the basis of H's eigenvectors the entries
    are h_i Δ_ij and (h_i + h_j) Δ_ij, so those of H Δ are the smaller ones. The norm is estimated
    with P random vectors.
    """
    vectors_PK = random_rows(len(shares_K), shares_K.device) * shares_K
    products_PK = times_vectors(factor_NK.mT, times_vectors(factor_NK, vectors_PK))  # FᵀF W z
    return math.sqrt(energy(products_PK - vectors_PK) / len(vectors_PK))
