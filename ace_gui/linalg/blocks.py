"""Symmetric matrices in blocks of columns: only the upper half is computed. N rows.

A matrix product does not exploit that its result is symmetric (numpy's does, see ``products``).
With blocks, the work below the diagonal (nearly half) is skipped. Everything is in place and on the
matrix's own device. Matrices may be batches of B matrices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ace_gui.linalg.products import Factor, add_product_, halves_squares, parts, times

SMALLEST, LARGEST = 96, 192
"""Columns of a block: wide enough for products at full speed, narrow enough to leave work out."""

SMALLEST_ON_GPU, LARGEST_ON_GPU = 256, 512
"""On a GPU they must be wider: each block costs it several launches."""


def blocks(size: int, device: torch.device) -> Iterator[slice]:
    """Consecutive ranges that cover ``size`` rows or columns of a matrix on the device."""
    step = _width(size, on_gpu=device.type == "cuda")
    for start in range(0, size, step):
        yield slice(start, min(start + step, size))


def widest(size: int) -> int:
    """Columns of a block of so many, on whatever device."""
    return max(_width(size, on_gpu=on_gpu) for on_gpu in (False, True))


def _width(size: int, *, on_gpu: bool) -> int:
    least, most = (SMALLEST_ON_GPU, LARGEST_ON_GPU) if on_gpu else (SMALLEST, LARGEST)
    return min(max(size // 8, least), most)


def add_gram_(sum_NN: Tensor, factor_KN: Tensor, *, alpha: Factor = 1.0) -> None:
    """Add ``alpha`` · factorᵀ factor to the upper blocks of a symmetric sum; see ``mirror_``."""
    size = sum_NN.shape[-1]
    steps = parts(size) if halves_squares(factor_KN) else list(blocks(size, sum_NN.device))
    _add_upper_(sum_NN, factor_KN.mT, alpha, steps)


def _add_upper_(sum_NN: Tensor, rows_NK: Tensor, alpha: Factor, steps: list[slice]) -> None:
    """Halve the columns again and again: products as large as they can be are the fastest."""
    if not steps:
        return
    half = len(steps) // 2
    above, lower = steps[:half] or steps, steps[half:]
    rows = slice(above[0].start, above[-1].stop)
    columns = slice(lower[0].start, lower[-1].stop)
    left_NK, right_NK = rows_NK[..., rows, :], rows_NK[..., columns, :]
    add_product_(sum_NN[..., rows, columns], left_NK, right_NK.mT, alpha)
    if half:
        _add_upper_(sum_NN, rows_NK, alpha, above)
        _add_upper_(sum_NN, rows_NK, alpha, lower)


def mirror_(matrix_NN: Tensor) -> Tensor:
    """Copy what is above the diagonal to below it; returns the matrix."""
    for block in blocks(matrix_NN.shape[-1], matrix_NN.device):
        square_NN = matrix_NN[..., block, block]
        square_NN.copy_(square_NN.triu() + square_NN.triu(1).mT)
        matrix_NN[..., block.stop :, block].copy_(matrix_NN[..., block, block.stop :].mT)
    return matrix_NN


def gram(factor_KN: Tensor, *, alpha: Factor = 1.0) -> Tensor:
    """``alpha`` · factorᵀ factor as a new matrix."""
    if factor_KN.ndim == 3 and len(factor_KN) == 1:
        return gram(factor_KN[0], alpha=alpha[0] if isinstance(alpha, Sequence) else alpha)[None]
    if halves_squares(factor_KN) and not isinstance(alpha, Sequence):
        return times(factor_KN.mT, factor_KN).mul_(alpha)
    *batch, _, size = factor_KN.shape
    gram_NN = factor_KN.new_zeros(*batch, size, size)
    add_gram_(gram_NN, factor_KN, alpha=alpha)
    return mirror_(gram_NN)
