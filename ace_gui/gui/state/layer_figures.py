"""Figures of many layers as arrays, and what follows from them.

L layers, T experts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class LayerFigures:
    """The merged layers in the model's order; NaN stands for what is not known.

    ``gamma_L``: heterogeneity. ``mean_log_L``: mean over the experts of ln ‖ΔW_t‖²_F.
    ``energies_LT``: ‖ΔW_t‖²_F; zero where an expert has no such tensor or did not change it.
    """

    names: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    blocks: tuple[int | None, ...] = ()
    experts: tuple[str, ...] = ()
    gamma_L: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    mean_log_L: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    energies_LT: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))


def near_pole(
    gamma: NDArray[np.float64], mean_log: NDArray[np.float64], tau: float
) -> NDArray[np.bool_]:
    """Where γ exceeds τ although the experts' log energies hardly differ.

    γ = Var(ln E) / mean(ln E)²: where the variance alone is at most τ, it is the mean near zero
    (norms near one) that lifts γ, and multiplying all task vectors by one factor would change the
    regime. The health of a layer (``engine.health.near_pole``) has the same rule.
    """
    return (gamma > tau) & (gamma * mean_log**2 <= tau)
