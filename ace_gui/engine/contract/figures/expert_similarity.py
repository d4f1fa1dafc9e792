"""Which experts agree: cosines of their task vectors, per layer and over the model.

Plain NumPy, so that the window can sum up the layers itself. T experts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ace_gui.engine.contract.figures.findings import LayerStatistics


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
