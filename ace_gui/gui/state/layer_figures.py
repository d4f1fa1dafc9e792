"""Figures of many layers as arrays.

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
