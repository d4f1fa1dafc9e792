"""√s instead of each singular value s, in float32, with a measured error.

M' = F M with F = (M Mᵀ)^(−¼) for the shorter side of M. With eigenvectors V of M Mᵀ and T = Vᵀ M,
T Tᵀ is a diagonal matrix Λ and M' = V Λ^(−¼) T. In float32, H = T Tᵀ − Λ is not zero but about 1e-7
of the largest eigenvalue. To first order, the derivative of a matrix function (Higham, Functions of
Matrices, 2008) says what this does:

    ‖δM'‖²_F = Σ_ij H_ij² f[λ_i, λ_j]² λ_j,   f(λ) = λ^(−¼),   f[λ, μ] = (f(λ) − f(μ)) / (λ − μ).

Products of H with a few random vectors measure it. It hurts the smallest directions most. The
K smallest are therefore separated from the J others by a small rotation, and decomposed again:
T_K T_Kᵀ has no large eigenvalue that blurs the small ones. This is repeated up to ``LEVELS`` times.
Directions that are small enough get one factor instead, and what that costs has a bound.

R rows, C ≥ R columns of M; N = K + J rows of one level, smallest directions first; P random
vectors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from ace_gui.linalg.eigenvectors import eigenvectors
from ace_gui.linalg.passes import energy, times_transposed
from ace_gui.linalg.products import add_product_, full_float32, gram, moved, times

FINEST: Final = 1e-4
"""Smallest limit of the error that is worth a try; float32 seldom reaches a smaller one."""

PROBES: Final = 8
"""Number of random vectors that measure H."""

LEVELS: Final = 4
"""Most decompositions, each of the smallest directions of the one before."""

BUDGET: Final = 0.5
"""Share of the allowed ‖δM'‖² that may come from the directions that one level does not leave."""

RESOLVED: Final = 4e-4
"""Share of the largest singular value below which a level's eigenvalues are only rounding."""

SEPARATED: Final = 1e4
"""Factor on what a separation leaves, to second order: small directions may be far smaller than
their blurred values.
"""

ROWS: Final = 256
"""Rows of a table of all pairs of eigenvalues that are computed at a time."""

CLOSE: Final = 1e-6
"""Eigenvalues nearer than this share count as equal."""

ROUNDED: Final = 1e-5
"""Error that float32's products leave in any case, at most."""

SAFETY: Final = 2.0
"""Factor on the measured error. Over layers of all kinds, the true one was up to 1.7 times it."""


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
class _Directions:
    """A decomposition of N rows, smallest directions first."""

    vectors_NN: Tensor
    """V: eigenvectors of the Gram matrix as columns, float32."""

    turned_NC: Tensor
    """T = Vᵀ · rows, float32."""

    squares_N: Tensor
    """Λ: eigenvalues, at least 0, float64."""


@dataclass(frozen=True, kw_only=True)
class _Rooted:
    """M' before it is scaled, or the part of it in some directions."""

    rows_NC: Tensor
    """V Λ^(−¼) T, float32."""

    values_N: Tensor
    """Singular values of M, float64."""

    factors_N: Tensor
    """Factors of these values."""

    error_square: float
    """Estimate of ‖δM'‖²_F."""


def root_spectrum(matrix_OI: Tensor, floor: float, limit: float) -> RootSpectrum | None:
    """The matrix with √s instead of each singular value s above ``floor``, scaled to its norm.

    The matrix is float32 and not zero. ``limit``: the largest relative error that is allowed. None
    if float32 may not reach it.
    """
    norm = math.sqrt(energy(matrix_OI))
    tall = matrix_OI.shape[0] > matrix_OI.shape[1]
    if tall:
        wide_RC = matrix_OI.mT
    else:
        wide_RC = matrix_OI
    with full_float32():
        # Divided by its norm, so that squares stay in the range of float32.
        directions = _decomposed(wide_RC / norm)
        # The sum of the singular values of M is ‖M'‖².
        allowed = (limit / SAFETY) ** 2 * float(directions.squares_N.sqrt().sum())
        rooted = _rooted(directions, floor / norm, allowed, LEVELS)
    if rooted is None:
        return None
    new_norm = math.sqrt(energy(rooted.rows_NC))
    error = SAFETY * math.sqrt(rooted.error_square) / new_norm + ROUNDED
    if not error <= limit:
        return None
    rooted.rows_NC.mul_(norm / new_norm)
    before_R, order_R = rooted.values_N.sort(descending=True)
    return RootSpectrum(
        matrix_OI=rooted.rows_NC.mT if tall else rooted.rows_NC,
        before_R=before_R * norm,
        after_R=(rooted.values_N * rooted.factors_N)[order_R] * (norm / new_norm),
        error=error,
    )


def _decomposed(rows_NC: Tensor) -> _Directions:
    eigen = eigenvectors(gram(rows_NC.mT))
    return _Directions(
        vectors_NN=eigen.vectors,
        turned_NC=times(eigen.vectors.mT, rows_NC),
        squares_N=eigen.values.double().clamp_(min=0),
    )


def _rooted(directions: _Directions, floor: float, allowed: float, levels: int) -> _Rooted | None:
    """The roots by at most so many ``levels``; None if ‖δM'‖² is more than ``allowed``.

    Overwrites the directions.
    """
    turned_NC = directions.turned_NC
    values_N = directions.squares_N.sqrt()
    smallest = RESOLVED * float(values_N[-1])
    factors_N = values_N.clamp(min=smallest).rsqrt()
    if floor > smallest:
        factors_N[values_N <= floor] = 0
    rows_N = _row_errors(directions, slice(0, None))
    count = _count_of_small(directions.squares_N, factors_N, rows_N, BUDGET * allowed)
    count = max(count, int((values_N <= smallest).sum()))
    if count == len(values_N):
        return None
    rotation_error = _separate_(directions, count)
    of_small_N = _row_errors(directions, slice(0, count))
    small = _of_small(turned_NC[:count], values_N[:count], floor, allowed, levels)
    if small is None:
        return None
    values_N = torch.cat([small.values_N, values_N[count:]])
    factors_N = torch.cat([small.factors_N, factors_N[count:]])
    of_small_N[:count] = 0  # they are counted in ``small``
    across = _pair_errors(values_N.square(), factors_N, of_small_N)[:count].sum()
    within = _pair_errors(values_N.square(), factors_N, rows_N)[count:].sum()
    error_square = small.error_square + rotation_error + float(across + within)
    if not error_square <= allowed:
        return None
    turned_NC[:count] = small.rows_NC
    turned_NC[count:].mul_(factors_N[count:, None].to(turned_NC.dtype))
    return _Rooted(
        rows_NC=times(directions.vectors_NN, turned_NC),
        values_N=values_N,
        factors_N=factors_N,
        error_square=error_square,
    )


def _of_small(
    turned_KC: Tensor, values_K: Tensor, floor: float, allowed: float, levels: int
) -> _Rooted | None:
    """The roots of the K smallest directions of a level, whose ``values_K`` are inexact.

    They get one factor if that is exact enough. A singular value s ≤ τ then becomes s/√τ instead of
    √s. The error is at most √τ/4, and at most √s. The sum of the s is at most √K times the root of
    the sum of s², which is measured.
    """
    count = len(values_K)
    largest = max([0.0, *values_K[-1:].tolist()])
    if largest <= floor:
        factor = 0.0
        bound = 0.0
    else:
        factor = 1 / math.sqrt(largest)
        bound = min(count * largest / 16, math.sqrt(count * energy(turned_KC)))
    if bound <= (1 - BUDGET) / 2 * allowed:
        return _Rooted(
            rows_NC=turned_KC * factor,
            values_N=values_K,
            factors_N=torch.full_like(values_K, factor),
            error_square=bound,
        )
    if levels == 1:
        return None
    return _rooted(_decomposed(turned_KC), floor, allowed, levels - 1)


def _count_of_small(squares_N: Tensor, factors_N: Tensor, rows_N: Tensor, allowed: float) -> int:
    """How many of the smallest directions to decompose again, so that the others are allowed."""
    errors_N = _pair_errors(squares_N, factors_N, rows_N)
    # What ``_separate_`` leaves if all smaller directions are separated from this one.
    smaller_N = torch.arange(len(rows_N), device=rows_N.device)
    errors_N += SEPARATED * (smaller_N * rows_N / squares_N.square()).square() * squares_N.sqrt()
    sums_N = errors_N.flip(0).cumsum(0)
    return len(sums_N) - int((sums_N <= allowed).sum())


def _separate_(directions: _Directions, count: int) -> float:
    """Rotate the ``count`` smallest directions and the others, so that H has nothing of both.

    To first order; returns an estimate of ‖δM'‖² for what this leaves. Pairs of nearly equal
    eigenvalues are not separated entirely, but they do no harm.
    """
    small = slice(0, count)
    large = slice(count, None)
    turned_NC = directions.turned_NC
    vectors_NN = directions.vectors_NN
    squares_J = directions.squares_N[large, None]
    gaps_JK = squares_J - directions.squares_N[None, small]
    mixed_JK = times(turned_NC[large], turned_NC[small].mT)
    mixed_JK /= torch.maximum(gaps_JK, squares_J / 2).to(mixed_JK.dtype)
    add_product_(turned_NC[small], mixed_JK.mT, turned_NC[large], -1.0)
    add_product_(turned_NC[large], mixed_JK, turned_NC[small])
    add_product_(vectors_NN[:, small], vectors_NN[:, large], mixed_JK, -1.0)
    add_product_(vectors_NN[:, large], vectors_NN[:, small], mixed_JK.mT)
    second_order_J = mixed_JK.square().sum(dim=1, dtype=torch.float64)
    return float((second_order_J.square() * squares_J[:, 0].sqrt()).sum())


def _row_errors(directions: _Directions, columns: slice) -> Tensor:
    """The mean of H_ji² over some directions i, for every j, by random vectors.

    An error of V that mixes a large direction j into a small one i is in H_ji; H_ij is small.
    """
    turned_NC = directions.turned_NC
    squares_N = directions.squares_N
    count = len(squares_N[columns])
    if not count:
        return torch.zeros_like(squares_N)
    generator = torch.Generator().manual_seed(0)
    few_PI = torch.randn(PROBES, count, generator=generator, dtype=torch.float64)
    few_PI = moved(few_PI, turned_NC.device)
    products_PN = _on(turned_NC, _on(turned_NC[columns].mT, few_PI))
    products_PN[:, columns] -= few_PI * squares_N[columns]
    return products_PN.square().mean(dim=0) / count


def _pair_errors(squares_N: Tensor, factors_N: Tensor, rows_N: Tensor) -> Tensor:
    """Σ_j H_ji² f[λ_i, λ_j]² (λ_i + λ_j) over j ≥ i, for every i. ``rows_N``: the H_ji² of each j.

    Where two eigenvalues are nearly equal, it has the slope of f.
    """
    slopes_N = torch.where(squares_N > 0, factors_N / squares_N / 4, 0)
    errors_N = torch.zeros_like(squares_N)
    for start in range(0, len(squares_N), ROWS):
        rows = slice(start, start + ROWS)
        smaller = slice(0, start + ROWS)
        gaps_JI = squares_N[rows, None] - squares_N[smaller]
        differences_JI = factors_N[rows, None] - factors_N[smaller]
        is_close_JI = gaps_JI.abs() <= CLOSE * squares_N[smaller]
        quotients_JI = torch.where(is_close_JI, slopes_N[smaller], differences_JI / gaps_JI)
        terms_JI = quotients_JI.square() * (squares_N[rows, None] + squares_N[smaller])
        errors_N[smaller] += (terms_JI * rows_N[rows, None]).tril(start).sum(dim=0)
    return errors_N


def _on(matrix_NM: Tensor, few_PM: Tensor) -> Tensor:
    """The matrix times a few float64 vectors, which are rows (P × N)."""
    return times_transposed(few_PM[None], matrix_NM[None])[0]
