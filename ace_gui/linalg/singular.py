"""Singular values and vectors: the leading ones, those of thin products, and changed values.

O outputs, I inputs, R = min(O, I) or a rank, C the larger side, K triplets. Columns side by side
are N × K, with N ≥ K. Float64 throughout. There are two ways, as in ``polar``: eigenvectors of the
smaller Gram matrix if the spectrum makes them accurate, else a decomposition of the matrix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import torch
from torch import Tensor

from ace_gui.linalg.eigenvectors import Eigen, eigenvectors
from ace_gui.linalg.products import as_wide, gram, times

ZERO_SHARE: Final = 1e-6
"""Singular values up to this share of the largest count as zero; their vectors are rounding.

Task vectors are differences of float32 numbers, so smaller values hold no information.
"""

CLEAR_GAP: Final = 1e-9
"""Gap of squared singular values, relative to the largest, that a Gram matrix resolves to 1e-6."""

ACCURATE_SQUARE: Final = 1e-7
"""Share of the largest squared singular value above which a Gram matrix's vectors are accurate."""

LOST_SQUARE: Final = 1e-13
"""Share of the largest squared singular value; what a Gram matrix gives as smaller counts as zero.

Rounding in the Gram matrix moves squares by less than 9e-13 of the largest. In truth, such a square
is therefore below ``ZERO_SHARE``² of the largest, which is 1e-12.
"""

NORM_TOLERANCE: Final = 1e-6
"""Share of a nuclear norm that may be uncertain."""

ACCURATE_EIGENVALUE: Final = 1e-10
"""Smallest eigenvalue of a Gram matrix, relative to the largest, whose root is right to 1e-5. For
``singular_values`` alone, which needs no vectors.
"""

MOST_PROJECTED: Final = 32
"""Largest number of singular values for which a separate projection pays."""

COLUMNS_AT_A_TIME: Final = 1024
"""Columns of a matrix that are multiplied at a time, so that it needs no second copy."""

ROUNDING_SHARE: Final = 1e-7
"""Singular values up to this share of the largest may be rounding of the Gram matrix: they count as
zero where a power below 1 would amplify them.
"""

_EIGEN_FLOPS: Final = 9.0
"""Operations of an eigendecomposition with vectors, divided by R³: the usual count."""


@dataclass(frozen=True, kw_only=True)
class Triplets:
    """X ≈ U S Vᵀ, the largest singular value first."""

    u_OK: Tensor
    """U, with orthonormal columns."""
    s_K: Tensor
    """The singular values."""
    vh_KI: Tensor
    """Vᵀ, with orthonormal rows."""

    @property
    def product(self) -> Tensor:
        """U S Vᵀ, O × I."""
        return times(self.u_OK * self.s_K.to(self.u_OK.dtype), self.vh_KI)

    @property
    def transposed(self) -> Triplets:
        """The triplets of Xᵀ."""
        return Triplets(u_OK=self.vh_KI.T, s_K=self.s_K, vh_KI=self.u_OK.T)


class TripletsOfShare(NamedTuple):
    """Leading triplets of a matrix, and what they are a share of."""

    triplets: Triplets
    nuclear_norm: Tensor
    """Sum of all singular values of the matrix."""


def leading_triplets(matrix_OI: Tensor, k: int, *, scale: float = 0.0) -> Triplets:
    """The k largest singular values and vectors of a float64 matrix, 0 ≤ k ≤ R.

    Fewer if some do not exceed ``ZERO_SHARE`` times the largest one, or ``ZERO_SHARE`` times
    ``scale``, the size of numbers from which the matrix was computed.
    """
    if matrix_OI.shape[0] > matrix_OI.shape[1]:
        return leading_triplets(matrix_OI.T, k, scale=scale).transposed
    if not k:
        return Triplets(u_OK=matrix_OI[:, :0], s_K=matrix_OI.new_zeros(0), vh_KI=matrix_OI[:0])
    eigen = eigenvectors(gram(matrix_OI.T))
    triplets = _by_gram(matrix_OI, eigen, k, scale)
    if triplets is None:
        triplets = _by_decomposition(matrix_OI, eigen, k, scale)
    return triplets


def _by_gram(wide_RC: Tensor, eigen: Eigen, k: int, scale: float) -> Triplets | None:
    """The triplets; None if the Gram matrix does not separate them from the next ones."""
    squares_R = eigen.values.flip(0).clamp_(min=0)
    vectors_RR = eigen.vectors.flip(1)
    threshold = ZERO_SHARE**2 * max(float(squares_R[0]), scale**2)
    rank = int((squares_R[:k] > threshold).sum())
    if rank < len(squares_R):
        below = float(squares_R[rank])
    else:
        below = 0.0
    if rank:
        gap = float(squares_R[rank - 1]) - below
        is_clear = gap > CLEAR_GAP * float(squares_R[0])
        if not is_clear:
            return None
    return _triplets(wide_RC, vectors_RR[:, :rank], squares_R[:rank].sqrt())


def _by_decomposition(wide_RC: Tensor, eigen: Eigen, k: int, scale: float) -> Triplets:
    """The triplets, also of singular values that the Gram matrix does not resolve."""
    # The left vectors of X are the right ones of Xᵀ. They come as J rows in any order: one for each
    # singular value that does not count as zero.
    s_J, left_JR = _values_and_right_vectors(wide_RC.T, eigen)
    s_J, order_J = s_J.sort(descending=True)
    count = int((s_J[:k] > ZERO_SHARE * scale).sum())
    return _triplets(wide_RC, left_JR[order_J[:count]].T, s_J[:count])


def _triplets(wide_RC: Tensor, u_RK: Tensor, s_K: Tensor) -> Triplets:
    """The triplets of X from their U and S: Vᵀ = S⁻¹ Uᵀ X."""
    return Triplets(u_OK=u_RK, s_K=s_K, vh_KI=times((u_RK / s_K).T, wide_RC))


def triplets_of_share(matrix_OI: Tensor, share: float) -> TripletsOfShare:
    """The fewest leading triplets that make up ``share`` of the nuclear norm.

    The matrix is float64 and not empty. The Gram matrix blurs small singular values. If that could
    change the norm by ``NORM_TOLERANCE`` of it, as for low-rank matrices, the matrix itself is
    decomposed.
    """
    if matrix_OI.shape[0] > matrix_OI.shape[1]:
        of_transpose = triplets_of_share(matrix_OI.T, share)
        return of_transpose._replace(triplets=of_transpose.triplets.transposed)
    squares_R, u_OR = eigenvectors(gram(matrix_OI.T))
    squares_R = squares_R.flip(0).clamp_(min=0)
    u_OR = u_OR.flip(1)
    s_R = squares_R.sqrt()
    # An error η of a square s² is one of at most η / s in s, and never more than √η.
    square_error = 8 * torch.finfo(squares_R.dtype).eps * squares_R[0]
    norm_error = (square_error / s_R.clamp(min=square_error.sqrt())).sum()
    k = _count_for_share(s_R, share)
    if k < len(s_R):
        gap = squares_R[k - 1] - squares_R[k]
    else:
        gap = squares_R[k - 1]
    is_norm_exact = norm_error <= NORM_TOLERANCE * s_R.sum()
    is_cut_clear = gap > CLEAR_GAP * squares_R[0]
    if bool(is_norm_exact & is_cut_clear):
        vh_KI = times((u_OR[:, :k] / s_R[:k]).T, matrix_OI)
    else:
        del u_OR
        u_OR, s_R, vh_RI = torch.linalg.svd(matrix_OI, full_matrices=False)
        k = _count_for_share(s_R, share)
        vh_KI = vh_RI[:k]
    triplets = Triplets(u_OK=u_OR[:, :k], s_K=s_R[:k], vh_KI=vh_KI)
    return TripletsOfShare(triplets=triplets, nuclear_norm=s_R.sum())


def _count_for_share(s_R: Tensor, share: float) -> int:
    """The number of leading values that make up ``share`` of their sum."""
    sums_R = s_R.cumsum(0)
    # Rounding of the sum must not lead to more values than there are.
    is_too_small_R = sums_R < share * sums_R[-1] * (1 - 1e-12)
    return int(is_too_small_R.sum()) + 1


def orthogonalised(columns_NK: Tensor) -> Tensor:
    """The polar factor U Vᵀ of K ≤ N columns, restricted to their span.

    For independent columns it is the nearest matrix with orthonormal columns. Directions with a
    singular value of at most ``ZERO_SHARE`` of the largest are left out, so the result has no
    arbitrary directions.
    """
    return times(columns_NK, inverse_root(columns_NK))


def inverse_root(columns_NK: Tensor) -> Tensor:
    """(CᵀC)^(-1/2) of K ≤ N columns C, K × K, restricted to their span as in ``orthogonalised``."""
    s_R, vh_RK = values_and_right_vectors(columns_NK)
    return gram(vh_RK / s_R.sqrt()[:, None])


def values_and_right_vectors(columns_NK: Tensor) -> tuple[Tensor, Tensor]:
    """The singular values of K ≤ N columns C, and their right vectors as rows, R of them.

    R is the number of values above ``ZERO_SHARE`` of the largest. They come from the eigenvectors
    of CᵀC. The few inaccurate ones are improved by a decomposition of C times these vectors. If
    even their span is inaccurate, C is decomposed. The order is arbitrary.
    """
    return _values_and_right_vectors(columns_NK, eigenvectors(gram(columns_NK)))


def _values_and_right_vectors(columns_NK: Tensor, eigen: Eigen) -> tuple[Tensor, Tensor]:
    """``values_and_right_vectors``, with the eigenvectors of CᵀC, smallest first."""
    squares_K, vectors_KK = eigen
    if not len(squares_K):
        return squares_K, vectors_KK
    largest = squares_K[-1]
    lost_count = int((squares_K < LOST_SQUARE * largest).sum())
    inaccurate_count = int((squares_K <= ACCURATE_SQUARE * largest).sum())
    # The smallest direction that is used must be clearly apart from those that are lost.
    is_span_blurred = lost_count > 0 and bool((squares_K[lost_count:] <= CLEAR_GAP * largest).any())
    if is_span_blurred:
        _, s_R, vh_RK = torch.linalg.svd(columns_NK, full_matrices=False)
    else:
        s_R = squares_K[lost_count:].sqrt()
        vh_RK = vectors_KK.T[lost_count:]
        inaccurate = slice(0, inaccurate_count - lost_count)
        projected = times(columns_NK, vh_RK[inaccurate].T)
        _, values, rotation = torch.linalg.svd(projected, full_matrices=False)
        s_R[inaccurate] = values
        vh_RK[inaccurate] = rotation @ vh_RK[inaccurate]
    is_nonzero = s_R > ZERO_SHARE * s_R.max()
    return s_R[is_nonzero], vh_RK[is_nonzero]


def singular_values(matrix: Tensor) -> Tensor:
    """Singular values of a real matrix, largest first, float64, shape (min(rows, columns),).

    Singular values above 1e-5 of the largest come from eigenvalues of the smaller Gram matrix.
    Their relative error is 1e-5, far below what a plot shows. Smaller ones come from the matrix
    projected onto the Gram matrix's last eigenvectors. They are right to about 1e-10 of the
    largest, so that a logarithmic plot shows them too. With more than ``MOST_PROJECTED`` small
    ones, all values come from a QR's factor, right to about 1e-15 of the largest and twice as slow.
    """
    tall = matrix.to(torch.float64)
    if tall.shape[0] < tall.shape[1]:
        tall = tall.T
    gram_RR = gram(tall)
    squares: Tensor = torch.linalg.eigvalsh(gram_RR).flip(0)
    is_resolved = squares > ACCURATE_EIGENVALUE * squares[0]
    unresolved_count = len(squares) - int(is_resolved.sum())
    if not unresolved_count:
        return squares.sqrt()
    if unresolved_count <= min(MOST_PROJECTED, len(squares) // 4):
        last_RK = eigenvectors(gram_RR).vectors[:, :unresolved_count]
        smallest: Tensor = torch.linalg.svdvals(times(tall, last_RK))
        return torch.cat([squares[:-unresolved_count].sqrt(), smallest])
    if tall.shape[0] > tall.shape[1]:
        tall = torch.linalg.qr(tall, mode="r").R
    values: Tensor = torch.linalg.svdvals(tall)
    return values


@dataclass(frozen=True, kw_only=True)
class LowRankFactors:
    """The product B·A, exact or near to a matrix."""

    b_OR: Tensor
    """B."""
    a_RI: Tensor
    """A."""
    energy_share: float = 1.0
    """Energy of B·A as a share of the matrix's; 1 if it is exact."""


def concatenated_factors(terms: Sequence[tuple[float, Tensor, Tensor]]) -> LowRankFactors:
    """Σ c·B·A for terms (c, B, A), exact, as two concatenated factors, float64."""
    return LowRankFactors(
        b_OR=torch.cat([c * b.double() for c, b, _ in terms], dim=1),
        a_RI=torch.cat([a.double() for _, _, a in terms]),
    )


def squared_values(matrix_OI: Tensor) -> Tensor:
    """The squared singular values of a float64 matrix, largest first."""
    squares: Tensor = torch.linalg.eigvalsh(gram(as_wide(matrix_OI).mT))
    return squares.flip(0).clamp_(min=0)


def squared_values_of_product(factors: LowRankFactors) -> Tensor:
    """``squared_values`` of a product B·A, without computing it."""
    _, core_RR, _ = _orthonormal_factors(factors)
    values: Tensor = torch.linalg.svdvals(core_RR)
    return values.square()


def rank_for_energy(squares: Tensor, energy_share: float) -> int:
    """The smallest rank that keeps this share of the energy; 0 for a zero matrix.

    ``squares``: the squared singular values, largest first.
    """
    total_energy = float(squares.sum())
    if total_energy == 0:
        return 0
    lost_energies = total_energy - squares.cumsum(0)  # with a rank of 1, 2, and so on
    rounding = 1e-14 * total_energy  # of the sums
    allowed_loss = (1 - energy_share) * total_energy + rounding
    return int((lost_energies > allowed_loss).sum()) + 1


def cut_to_rank(matrix_OI: Tensor, rank: int, *, balanced: bool = False) -> LowRankFactors:
    """The nearest matrix of this rank to a float64 matrix, by Eckart and Young.

    B = U·S and A = Vᵀ; ``balanced``: √S on both sides. If there are fewer singular values than
    ``rank``, zeros fill up the factors. The matrix is projected onto the leading eigenvectors of
    the smaller Gram matrix.
    """
    tiny = torch.finfo(torch.float64).tiny
    if matrix_OI.shape[0] <= matrix_OI.shape[1]:
        u_OK = eigenvectors(gram(matrix_OI.T)).vectors.flip(1)[:, :rank]
        projected_KI = times(u_OK.T, matrix_OI)
        s_K = torch.linalg.vector_norm(projected_KI, dim=1)
        vh_KI = projected_KI / s_K.clamp_min(tiny)[:, None]
    else:
        v_IK = eigenvectors(gram(matrix_OI)).vectors.flip(1)[:, :rank]
        projected_OK = times(matrix_OI, v_IK)
        s_K = torch.linalg.vector_norm(projected_OK, dim=0)
        u_OK = projected_OK / s_K.clamp_min(tiny)
        vh_KI = v_IK.T
    total_energy = float(torch.linalg.vector_norm(matrix_OI)) ** 2
    return _factors_of_rank(u_OK, s_K, vh_KI, rank, total_energy, balanced=balanced)


def product_cut_to_rank(
    factors: LowRankFactors, rank: int, *, balanced: bool = False
) -> LowRankFactors:
    """``cut_to_rank`` of a product B·A, by QR of its factors, without computing it."""
    q_OR, core_RR, q_IR = _orthonormal_factors(factors)
    u, s, vh = torch.linalg.svd(core_RR)
    total_energy = float(s.square().sum())
    u_OK = q_OR @ u[:, :rank]
    vh_KI = vh[:rank] @ q_IR.T
    return _factors_of_rank(u_OK, s[:rank], vh_KI, rank, total_energy, balanced=balanced)


def _orthonormal_factors(factors: LowRankFactors) -> tuple[Tensor, Tensor, Tensor]:
    """Q_B, the core R_B·R_Aᵀ and Q_A of B·A = Q_B (R_B·R_Aᵀ) Q_Aᵀ, by QR of B and Aᵀ."""
    q_OR, r_b = torch.linalg.qr(factors.b_OR)
    q_IR, r_a = torch.linalg.qr(factors.a_RI.T)
    return q_OR, r_b @ r_a.T, q_IR


def _factors_of_rank(
    u_OK: Tensor, s_K: Tensor, vh_KI: Tensor, rank: int, total_energy: float, *, balanced: bool
) -> LowRankFactors:
    """U S Vᵀ as two factors, filled with zeros up to ``rank``.

    ``total_energy``: of the matrix that was cut. ``balanced``: see ``cut_to_rank``.
    """
    b_OR = u_OK.new_zeros(len(u_OK), rank)
    a_RI = vh_KI.new_zeros(rank, vh_KI.shape[1])
    count = len(s_K)
    if balanced:
        b_OR[:, :count] = u_OK * s_K.sqrt()
        a_RI[:count] = vh_KI * s_K.sqrt()[:, None]
    else:
        b_OR[:, :count] = u_OK * s_K
        a_RI[:count] = vh_KI
    if total_energy:
        energy_share = float(s_K.square().sum()) / total_energy
    else:
        energy_share = 1.0
    return LowRankFactors(b_OR=b_OR, a_RI=a_RI, energy_share=min(energy_share, 1.0))


# Changing singular values: for M = U S Vᵀ with R rows, U f(S) Vᵀ is U diag(f(s) / s) Uᵀ M. The
# eigenvectors of the Gram matrix on the smaller side are therefore enough.


@dataclass(frozen=True, kw_only=True)
class ShapedSpectrum:
    """A matrix with other singular values than before."""

    matrix_OI: Tensor
    """The changed matrix, float64."""
    before_R: Tensor
    """Singular values before the change, largest first."""
    after_R: Tensor
    """What each of them became, in the same order."""


def direction_count(share: float, shape: tuple[int, ...]) -> int:
    """floor(share · min(O, I)), but at least one."""
    rounding = 1e-9  # 0.29 · 100 must not give 28
    return max(1, math.floor(share * min(shape) + rounding))


def shape_spectrum_(
    matrix_OI: Tensor, *, share: float, power: float, noise: float
) -> ShapedSpectrum:
    """The matrix with only its leading singular directions, and s^power instead of each s.

    The powers are scaled so that the Frobenius norm of the leading directions is unchanged. A power
    below 1 would amplify rounding, so a singular value up to ``noise_floor`` counts as 0.
    ``share``: of the directions (``direction_count``). ``noise``: Frobenius norm of the matrix's
    error. ``power`` ≥ 0. Overwrites a float64 matrix.
    """
    double_OI = matrix_OI.to(torch.float64)
    tall = double_OI.shape[0] > double_OI.shape[1]
    wide_RC = as_wide(double_OI)
    squares_R, vectors_RR = eigenvectors(gram(wide_RC.mT))
    values_R = squares_R.clamp_(min=0).sqrt_()
    places_R = torch.arange(len(values_R), 0, -1, device=values_R.device)  # 1 for the largest
    dropped_R = places_R > direction_count(share, wide_RC.shape)
    factors_R = _factors(values_R, dropped_R, power, noise_floor(noise, wide_RC.shape))
    map_RR = gram((vectors_RR * factors_R.sqrt()).mT)  # U diag(f(s) / s) Uᵀ
    del vectors_RR
    for start in range(0, wide_RC.shape[1], COLUMNS_AT_A_TIME):
        part = wide_RC[:, start : start + COLUMNS_AT_A_TIME]
        part.copy_(times(map_RR, part))
    return ShapedSpectrum(
        matrix_OI=wide_RC.mT if tall else wide_RC,
        before_R=values_R.flip(0),
        after_R=(values_R * factors_R).flip(0),
    )


def noise_floor(noise: float, shape: tuple[int, ...]) -> float:
    """The approximate largest singular value of a random O × I matrix of this Frobenius norm."""
    return noise * sum(1 / math.sqrt(size) for size in shape)


def matrix_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """The outputs, and all else, of a tensor that is taken as a matrix."""
    outputs, *inner_sizes = shape
    return outputs, math.prod(inner_sizes)


def shaping_memory(shape: tuple[int, int]) -> float:
    """Memory of ``shape_spectrum_`` in float64 numbers, including LAPACK's workspace."""
    small, large = sorted(shape)
    return small * large + 5.0 * small**2 + small * min(large, COLUMNS_AT_A_TIME)


def shaping_flops(shape: tuple[int, int]) -> float:
    """The approximate number of arithmetic operations of ``shape_spectrum_``."""
    small, large = sorted(shape)
    return _EIGEN_FLOPS * small**3 + 3.0 * small**2 * large


def _factors(values_R: Tensor, dropped_R: Tensor, power: float, floor: float) -> Tensor:
    """f(s)/s of singular values s in any order.

    0 for a value that is dropped, and for one so small that it may be rounding.
    """
    largest = values_R.max()
    leading_R = values_R.masked_fill(dropped_R, 0.0)
    is_zero_R = dropped_R
    if power < 1:
        larger_floor = (ROUNDING_SHARE * largest).clamp(min=floor)  # of the two
        is_zero_R = dropped_R | (values_R <= larger_floor)
    bases_R = (values_R / largest).masked_fill(is_zero_R, 1.0)  # no power of 0, which is infinite
    factors_R = bases_R ** (power - 1)
    factors_R.masked_fill_(is_zero_R | (largest == 0), 0.0)
    if power == 1:
        return factors_R
    norm = torch.linalg.vector_norm
    new_norm = norm(values_R * factors_R)
    return factors_R * torch.where(new_norm > 0, norm(leading_R) / new_norm, 1.0)
