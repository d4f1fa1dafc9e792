"""One pass over a tensor: whether it is finite, its energy, its mean, float64 copies of parts.

B matrices of O outputs and I inputs; N outputs of a slice; P rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import torch
from torch import Tensor

from ace_gui.linalg.products import product

NUMBERS_IN_CACHE: Final = 1 << 18
"""Number of float64 numbers that stay in a processor's cache while they are reused."""


def is_finite(tensor: Tensor) -> bool:
    """Whether no value is NaN or infinite; always true for integers.

    Reads the smallest and largest element in one pass. They are NaN if any element is, and cannot
    overflow as a sum could. ``torch.isfinite(tensor).all()`` takes twenty times as long.
    """
    if tensor.numel() == 0 or not tensor.is_floating_point():
        return True
    low, high = torch.aminmax(tensor)
    return bool(torch.isfinite(low) & torch.isfinite(high))


def energy(delta: Tensor) -> float:
    """‖ΔW‖²_F of a tensor of any shape and real dtype, accumulated in float64."""
    return float(squared_norm(delta))


def squared_norm(delta: Tensor) -> Tensor:
    """``energy`` as a scalar tensor on the same device, without waiting for the device.

    On a processor it works in pieces that fit a cache, as torch makes a float64 copy of its input.
    A transposed matrix is read in its storage order.
    """
    if delta.ndim == 2 and delta.mT.is_contiguous():
        delta = delta.mT
    if delta.device.type == "cpu":
        size = NUMBERS_IN_CACHE
    else:
        size = max(1, delta.numel())
    pieces = torch.split(delta.reshape(-1), size)
    norms = [torch.linalg.vector_norm(piece, dtype=torch.float64) for piece in pieces]
    return torch.stack(norms).square().sum()


def centre_(delta_OI: Tensor) -> Tensor:
    """Subtract from every row the mean row μ over outputs, in place (ACE paper, Eq. 5).

    Turns ΔW into W̃ = ΔW − 1μᵀ, whose columns sum to zero. Returns μ (1 × I). Also for a batch.
    """
    mean_1I = delta_OI.mean(dim=-2, keepdim=True)
    delta_OI.sub_(mean_1I)
    return mean_1I


def in_float64(
    matrix_BOI: Tensor, *, subtracted_B1I: Tensor | None = None
) -> Iterator[tuple[slice, Tensor]]:
    """Slices of consecutive outputs with their float64 copies; float64 input is not copied.

    A slice is small on a processor, and holds all outputs elsewhere. ``subtracted_B1I``: a float64
    row that is subtracted from each output. A matrix without outputs has one slice, an empty one.
    """
    batch, outputs, inputs = matrix_BOI.shape
    if matrix_BOI.device.type == "cpu":
        step = max(1, NUMBERS_IN_CACHE // max(1, batch * inputs))
    else:
        step = max(1, outputs)
    for start in range(0, max(1, outputs), step):
        rows = slice(start, min(start + step, outputs))
        part_BNI = matrix_BOI[:, rows]
        if subtracted_B1I is None:
            double_BNI = part_BNI.to(torch.float64)
        else:
            double_BNI = part_BNI - subtracted_B1I  # float64, as the row is
        yield rows, double_BNI


def norms(matrix_BOI: Tensor) -> Tensor:
    """Frobenius norm of every matrix (B), float64."""
    squares_B = matrix_BOI.new_zeros(len(matrix_BOI), dtype=torch.float64)
    for _, part_BNI in in_float64(matrix_BOI):
        squares_B += torch.linalg.vector_norm(part_BNI, dim=(1, 2)).square()
    return squares_B.sqrt_()


def times_transposed(rows_BPI: Tensor, matrix_BOI: Tensor) -> Tensor:
    """rows · matrixᵀ in float64 (B × P × O), for a few float64 rows."""
    parts = [product(rows_BPI, part_BNI.mT) for _, part_BNI in in_float64(matrix_BOI)]
    return torch.cat(parts, dim=2)
