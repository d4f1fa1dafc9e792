"""Least squares of a merged model's change in the experts' changes, from their inner products.

``T``: experts. With the Gram matrix G of the experts' changes Δ_t and their products b with the
merged change Δ, the rest of a combination α has the energy ‖Δ‖² − 2 α·b + αᵀGα. Sums are in
float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

import numpy as np
from numpy.typing import NDArray

Shares = NDArray[np.float64]

_EXACT: Final = 1e-13
"""Eigenvalues of a Gram matrix, relative to the largest, that are only rounding in float64."""

_NOISE: Final = 4.0
"""By how much a direction of the experts' changes must exceed their rounding, in energy."""

CLOSE: Final = 0.01
"""The share of a change by which it may miss a combination."""


@dataclass(frozen=True, kw_only=True)
class ChangeProducts:
    """Inner products of the changes of one tensor, or of several together."""

    gram_TT: NDArray[np.float64]
    """⟨Δ_s, Δ_t⟩."""

    products_T: Shares
    """⟨Δ_t, Δ⟩."""

    energy: float
    """‖Δ‖²."""

    base_energy: float
    """‖W₀‖²."""

    rounding: float
    """Energy of the rounding of the merged tensor's format, times the roundings on its way."""

    rounding_T: Shares
    """Energy of the rounding of each expert's format; 0 for an adapter."""

    def __add__(self, second: ChangeProducts) -> ChangeProducts:
        return ChangeProducts(
            gram_TT=self.gram_TT + second.gram_TT,
            products_T=self.products_T + second.products_T,
            energy=self.energy + second.energy,
            base_energy=self.base_energy + second.base_energy,
            rounding=self.rounding + second.rounding,
            rounding_T=self.rounding_T + second.rounding_T,
        )

    @property
    def is_zero(self) -> bool:
        """Whether neither the merged model nor an expert changes anything."""
        return self.energy == 0 and not self.gram_TT.any()

    def fitted(self) -> Shares:
        """The combination with the smallest rest; the shortest one where changes are collinear.

        Changes count as collinear where they differ only by the rounding of their files.
        """
        values, vectors = np.linalg.eigh(self.gram_TT)
        noise = _NOISE * (vectors**2).T @ self.rounding_T
        limit = np.maximum(noise, _EXACT * max(values[-1], 0.0))
        is_regular = values > limit
        inverse = np.zeros_like(values)
        inverse[is_regular] = 1 / values[is_regular]
        return vectors @ (inverse * (vectors.T @ self.products_T))

    def rest(self, shares_T: Shares) -> float:
        """The energy that a combination leaves over."""
        with_merged = float(shares_T @ self.products_T)
        combined = float(shares_T @ self.gram_TT @ shares_T)
        return max(0.0, self.energy - 2 * with_merged + combined)

    def explained(self, shares_T: Shares) -> float:
        """The energy of a rest that rounding explains."""
        in_float64 = _EXACT * (self.energy + shares_T @ self.gram_TT @ shares_T)
        return float(self.rounding + shares_T**2 @ self.rounding_T + in_float64)

    def left_over(self, shares_T: Shares) -> float:
        """‖rest‖ / ‖change‖; 0 where rounding explains the rest, or nothing changed."""
        remainder = self.rest(shares_T)
        if remainder <= self.explained(shares_T) or not self.energy:
            return 0.0
        return float(np.sqrt(remainder / self.energy))

    def agrees(self, shares_T: Shares) -> bool:
        """Whether the merged change is this combination, but for rounding and a hundredth."""
        combined = float(shares_T @ self.gram_TT @ shares_T)
        allowed = CLOSE**2 * max(self.energy, combined)
        return self.rest(shares_T) <= self.explained(shares_T) + allowed


def common_shares(tensors: Sequence[ChangeProducts], total: ChangeProducts) -> Shares | None:
    """The combination that most of the tensors are, the plainest one; None if there is none.

    One that is forgotten in a few tensors spoils the best combination over all. So the base, single
    experts, their sum, their mean, and the medians over the tensors are tried as well.
    """
    changed = [products for products in tensors if not products.is_zero]
    fitted = total.fitted()
    if not changed:
        return np.zeros_like(fitted)
    fits = [products.fitted() for products in changed]
    medians = np.array([median(column) for column in zip(*fits, strict=True)])
    count = len(fitted)
    plainest = [np.zeros(count), *np.eye(count), np.full(count, 1 / count), np.ones(count)]
    rounded = [np.round(medians, 2), np.round(fitted, 2)]
    best = None
    most = len(changed) / 2
    for group in (plainest, rounded, [medians, fitted]):
        group.sort(key=lambda shares: float(np.linalg.norm(shares - fitted)))
        for shares in group:
            agreeing = sum(products.agrees(shares) for products in changed)
            if agreeing > most or (agreeing == most and best is None):
                best = shares
                most = agreeing
    return best
