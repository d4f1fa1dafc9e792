"""Choosing entries by magnitude, within one tensor."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def kept_count(density: float, entries: int) -> int:
    """floor(density · entries), but at least one of any: a small tensor is not emptied."""
    return min(entries, max(1, math.floor(density * entries + 1e-9)))


def smallest(magnitudes: Tensor, rank: int) -> Tensor:
    """The ``rank``-th smallest of the values, counted from 1; of any shape, but not empty."""
    return magnitudes.reshape(-1).kthvalue(rank).values


def trimmed(delta: Tensor, density: float) -> Tensor:
    """The task vector with its largest entries by magnitude; the others are zero.

    All entries as large as the last one kept stay. A density of 1 keeps everything.
    """
    kept = kept_count(density, delta.numel())
    if kept == delta.numel():
        return delta
    magnitudes = delta.abs()
    threshold = smallest(magnitudes, delta.numel() - kept + 1)
    return torch.where(magnitudes >= threshold, delta, 0)
