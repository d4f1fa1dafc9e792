"""Other singular values for a matrix: fewer of them, or their powers. O outputs, I inputs.

With M = U S Vᵀ, R = min(O, I) and C = max(O, I), U f(S) Vᵀ is U diag(f(s) / s) Uᵀ M: the
eigenvectors of the Gram matrix on the smaller side are enough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from ace_gui.linalg.blocks import gram
from ace_gui.linalg.products import times

COLUMNS: Final = 1024
"""Columns of the matrix that are multiplied at a time, so that it needs no second copy."""

UNRESOLVED: Final = 1e-7
"""Singular values up to this share of the largest may be rounding of the Gram matrix."""

_DECOMPOSITION: Final = 9.0
"""Operations of an eigen-decomposition with vectors by R³: the usual count."""


@dataclass(frozen=True, kw_only=True)
class Shaped:
    """``matrix_OI``: float64. ``before_R``, ``after_R``: its singular values, the largest first."""

    matrix_OI: Tensor
    before_R: Tensor
    after_R: Tensor


def directions(share: float, shape: tuple[int, ...]) -> int:
    """floor(share · min(O, I)), but at least one."""
    return max(1, math.floor(share * min(shape) + 1e-9))


def shape_(matrix_OI: Tensor, *, share: float, power: float, noise: float) -> Shaped:
    """The matrix with only its leading ``directions``, and s^power instead of each s.

    The powers are scaled so that the Frobenius norm of the leading directions is unchanged. A power
    below 1 would amplify rounding, so a singular value up to ``noise_floor`` counts as 0.
    ``noise``: Frobenius norm of the error of the matrix. ``power`` ≥ 0. Overwrites a float64
    matrix.
    """
    wide_RC = matrix_OI.to(torch.float64)
    tall = wide_RC.shape[0] > wide_RC.shape[1]
    wide_RC = wide_RC.mT if tall else wide_RC
    squares_R, vectors_RR = torch.linalg.eigh(gram(wide_RC.mT))
    values_R = squares_R.clamp_(min=0).sqrt_()
    dropped_R = torch.arange(len(values_R), 0, -1, device=values_R.device)
    dropped_R = dropped_R > directions(share, wide_RC.shape)
    factors_R = _factors(values_R, dropped_R, power, noise_floor(noise, wide_RC.shape))
    moving_RR = times(vectors_RR * factors_R, vectors_RR.mT)
    del vectors_RR
    for start in range(0, wide_RC.shape[1], COLUMNS):
        part = wide_RC[:, start : start + COLUMNS]
        part.copy_(times(moving_RR, part))
    return Shaped(
        matrix_OI=wide_RC.mT if tall else wide_RC,
        before_R=values_R.flip(0),
        after_R=(values_R * factors_R).flip(0),
    )


def noise_floor(noise: float, shape: tuple[int, ...]) -> float:
    """The largest singular value of a random O × I matrix of that Frobenius norm, about."""
    return noise * sum(1 / math.sqrt(size) for size in shape)


def shaping_numbers(shape: tuple[int, ...]) -> float:
    """How many float64 numbers ``shape_`` holds at once, LAPACK's own included."""
    small, large = sorted(shape)
    return small * large + 4.0 * small**2 + small * min(large, COLUMNS)


def shaping_flops(shape: tuple[int, ...]) -> float:
    """Arithmetic operations of ``shape_``, about."""
    small, large = sorted(shape)
    return _DECOMPOSITION * small**3 + 3.0 * small**2 * large


def _factors(values_R: Tensor, dropped_R: Tensor, power: float, floor: float) -> Tensor:
    """By what each left singular vector's share is multiplied. Singular values in any order."""
    largest = values_R.max()
    left_R = values_R.masked_fill(dropped_R, 0.0)
    if power < 1:
        dropped_R = dropped_R | (values_R <= (UNRESOLVED * largest).clamp(min=floor))
    factors_R = (values_R / largest).masked_fill(dropped_R, 1.0) ** (power - 1)
    factors_R.masked_fill_(dropped_R | (largest == 0), 0.0)
    if power == 1:
        return factors_R
    norm = torch.linalg.vector_norm
    made = norm(values_R * factors_R)
    return factors_R * torch.where(made > 0, norm(left_R) / made, 1.0)
