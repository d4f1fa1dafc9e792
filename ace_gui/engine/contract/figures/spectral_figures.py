"""Summary figures of a spectrum. Plain NumPy: the window computes them from the spectra it shows.

Every function takes the R ≥ 1 singular values σ of one matrix, largest first and not negative, and
is defined for the zero matrix. Energy is the squared singular value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

TOP_SHARE: Final = 0.05
"""Share of the directions whose energy ACE's Fig. 2 quotes."""

MARKS: Final = (0.90, 0.95, 0.99)
"""Shares of the energy for which the number of directions is given."""

NEGLIGIBLE: Final = 1e-7
"""Singular values up to this share of the largest are float32 rounding, and not counted."""

Spectrum = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class SpectralFigures:
    """The figures of one spectrum.

    ``rank``: number of singular values above ``NEGLIGIBLE`` of the largest. ``top_energy``: energy
    share of the leading 5 % of the directions. ``directions``: number of directions that hold each
    share of ``MARKS``. ``frobenius``: √(Σ σ_i²); ``nuclear``: Σ σ_i; ``spectral``: σ_1.
    """

    frobenius: float
    nuclear: float
    spectral: float
    rank: int
    condition: float
    effective_rank: float
    stable_rank: float
    top_energy: float
    directions: tuple[int, ...]


def spectral_figures(sigma: Spectrum) -> SpectralFigures:
    """All figures of one spectrum."""
    return SpectralFigures(
        frobenius=float(np.linalg.norm(sigma)),
        nuclear=float(sigma.sum()),
        spectral=float(sigma[0]),
        rank=numerical_rank(sigma),
        condition=condition_number(sigma),
        effective_rank=effective_rank(sigma),
        stable_rank=stable_rank(sigma),
        top_energy=top_energy(sigma),
        directions=tuple(directions_for(sigma, share) for share in MARKS),
    )


def numerical_rank(sigma: Spectrum) -> int:
    """The number of singular values above ``NEGLIGIBLE`` of the largest."""
    return int((sigma > NEGLIGIBLE * sigma[0]).sum())


def condition_number(sigma: Spectrum) -> float:
    """σ_1 divided by the smallest singular value above ``NEGLIGIBLE``; NaN for the zero matrix.

    Without that limit it would be infinite for every solution of ACE with O ≤ I: their columns have
    no mean, so that one direction is empty.
    """
    rank = numerical_rank(sigma)
    return float(sigma[0] / sigma[rank - 1]) if rank else math.nan


def effective_rank(sigma: Spectrum) -> float:
    """exp(−Σ p_i ln p_i), p_i = σ_i / Σ σ: between 1 and R; 0 for the zero matrix.

    The entropy definition of O. Roy, M. Vetterli, The effective rank, EUSIPCO 2007.
    """
    if sigma[0] == 0:
        return 0.0
    share = sigma[sigma > 0] / sigma.sum()
    return math.exp(-float(share @ np.log(share)))


def stable_rank(sigma: Spectrum) -> float:
    """‖W‖_F² / ‖W‖_2²: between 1 and R; 0 for the zero matrix."""
    return float(((sigma / sigma[0]) ** 2).sum()) if sigma[0] else 0.0


def top_energy(sigma: Spectrum) -> float:
    """Energy share of the leading 5 % of the directions; NaN for the zero matrix."""
    return float(cumulative_energy(sigma)[leading(len(sigma)) - 1])


def leading(directions: int) -> int:
    """⌈0.05 · directions⌉, at least 1.

    The product 0.05 · 140 rounds to more than 7, but counts as 7.
    """
    return max(1, math.ceil(TOP_SHARE * directions - 1e-9))


def cumulative_energy(sigma: Spectrum) -> Spectrum:
    """Energy share of the leading 1, 2, … R directions; NaN for the zero matrix."""
    if sigma[0] == 0:
        return np.full(len(sigma), np.nan)
    sums: Spectrum = np.cumsum((sigma / sigma[0]) ** 2)
    shares: Spectrum = sums / sums[-1]
    return shares


def directions_for(sigma: Spectrum, share: float) -> int:
    """The fewest leading directions that hold at least this share of the energy, 0 < share ≤ 1.

    0 for the zero matrix.
    """
    if sigma[0] == 0:
        return 0
    return int(np.searchsorted(cumulative_energy(sigma), share)) + 1
