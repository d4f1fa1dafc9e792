"""The leading part of a polar factor: U_k V_kᵀ of X = U S Vᵀ.

B matrices X of O outputs and I inputs, K directions; R is the smaller side of X and C the larger.

Two ways. The eigenvectors of the smaller Gram matrix are the cheap one; squaring halves the digits,
so that the subspace is known to about u·s₁²/(s_k² − s_{k+1}²), u = 2e-16. Where that is too
coarse, a QR and a singular value decomposition of X give u·s₁/(s_k − s_{k+1}).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from ace_gui.linalg.blocks import gram

SMALLEST_GAP: Final = 1e-10
"""Least (s_k² − s_{k+1}²)/s₁² for the Gram matrix to separate the leading k directions to 1e-5.

That is the worst case, of the two directions next to the cut; over all of them it is far less.
"""


@dataclass(frozen=True, kw_only=True)
class TopPolar:
    """``factor_OI``: U_k V_kᵀ, without the directions that have no singular value above rounding.

    ``mean``: mean of s_1..s_k. ``rank``: how many of the k directions the factor holds.
    ``weakest``: the smallest singular value among those, as a share of the largest.
    ``sensitivity``: by how much a small error of the matrix is multiplied in the factor
    (``cut_sensitivity``).
    """

    factor_OI: Tensor
    mean: float
    rank: int
    weakest: float
    sensitivity: float


def top_polars(matrix_BOI: Tensor, k: int, noises: Sequence[float]) -> list[TopPolar]:
    """U_k V_kᵀ and the mean of the k largest singular values of every matrix of a float64 batch.

    1 ≤ k ≤ min(O, I). ``noises``: error of each matrix relative to its largest singular value.
    Singular vectors whose singular value does not exceed it (or the rounding of the matrix) are
    arbitrary, and left out.
    """
    tall = matrix_BOI.shape[1] > matrix_BOI.shape[2]
    wide_BRC = matrix_BOI.mT if tall else matrix_BOI
    squares_BR, vectors_BRR = torch.linalg.eigh(gram(wide_BRC.mT))
    squares_BR, vectors_BRR = squares_BR.flip(-1), vectors_BRR.flip(-1)
    leading = [_by_gram(*each, k) for each in zip(wide_BRC, squares_BR, vectors_BRR, strict=True)]
    del vectors_BRR
    return [
        _top_polar(*(found or _by_svd(wide_RC, k)), noise=noise, tall=tall)
        for found, wide_RC, noise in zip(leading, wide_BRC, noises, strict=True)
    ]


def _top_polar(
    basis_RK: Tensor, values_R: Tensor, projected_KC: Tensor, *, noise: float, tall: bool
) -> TopPolar:
    known_R = values_R.cpu()  # asked for once: a GPU must finish its work before it can answer
    values_K = known_R[: len(projected_KC)]
    unit = torch.finfo(basis_RK.dtype).eps
    floor = max(noise, unit * projected_KC.shape[1]) * values_K[0]
    kept = values_K > floor
    rank = int(kept.sum())  # the values are in descending order
    left_RK, right_KC = basis_RK[:, :rank] / values_R[:rank], projected_KC[:rank]
    return TopPolar(
        factor_OI=right_KC.T @ left_RK.T if tall else left_RK @ right_KC,
        mean=float(values_K.mean()),
        rank=rank,
        weakest=float(values_K[rank - 1] / values_K[0]) if rank else 0.0,
        sensitivity=cut_sensitivity(known_R, rank, projected_KC.shape[1]),
    )


def cut_sensitivity(values_R: Tensor, k: int, columns: int) -> float:
    """‖δ(U_k V_kᵀ)‖_F by ‖δX‖_F of an R × ``columns`` matrix X, for a δX without any preference.

    To first order and in the mean over the directions of δX, by the derivatives of singular vectors
    (for instance Stewart, Perturbation Theory for the Singular Value Decomposition, 1990): pairs
    within the leading k, pairs on both sides of the cut, and the columns outside of all. Infinite
    where the cut lies between equal values.
    """
    if not k:
        return 0.0
    kept_K1, others_1J = values_R[:k, None], values_R[None, k:]
    variance = 2 / (kept_K1 + kept_K1.T).square()
    across = 2 * (kept_K1.square() + others_1J.square())
    across = across / (kept_K1.square() - others_1J.square()).square()
    outside = max(0, columns - len(values_R)) / kept_K1.square()
    total = float(variance.sum() - variance.diagonal().sum() + across.sum() + outside.sum())
    return math.sqrt(total / (len(values_R) * columns))


def _by_gram(
    wide_RC: Tensor, squares_R: Tensor, vectors_RR: Tensor, k: int
) -> tuple[Tensor, Tensor, Tensor] | None:
    """U_k, all of s and U_kᵀX; None where the Gram matrix does not hold them accurately."""
    below = squares_R[k] if k < len(squares_R) else squares_R.new_zeros(())
    if not bool(squares_R[k - 1] - below > SMALLEST_GAP * squares_R[0]):
        return None
    basis_RK = vectors_RR[:, :k]
    return basis_RK, squares_R.clamp(min=0).sqrt(), basis_RK.T @ wide_RC


def _by_svd(wide_RC: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """U_k, all of s and U_kᵀX; the left vectors of X = (Q T)ᵀ are those of the small matrix Tᵀ."""
    triangle_RR = torch.linalg.qr(wide_RC.T, mode="r").R
    u_RR, s_R, _ = torch.linalg.svd(triangle_RR.T)
    basis_RK = u_RR[:, :k]
    return basis_RK, s_R, basis_RK.T @ wide_RC
