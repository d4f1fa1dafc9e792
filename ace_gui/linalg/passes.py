"""One pass over a tensor: is it finite, its energy, its mean, its float64 copies part by part.

B matrices of O outputs, I inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import torch
from torch import Tensor

from ace_gui.linalg.products import product

CACHED: Final = 1 << 18
"""Float64 numbers that stay in a processor's cache while they are used several times."""


def is_finite(tensor: Tensor) -> bool:
    """Whether no value is NaN or infinite; always true for integers.

    One pass: the smallest and the largest element are NaN if any is, and cannot overflow as a sum
    could. ``torch.isfinite(tensor).all()`` takes twenty times as long.
    """
    if tensor.numel() == 0 or not tensor.is_floating_point():
        return True
    low, high = torch.aminmax(tensor)
    return bool(torch.isfinite(low) & torch.isfinite(high))


def energy(delta: Tensor) -> float:
    """‖ΔW‖²_F of a tensor of any shape and real dtype, accumulated in float64."""
    return float(squared_norm(delta))


def squared_norm(delta: Tensor) -> Tensor:
    """``energy`` as a tensor without dimensions on the tensor's device, which nothing waits for.

    A processor takes pieces that a cache holds, as torch makes a float64 copy of what it is given.
    A transposed matrix is read as it is stored.
    """
    if delta.ndim == 2 and delta.mT.is_contiguous():
        delta = delta.mT
    size = CACHED if delta.device.type == "cpu" else max(1, delta.numel())
    pieces = torch.split(delta.reshape(-1), size)
    norms = [torch.linalg.vector_norm(piece, dtype=torch.float64) for piece in pieces]
    return torch.stack(norms).square().sum()


def centre_(delta_OI: Tensor) -> Tensor:
    """Subtract from every row the mean row μ over outputs, in place (ACE paper, Eq. 5).

    Returns μ (1 × I). Also for a batch.

    Turns ΔW into W̃ = ΔW − 1μᵀ, whose columns sum to zero.
    """
    mean_1I = delta_OI.mean(dim=-2, keepdim=True)
    delta_OI.sub_(mean_1I)
    return mean_1I


def widened(matrix_BOI: Tensor, *, less: Tensor | None = None) -> Iterator[tuple[slice, Tensor]]:
    """Consecutive outputs, and their float64 copies; float64 input is not copied.

    Few at a time on a processor, all at once elsewhere. ``less``: a row to subtract from all of
    them (B × 1 × I, float64).
    """
    layers, outputs, inputs = matrix_BOI.shape
    step = outputs
    if matrix_BOI.device.type == "cpu":
        step = max(1, CACHED // max(1, layers * inputs))
    for start in range(0, max(1, outputs), max(1, step)):
        rows = slice(start, min(start + step, outputs))
        part_BNI = matrix_BOI[:, rows]
        yield rows, part_BNI.to(torch.float64) if less is None else part_BNI - less


def norms(matrix_BOI: Tensor) -> Tensor:
    """Frobenius norm of every matrix (B), float64."""
    squares_B = matrix_BOI.new_zeros(len(matrix_BOI), dtype=torch.float64)
    for _, part_BNI in widened(matrix_BOI):
        squares_B += torch.linalg.vector_norm(part_BNI, dim=(1, 2)).square()
    return squares_B.sqrt_()


def times_transposed(few_BPI: Tensor, matrix_BOI: Tensor) -> Tensor:
    """few · matrixᵀ in float64 (B × P × O), for a few rows in float64."""
    parts = [product(few_BPI, part_BNI.mT) for _, part_BNI in widened(matrix_BOI)]
    return torch.cat(parts, dim=2)
