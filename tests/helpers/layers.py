"""The layers of a plot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ace_gui.gui.models.layer_figures import LayerFigures


def layer_figures(
    names: Sequence[str],
    roles: Sequence[str],
    blocks: Sequence[int | None],
    *,
    gamma: Any = np.nan,
    energies: Any = np.nan,
) -> LayerFigures:
    """Layers with a figure for each or one for all; their mean logs are far from γ's pole."""
    count = len(names)
    return LayerFigures(
        names=tuple(names),
        roles=tuple(roles),
        blocks=tuple(blocks),
        gamma_L=np.full(count, gamma),
        mean_log_L=np.full(count, -5.0),
        energies_LT=np.full((count, 2), energies),
    )
