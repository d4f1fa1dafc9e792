"""One expert's matrices of B layers of one shape as one tensor (B × O × I)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ace_gui.methods.shared.experts import Experts


def stacked(layers: Sequence[Experts], t: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """w_t ΔW_t of B layers of one shape as a new tensor (B × O × I)."""
    first_OI = layers[0].matrix(t, dtype)
    if len(layers) == 1:
        return first_OI[None]
    stacked_BOI = first_OI.new_empty(len(layers), *first_OI.shape)
    stacked_BOI[0] = first_OI
    del first_OI
    for b, layer in enumerate(layers[1:], start=1):
        stacked_BOI[b] = layer.matrix(t, dtype)
    return stacked_BOI


def stacked_read_only(layers: Sequence[Experts], t: int) -> Tensor:
    """``Experts.read_only_matrix`` of all layers as one tensor (B × O × I), read-only."""
    if len(layers) == 1:
        return layers[0].read_only_matrix(t)[None]
    return torch.stack([layer.read_only_matrix(t) for layer in layers])
