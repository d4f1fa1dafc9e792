"""√s instead of each singular value s, in float32, with a measured error.

M' = F M with F = (M Mᵀ)^(−¼) for the shorter side of M, by an eigen-decomposition U Λ Uᵀ of the
Gram matrix. This is exact for M Mᵀ − H, where ‖H‖ is about 1e-7 of the largest eigenvalue. Rounding
prefers no direction. To first order, the derivative of a matrix function says what such an H does:

    ‖δM'‖²_F = ‖H‖²_F / R² · Σ_ij f[λ_i, λ_j]² λ_j,   f[λ, μ] = (f(λ) − f(μ)) / (λ − μ).

Exact products H z with a few random vectors measure ‖H‖_F (Higham, Functions of Matrices, 2008, has
the derivative). Below ``RESOLVED`` all directions get one factor, and what that costs has a bound.

R rows, C ≥ R columns, P random vectors z.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from ace_gui.linalg.passes import energy, times_transposed
from ace_gui.linalg.products import full_float32, gram, moved, times

PROBES: Final = 8
"""Number of random vectors that measure the error of the Gram matrix."""

EXPECTED: Final = 3e-9
"""Error of M' where 16-bit rounding fills all directions: this times R · ‖M‖² / rounding², about.
"""

RESOLVED: Final = 4e-4
"""Share of the largest singular value below which float32's Gram matrix holds only rounding."""

SQUARE: Final = 16.0
"""How much larger the error of a square matrix is than that of a long one, about."""

ROWS: Final = 256
"""Rows of a table of all pairs of eigenvalues that are computed at a time."""

CLOSE: Final = 1e-6
"""Eigenvalues nearer than this share count as equal."""

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


def worth_trying(norm: float, rounding: float, shape: tuple[int, int], limit: float) -> bool:
    """Whether float32 is probably exact enough for a matrix of this norm.

    ``rounding``: the norm of the rounding that it carries; ``limit``: largest relative error. The
    nearer a matrix of noise is to a square one, the smaller its smallest singular values.
    """
    if not rounding or not norm:
        return False
    rows, columns = sorted(shape)
    squareness = 1 / max(1 - math.sqrt(rows / columns), 1 / SQUARE)
    return EXPECTED * squareness * rows * (norm / rounding) ** 2 <= limit


def root_spectrum(matrix_OI: Tensor, floor: float) -> RootSpectrum:
    """The matrix with √s instead of each singular value s above ``floor``, scaled to its norm.

    The matrix is float32 and not zero.
    """
    norm = math.sqrt(energy(matrix_OI))
    tall = matrix_OI.shape[0] > matrix_OI.shape[1]
    # Divided by its norm, so that squares stay in the range of float32.
    if tall:
        wide_RC = matrix_OI.mT / norm
    else:
        wide_RC = matrix_OI / norm
    with full_float32():
        squares_R, vectors_RR = torch.linalg.eigh(gram(wide_RC.mT))
        squares_R = squares_R.double().clamp_(min=0)
        values_R = squares_R.sqrt()
        smallest = RESOLVED * float(values_R[-1])
        factors_R = values_R.clamp(min=smallest).rsqrt()
        if floor > smallest * norm:
            factors_R[values_R <= floor / norm] = 0
        root_RR = times(vectors_RR * factors_R.to(vectors_RR.dtype), vectors_RR.mT)
        rooted_RC = times(root_RR, wide_RC)
        del root_RR
    error = _error(wide_RC, squares_R, vectors_RR, factors_R, smallest)
    rooted_norm = math.sqrt(energy(rooted_RC))
    rooted_RC.mul_(norm / rooted_norm)
    return RootSpectrum(
        matrix_OI=rooted_RC.mT if tall else rooted_RC,
        before_R=values_R.flip(0) * norm,
        after_R=(values_R * factors_R).flip(0) * (norm / rooted_norm),
        error=SAFETY * error / rooted_norm,
    )


def _error(
    wide_RC: Tensor, squares_R: Tensor, vectors_RR: Tensor, factors_R: Tensor, smallest: float
) -> float:
    """‖δM'‖_F before it is scaled. ``smallest``: the smallest resolved singular value."""
    rows = len(squares_R)
    generator = torch.Generator().manual_seed(0)
    probes_PR = torch.randn(PROBES, rows, generator=generator, dtype=torch.float64)
    probes_PR = moved(probes_PR, wide_RC.device)
    exact_PR = _on(wide_RC, _on(wide_RC.mT, probes_PR))
    computed_PR = _on(vectors_RR, _on(vectors_RR.mT, probes_PR) * squares_R)
    # H z of a random vector z has the norm ‖H‖_F in the root mean square.
    norm_of_error = float((exact_PR - computed_PR).norm()) / math.sqrt(PROBES)
    blurred_R = (squares_R <= smallest**2) & (factors_R > 0)
    blurred_square = _blurred(wide_RC, vectors_RR[:, blurred_R], smallest)
    slopes_R = factors_R / squares_R.clamp(min=smallest**2) / 4
    slopes_R[squares_R <= smallest**2] = 0
    sensitivity = _sensitivity(squares_R, factors_R, slopes_R)
    return math.sqrt((norm_of_error / rows) ** 2 * sensitivity + blurred_square)


def _sensitivity(squares_R: Tensor, factors_R: Tensor, slopes_R: Tensor) -> float:
    """Σ_ij f[λ_i, λ_j]² λ_j, with the slope of f where two eigenvalues are nearly equal."""
    total = 0.0
    steps = zip(torch.split(squares_R, ROWS), torch.split(factors_R, ROWS), strict=True)
    for squares_N, factors_N in steps:
        gaps_NR = squares_N[:, None] - squares_R
        differences_NR = factors_N[:, None] - factors_R
        close_NR = gaps_NR.abs() <= CLOSE * squares_R
        quotients_NR = torch.where(close_NR, slopes_R, differences_NR / gaps_NR)
        total += float((quotients_NR.square() * squares_R).sum())
    return total


def _blurred(wide_RC: Tensor, vectors_RK: Tensor, smallest: float) -> float:
    """A bound on ‖δM'‖²_F of K directions that have the factor of the smallest resolved value τ.

    A singular value s ≤ τ becomes s/√τ instead of √s. The error is at most √τ/4, and at most √s.
    The sum of the s is at most √K times the root of the sum of s², which is measured.
    """
    count = vectors_RK.shape[1]
    if not count:
        return 0.0
    within_KC = times(vectors_RK.mT, wide_RC)
    return min(count * smallest / 16, math.sqrt(count * energy(within_KC)))


def _on(matrix_NM: Tensor, few_PM: Tensor) -> Tensor:
    """The matrix times a few float64 vectors, which are rows (P × N)."""
    return times_transposed(few_PM[None], matrix_NM[None])[0]
