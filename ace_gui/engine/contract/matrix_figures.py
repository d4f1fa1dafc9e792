"""Figures of matrices: how alike the experts' task vectors are, and the figures of a spectrum.

Plain NumPy, so that the window can compute them from what it shows. T experts.

A spectrum has the R ≥ 1 singular values σ of one matrix, largest first and not negative. Its
figures are defined for the zero matrix, too. Energy is the squared singular value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ace_gui.engine.contract.findings import LayerStatistics


def cosines_of(gram_TT: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cosines from inner products, T × T; NaN for a task vector without change."""
    norms_T = np.sqrt(gram_TT.diagonal())
    return _ratios(gram_TT, np.outer(norms_T, norms_T))


def model_cosines(layers: Iterable[LayerStatistics], experts: Sequence[str]) -> NDArray[np.float64]:
    """Cosines of the experts' task vectors over all layers that both have, T × T.

    Inner products and energies are summed over the layers that both experts have. NaN for two
    experts without a common layer, for one without change, and for one with weight 0 in the recipe.
    """
    index = {name: t for t, name in enumerate(experts)}
    products_TT, squares_TT = np.zeros((2, len(experts), len(experts)))
    for layer in layers:
        if layer.cosines is None:
            continue
        chosen = [index[name] for name in layer.energies]
        energy_T = np.fromiter(layer.energies.values(), np.float64, len(chosen))
        norms_T = np.sqrt(energy_T)
        cell = np.ix_(chosen, chosen)
        products_TT[cell] += np.nan_to_num(layer.cosines) * np.outer(norms_T, norms_T)
        squares_TT[cell] += energy_T[:, None]  # the row's expert, in the column's layers
    return _ratios(products_TT, np.sqrt(squares_TT * squares_TT.T))


def _ratios(products_TT: NDArray[np.float64], scale_TT: NDArray[np.float64]) -> NDArray[np.float64]:
    cosines_TT = np.full(products_TT.shape, np.nan)
    np.divide(products_TT, scale_TT, out=cosines_TT, where=scale_TT > 0)
    return cosines_TT.clip(-1, 1)


TOP_SHARE: Final = 0.05
"""Share of the directions whose energy ACE's Fig. 2 quotes."""

MARKS: Final = (0.90, 0.95, 0.99)
"""Shares of the energy for which the number of directions is given."""

NEGLIGIBLE: Final = 1e-7
"""Singular values up to this share of the largest are float32 rounding, and not counted."""

Spectrum = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class SpectralFigures:
    """The figures of one spectrum."""

    frobenius: float
    """√(Σ σ_i²)."""
    nuclear: float
    """Σ σ_i."""
    spectral: float
    """σ_1."""
    rank: int
    """Number of singular values above ``NEGLIGIBLE`` of the largest."""
    condition: float
    """σ_1 divided by the smallest of these."""
    effective_rank: float
    """The exponential of the entropy of the σ_i as shares of their sum."""
    stable_rank: float
    """Σ σ_i² / σ_1²."""
    top_energy: float
    """Energy share of the leading 5 % of the directions."""
    directions: tuple[int, ...]
    """Number of directions that hold each share of ``MARKS``."""


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


INVISIBLE: Final = 1e-3
"""Largest share by which two values on a logarithmic axis differ and look equal."""


def look_equal(first: Spectrum, second: Spectrum) -> bool:
    """Whether the curves of two spectra lie on each other; the shorter one ends with zeros."""
    count = max(len(first), len(second))
    long, other = (np.pad(values, (0, count - len(values))) for values in (first, second))
    rounding = NEGLIGIBLE * float(long.max(initial=0.0))
    return bool(np.allclose(long, other, rtol=INVISIBLE, atol=rounding))


def numerical_rank(sigma: Spectrum) -> int:
    """The number of singular values above ``NEGLIGIBLE`` of the largest."""
    return int((sigma > NEGLIGIBLE * sigma[0]).sum())


def condition_number(sigma: Spectrum) -> float:
    """σ_1 divided by the smallest singular value above ``NEGLIGIBLE``; NaN for the zero matrix.

    Without that limit it would be infinite for every solution of ACE with O ≤ I: their columns have
    no mean, so that one direction is empty.
    """
    rank = numerical_rank(sigma)
    if rank:
        return float(sigma[0] / sigma[rank - 1])
    return math.nan


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
    if sigma[0]:
        return float(((sigma / sigma[0]) ** 2).sum())
    return 0.0


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
