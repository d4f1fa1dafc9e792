"""√s instead of each singular value s, in float32, with a measured error.

M' = F M with F = (M Mᵀ)^(−¼) = V Λ^(−¼) Vᵀ for the shorter side of M and eigenvectors V of M Mᵀ. In
float32, H = Vᵀ M Mᵀ V − Λ is not zero but about 1e-7 of the largest eigenvalue. To first order, the
derivative of a matrix function (Higham, Functions of Matrices, 2008) says what this does:

    ‖δM'‖²_F = Σ_ij H_ij² f[λ_i, λ_j]² λ_j,   f(λ) = λ^(−¼),   f[λ, μ] = (f(λ) − f(μ)) / (λ − μ).

Products of H with a few random vectors measure H. It hurts the smallest directions most. The K
smallest are therefore separated from the J others by a small rotation, and decomposed again:
V_Kᵀ M has no large eigenvalue that blurs the small ones. This is repeated up to ``LEVELS`` times.
Directions that are small enough get one factor instead, and what that costs has a bound.

R rows, C ≥ R columns of M; N = K + J rows of one level, smallest directions first. In a table of
pairs of directions, A rows of a few directions, and B columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from ace_gui.linalg.eigenvectors import Eigen, eigenvectors
from ace_gui.linalg.passes import energy
from ace_gui.linalg.probing import row_errors
from ace_gui.linalg.products import add_product_, as_wide, full_float32, gram, times

SMALLEST_LIMIT: Final = 4e-3
"""Smallest limit of the error at which float32 is tried. At a smaller one nearly all directions of
16-bit weights' changes would be decomposed twice, which takes as long as float64.
"""

LEVELS: Final = 4
"""Most decompositions, each of the smallest directions of the one before."""

FINISHED_SHARE: Final = 0.5
"""Share of the allowed ‖δM'‖² for the directions that a level does not decompose again."""

RESOLVED_SHARE: Final = 1e-3
"""Share of the largest singular value below which a level's eigenvalues are only rounding."""

SEPARATION_SAFETY: Final = 1e4
"""Safety factor on the estimate of the ‖δM'‖² that remains after ``_separate_``. The estimate uses
blurred singular values, and small directions may have far smaller ones.
"""

ROWS_AT_A_TIME: Final = 256
"""Rows of a table of all pairs of eigenvalues that are computed at a time."""

EQUAL_SHARE: Final = 1e-6
"""Eigenvalues nearer than this share count as equal."""

MAP_ROUNDING: Final = 1.2e-7
"""Rounding of an entry of F in float32, relative to it."""

FLOOR_ROUNDING: Final = 2e-7
"""Rounding of a small singular value in float32, relative to ‖M‖."""

LEAST_ERROR: Final = 1e-5
"""Largest error that float32's products leave in any case, relative to ‖M'‖."""

SAFETY: Final = 3.0
"""Factor on the measured error. Over layers of all kinds, the true one was up to 2.3 times it, as
the smallest direction may have a larger H than the mean of the small ones."""


@dataclass(frozen=True, kw_only=True)
class RootSpectrum:
    """The result for a matrix M."""

    matrix_OI: Tensor
    """M', scaled to the norm of M, float32."""

    before_R: Tensor
    """Singular values of M, largest first, float64."""

    after_R: Tensor
    """Singular values of M'."""

    error: float
    """Estimated error of M' as a share of its norm."""


@dataclass(frozen=True, kw_only=True)
class _FourthRoot:
    """F = (M Mᵀ)^(−¼) of a level's directions."""

    map_NN: Tensor | None
    """F, float32. None below the first level if all directions get one factor (``factors_N``); F is
    then diagonal in any basis.
    """

    values_N: Tensor
    """Singular values of M, float64."""

    factors_N: Tensor
    """What each singular value is multiplied by."""

    error_square: float
    """Estimate of ‖δM'‖²_F, before M' is scaled."""


def root_spectrum(matrix_OI: Tensor, floor: float, limit: float) -> RootSpectrum | None:
    """The matrix with √s instead of each singular value s above ``floor``, scaled to its norm.

    The matrix is float32 and not zero. ``limit``: the largest relative error that is allowed. None
    if float32 may not reach it.
    """
    norm = math.sqrt(energy(matrix_OI))
    tall = matrix_OI.shape[0] > matrix_OI.shape[1]
    wide_RC = as_wide(matrix_OI)
    with full_float32():
        # Divided by its norm, so that squares stay in the range of float32.
        wide_RC = wide_RC / norm
        eigen = eigenvectors(gram(wide_RC.mT))
        # The sum of the singular values of M is ‖M'‖².
        allowed = (limit / SAFETY) ** 2 * float(eigen.values.double().clamp_(min=0).sqrt().sum())
        root = _fourth_root(wide_RC, eigen, floor / norm, allowed, LEVELS)
        if root is None:
            return None
        assert root.map_NN is not None  # only a level below this one may leave it out
        rooted_RC = times(root.map_NN, wide_RC)
    new_norm = math.sqrt(energy(rooted_RC))
    # Singular values that rounding may have put on the other side of the floor.
    near_count = int(((root.values_N - floor / norm).abs() <= FLOOR_ROUNDING).sum())
    error_square = root.error_square + near_count * floor / norm
    error = SAFETY * math.sqrt(error_square) / new_norm + LEAST_ERROR
    if error > limit or math.isnan(error):
        return None
    rooted_RC.mul_(norm / new_norm)
    before_R, order_R = root.values_N.sort(descending=True)
    return RootSpectrum(
        matrix_OI=rooted_RC.mT if tall else rooted_RC,
        before_R=before_R * norm,
        after_R=(root.values_N * root.factors_N)[order_R] * (norm / new_norm),
        error=error,
    )


def _fourth_root(
    rows_NC: Tensor, eigen: Eigen, floor: float, allowed: float, levels: int
) -> _FourthRoot | None:
    """F by at most so many ``levels``; None if ‖δM'‖² is more than ``allowed``.

    ``eigen``: of the Gram matrix of the rows; its vectors are overwritten.
    """
    vectors_NN = eigen.vectors
    squares_N = eigen.values.double().clamp_(min=0)
    values_N = squares_N.sqrt()
    resolution = RESOLVED_SHARE * float(values_N[-1])
    factors_N = _factors(values_N, resolution, floor)
    h_squares_N = row_errors(rows_NC, vectors_NN, squares_N, slice(0, None))
    errors_N = _pair_errors(squares_N, factors_N, h_squares_N)
    count = _count_of_small(squares_N, h_squares_N, errors_N, FINISHED_SHARE * allowed)
    count = max(count, int((values_N <= resolution).sum()))
    if count == len(values_N):
        return None
    error_square = float(errors_N[count:].sum())
    small_map_KK = None
    if count:
        error_square += _separate_(rows_NC, vectors_NN, squares_N, count)
        small_KC = times(vectors_NN[:, :count].mT, rows_NC)
        # What the rotation leaves of H between each large direction j and the small ones i. Two
        # small directions have their error in ``small``, and two large ones in ``errors_N``.
        mixed_h_squares_N = row_errors(rows_NC, vectors_NN, squares_N, slice(0, count))
        mixed_h_squares_N[:count] = 0  # no small j
        small = _of_small(small_KC, values_N[:count], resolution, floor, allowed, levels)
        if small is None:
            return None
        small_map_KK = small.map_NN
        values_N = torch.cat([small.values_N, values_N[count:]])
        factors_N = torch.cat([small.factors_N, factors_N[count:]])
        mixed_errors_N = _pair_errors(values_N.square(), factors_N, mixed_h_squares_N)
        error_square += small.error_square + float(mixed_errors_N[:count].sum())  # no large i
    # Rounding of F: the mean sum of squares of a row of F is the mean square of the factors.
    error_square += MAP_ROUNDING**2 * energy(rows_NC) * float(factors_N.square().mean())
    if error_square > allowed or math.isnan(error_square):
        return None
    return _FourthRoot(
        map_NN=_map(vectors_NN, factors_N, small_map_KK),
        values_N=values_N,
        factors_N=factors_N,
        error_square=error_square,
    )


def _factors(values_N: Tensor, resolution: float, floor: float) -> Tensor:
    """σ^(−½) of singular values σ, as far as they are resolved; 0 for those up to the floor."""
    factors_N = values_N.clamp(min=resolution).rsqrt()
    # A lower floor is left to the next level, at which the small values are less blurred.
    if floor > resolution:
        factors_N[values_N <= floor] = 0
    return factors_N


def _map(vectors_NN: Tensor, factors_N: Tensor, small_map_KK: Tensor | None) -> Tensor:
    """V f Vᵀ, where the smallest K directions may have a map instead of factors.

    As X Xᵀ with X = V √f, whose product takes half the operations.
    """
    factors_N = factors_N.to(vectors_NN.dtype)
    if small_map_KK is None:
        return gram((vectors_NN * factors_N.sqrt()).mT)
    count = len(small_map_KK)
    small_NK = vectors_NN[:, :count]
    large_NJ = vectors_NN[:, count:]
    map_NN = gram((large_NJ * factors_N[count:].sqrt()).mT)
    add_product_(map_NN, times(small_NK, small_map_KK), small_NK.mT)
    return map_NN


def _of_small(
    small_KC: Tensor,
    blurred_K: Tensor,
    resolution: float,
    floor: float,
    allowed: float,
    levels: int,
) -> _FourthRoot | None:
    """F of the K smallest directions of a level.

    ``blurred_K``: their singular values by the level's eigenvalues, where any up to ``resolution``
    may be only rounding, even 0. The rows know better: a single one has its norm as its singular
    value, and several have none larger than their Frobenius norm.

    They get one factor if that is exact enough. A singular value s ≤ τ then becomes s/√τ instead of
    √s. The error of one is at most √τ/4, so ‖δM'‖² is at most K τ/16. The error is also at most √s,
    so ‖δM'‖² is at most the sum of the s. That sum is at most √K times the root of the sum of s².
    Values up to the floor should become 0 instead, which leaves s/√τ.
    """
    count = len(small_KC)
    values_K = torch.linalg.vector_norm(small_KC, dim=1).double()
    norm = float(torch.linalg.vector_norm(values_K))
    if count == 1:
        largest = norm  # τ
        worst = 0.0
    else:
        largest = min(norm, math.hypot(float(blurred_K[-1]), resolution))
        worst = max(largest / 16, floor**2 / largest)
    if largest <= floor:
        factor = 0.0
        error_square = 0.0
    else:
        factor = 1 / math.sqrt(largest)
        error_square = min(count * worst, math.sqrt(count) * norm)
    # At most half of what the other directions leave; separation and rounding also need some.
    if error_square <= (1 - FINISHED_SHARE) / 2 * allowed:
        return _FourthRoot(
            map_NN=None,
            values_N=values_K,
            factors_N=torch.full_like(values_K, factor),
            error_square=error_square,
        )
    if levels == 1:
        return None
    return _fourth_root(small_KC, eigenvectors(gram(small_KC.mT)), floor, allowed, levels - 1)


def _count_of_small(
    squares_N: Tensor, h_squares_N: Tensor, errors_N: Tensor, allowed: float
) -> int:
    """How many of the smallest directions to decompose again, so that the others are allowed."""
    # What ``_separate_`` leaves of a direction j if all smaller ones are separated from it: each of
    # them is turned by about H_ji / λ_j. The sum of the squared turns is the second order: the
    # share of direction j that is wrong. Its singular value in M' is λ_j^¼.
    smaller_count_N = torch.arange(len(h_squares_N), device=h_squares_N.device)
    second_order_N = smaller_count_N * h_squares_N / squares_N.square()
    separation_N = second_order_N.square() * squares_N.sqrt()
    # The error of the largest direction, of the two largest, and so on.
    sums_N = (errors_N + SEPARATION_SAFETY * separation_N).flip(0).cumsum(0)
    allowed_count = int((sums_N <= allowed).sum())
    return len(sums_N) - allowed_count


def _separate_(rows_NC: Tensor, vectors_NN: Tensor, squares_N: Tensor, count: int) -> float:
    """Rotate the ``count`` smallest directions and the others, so that H_ji = 0 between them.

    That holds to first order. Returns an estimate of ‖δM'‖² for the second order, by the formula
    that ``_count_of_small`` explains. Pairs of nearly equal eigenvalues are not separated entirely,
    but they do no harm.
    """
    small_NK = vectors_NN[:, :count]
    large_NJ = vectors_NN[:, count:]
    squares_J = squares_N[count:, None]
    gaps_JK = squares_J - squares_N[None, :count]
    products_NK = times(rows_NC, times(small_NK.mT, rows_NC).mT)
    rotation_JK = times(large_NJ.mT, products_NK)
    rotation_JK /= torch.maximum(gaps_JK, squares_J / 2).to(rotation_JK.dtype)
    add_product_(small_NK, large_NJ, rotation_JK, -1.0)
    add_product_(large_NJ, small_NK, rotation_JK.mT)
    second_order_J = rotation_JK.square().sum(dim=1, dtype=torch.float64)
    return float((second_order_J.square() * squares_J[:, 0].sqrt()).sum())


def _pair_errors(squares_N: Tensor, factors_N: Tensor, h_squares_N: Tensor) -> Tensor:
    """Σ_j H_ji² f[λ_i, λ_j]² (λ_i + λ_j) over j ≥ i, for every i.

    These are the terms of ‖δM'‖², where a pair (i, j) and its reverse are one term. A pair i = j
    has λ_i + λ_i instead of λ_i, so it counts twice, which only makes the estimate larger. Where
    two eigenvalues are nearly equal, f[λ_i, λ_j] is the slope of f. ``squares_N``: the λ;
    ``factors_N``: f of them; ``h_squares_N``: the mean of H_ji² of each j.
    """
    slopes_N = torch.where(squares_N > 0, factors_N / squares_N / 4, 0)  # without its sign
    errors_N = torch.zeros_like(squares_N)
    for start in range(0, len(squares_N), ROWS_AT_A_TIME):
        rows = slice(start, start + ROWS_AT_A_TIME)  # j
        columns = slice(0, start + ROWS_AT_A_TIME)  # i, up to the last j; ``tril`` leaves i ≤ j
        gaps_AB = squares_N[rows, None] - squares_N[columns]
        differences_AB = factors_N[rows, None] - factors_N[columns]
        is_close_AB = gaps_AB.abs() <= EQUAL_SHARE * squares_N[columns]
        quotients_AB = torch.where(is_close_AB, slopes_N[columns], differences_AB / gaps_AB)
        terms_AB = quotients_AB.square() * (squares_N[rows, None] + squares_N[columns])
        terms_AB *= h_squares_N[rows, None]
        # The first row, that of j = start, has its last pair in column ``start``.
        errors_N[columns] += terms_AB.tril(start).sum(dim=0)
    return errors_N
