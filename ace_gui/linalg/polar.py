"""The leading part of a polar factor: U_k V_kᵀ of X = U S Vᵀ.

B matrices X of O outputs and I inputs, N of them in a part of the batch; R is the smaller side of X
and C the larger. K leading directions, J others; F figures that a caller asks for.

There are two ways. The cheap one uses eigenvectors of the smaller Gram matrix. Squaring halves the
digits, so the subspace has an error of about ε·s₁²/(s_k² − s_{k+1}²), ε = 2e-16. If that is too
coarse, a QR and a singular value decomposition of X have an error of ε·s₁/(s_k − s_{k+1}).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import torch
from torch import Tensor

from ace_gui.linalg.eigenvectors import eigenvectors
from ace_gui.linalg.products import factor_per_matrix, gram, matrices_at, product

SMALLEST_GAP: Final = 1e-10
"""Least (s_k² − s_{k+1}²)/s₁² for the Gram matrix to separate the leading k directions to 1e-5.

This is the worst case, for the two directions next to the cut; the error of all directions together
is far smaller.
"""


FactorFigures = Callable[[Tensor, Sequence[int]], Tensor]
"""What a caller also wants to know of the factors, computed with them.

Gets factors U_k V_kᵀ (N × O × I) and the indices of their matrices in the batch. Returns float64
figures of each factor (N × F).
"""


@dataclass(frozen=True, kw_only=True)
class TopPolar:
    """The polar factor of the leading directions of a matrix."""

    factor_OI: Tensor
    """U_k V_kᵀ, without directions whose singular value is below rounding."""
    mean: float
    """Mean of s_1..s_k."""
    rank: int
    """Number of the k directions in the factor."""
    weakest: float
    """Smallest singular value of the directions in the factor, as a share of the largest."""
    sensitivity: float
    """Factor by which a small error of the matrix is amplified (``cut_sensitivity``)."""
    figures: tuple[float, ...] = ()
    """What the caller's ``FactorFigures`` returned."""


def top_polars(
    matrix_BOI: Tensor,
    k: int,
    relative_errors: Sequence[float],
    figures: FactorFigures | None = None,
) -> list[TopPolar]:
    """U_k V_kᵀ and the mean of the k largest singular values of every matrix of a float64 batch.

    1 ≤ k ≤ min(O, I). ``relative_errors``: of the matrices, as shares of their largest singular
    values. Singular vectors are left out if their singular value does not exceed this error or the
    matrix's rounding, as they are arbitrary. ``figures`` are computed with the singular values, so
    a GPU is synchronised only once.
    """
    batch = _PolarBatch(
        matrix_BOI=matrix_BOI, k=k, relative_errors=relative_errors, figures=figures
    )
    squares_BR, vectors_BRR = eigenvectors(gram(batch.wide_BRC.mT))
    basis_BRK = vectors_BRR[..., -k:].flip(-1)
    values_BR = squares_BR.flip(-1).clamp_(min=0).sqrt_()
    del vectors_BRR
    by_gram = batch.polars(range(len(matrix_BOI)), basis_BRK, values_BR)
    del basis_BRK
    polars: list[TopPolar] = []
    for b, result in enumerate(by_gram):
        polar = result.polar
        if not result.is_separated:
            basis_RK, values_R = _by_svd(batch.wide_BRC[b], k)
            (exact_result,) = batch.polars([b], basis_RK[None], values_R[None])
            polar = exact_result.polar
        polars.append(polar)
    return polars


class _PolarOfBasis(NamedTuple):
    """The polar factor of one matrix, computed from a basis of its leading directions."""

    polar: TopPolar
    is_separated: bool
    """Whether the cut is clear enough for a basis of eigenvectors of the Gram matrix."""


@dataclass(frozen=True, kw_only=True)
class _PolarBatch:
    """The arguments of ``top_polars``."""

    matrix_BOI: Tensor
    k: int
    relative_errors: Sequence[float]
    figures: FactorFigures | None

    @property
    def tall(self) -> bool:
        return self.matrix_BOI.shape[1] > self.matrix_BOI.shape[2]

    @property
    def wide_BRC(self) -> Tensor:
        if self.tall:
            return self.matrix_BOI.mT
        return self.matrix_BOI

    def polars(
        self, indices: Sequence[int], basis_BRK: Tensor, values_BR: Tensor
    ) -> list[_PolarOfBasis]:
        """The polar factors of the matrices at ``indices``, from their U_k and all of their s."""
        wide_BRC = matrices_at(self.wide_BRC, indices)
        rounding = torch.finfo(wide_BRC.dtype).eps * wide_BRC.shape[2]
        relative_floors = [max(self.relative_errors[b], rounding) for b in indices]
        factor_BRC = _factors(wide_BRC, basis_BRK, values_BR, relative_floors)
        if self.tall:
            factor_BOI = factor_BRC.mT
        else:
            factor_BOI = factor_BRC
        # The values and the figures of a matrix are one row, so that they are copied at once: a GPU
        # must finish its work before it can answer.
        values_and_figures = values_BR
        if self.figures is not None:
            values_and_figures = torch.cat([values_BR, self.figures(factor_BOI, indices)], dim=1)
        rows = values_and_figures.cpu()
        count = values_BR.shape[1]
        polars: list[_PolarOfBasis] = []
        for factor_OI, row, relative_floor in zip(factor_BOI, rows, relative_floors, strict=True):
            polars.append(self._polar(factor_OI, row[:count], row[count:], relative_floor))
        return polars

    def _polar(
        self, factor_OI: Tensor, values_R: Tensor, figures_F: Tensor, relative_floor: float
    ) -> _PolarOfBasis:
        values_K = values_R[: self.k]
        rank = int((values_K > relative_floor * values_K[0]).sum())  # in descending order
        if self.k < len(values_R):
            next_value = float(values_R[self.k])
        else:
            next_value = 0.0
        if rank:
            weakest = float(values_K[rank - 1] / values_K[0])
        else:
            weakest = 0.0
        gap = values_K[-1] ** 2 - next_value**2
        is_separated = bool(gap > SMALLEST_GAP * values_K[0] ** 2)
        polar = TopPolar(
            factor_OI=factor_OI,
            mean=float(values_K.mean()),
            rank=rank,
            weakest=weakest,
            sensitivity=cut_sensitivity(values_R, rank, max(factor_OI.shape)),
            figures=tuple(figures_F.tolist()),
        )
        return _PolarOfBasis(polar=polar, is_separated=is_separated)


def _factors(
    wide_BRC: Tensor, basis_BRK: Tensor, values_BR: Tensor, relative_floors: Sequence[float]
) -> Tensor:
    """U_k diag(1/s) U_kᵀ X, with 0 instead of 1/s if s is not above its floor, a share of s₁."""
    values_B1K = values_BR[:, None, : basis_BRK.shape[2]]
    floors_B1K = values_B1K[..., :1] * factor_per_matrix(relative_floors, values_B1K)
    inverses_B1K = torch.where(values_B1K > floors_B1K, values_B1K.reciprocal(), 0)
    return product(basis_BRK * inverses_B1K, product(basis_BRK.mT, wide_BRC))


def cut_sensitivity(values_R: Tensor, k: int, columns: int) -> float:
    """‖δ(U_k V_kᵀ)‖_F / ‖δX‖_F of an R × ``columns`` matrix X, for an isotropic random δX.

    To first order, and as the mean over directions of δX, from the derivatives of singular vectors
    (for instance Stewart, Perturbation Theory for the Singular Value Decomposition, 1990): pairs
    within the leading k, pairs across the cut, and columns outside of all directions. Infinite if
    the cut lies between equal values.
    """
    if not k:
        return 0.0
    leading_K1 = values_R[:k, None]
    trailing_1J = values_R[None, k:]
    within = 2 / (leading_K1 + leading_K1.T).square()
    across = 2 * (leading_K1.square() + trailing_1J.square())
    across = across / (leading_K1.square() - trailing_1J.square()).square()
    outside = max(0, columns - len(values_R)) / leading_K1.square()
    within_pairs = within.sum() - within.diagonal().sum()  # no direction turns into itself
    total = float(within_pairs + across.sum() + outside.sum())
    return math.sqrt(total / (len(values_R) * columns))


def _by_svd(wide_RC: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """U_k and all of s of X.

    With the QR decomposition Xᵀ = Q T, the left vectors and singular values of X are those of Tᵀ.
    """
    triangle_RR = torch.linalg.qr(wide_RC.T, mode="r").R
    u_RR, s_R, _ = torch.linalg.svd(triangle_RR.T)
    return u_RR[:, :k], s_R
