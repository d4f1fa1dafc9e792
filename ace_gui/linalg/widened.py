"""Going through a matrix in float64 without a copy of it. B matrices of O outputs, I inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import torch
from torch import Tensor

from ace_gui.linalg.products import product

CACHED: Final = 1 << 18
"""Float64 numbers that stay in a processor's cache while they are used several times."""


def widened(matrix_BOI: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Consecutive outputs, and these in float64; what is in float64 already is not copied.

    Few at a time on a processor, all at once elsewhere.
    """
    layers, outputs, inputs = matrix_BOI.shape
    step = outputs
    if matrix_BOI.device.type == "cpu":
        step = max(1, CACHED // max(1, layers * inputs))
    for start in range(0, max(1, outputs), max(1, step)):
        rows = slice(start, min(start + step, outputs))
        yield rows, matrix_BOI[:, rows].to(torch.float64)


def times_transposed(few_BPI: Tensor, matrix_BOI: Tensor) -> Tensor:
    """few · matrixᵀ in float64 (B × P × O), for a few rows in float64."""
    parts = [product(few_BPI, part_BNI.mT) for _, part_BNI in widened(matrix_BOI)]
    return torch.cat(parts, dim=2)
