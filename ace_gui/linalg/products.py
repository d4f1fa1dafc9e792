"""Sums of matrix products, of one matrix or of a batch of B of one shape. N rows, M columns.

A batch goes to a GPU as a whole, since one small matrix leaves most of it idle. A batch of one goes
as the matrix that it is: what libraries do for batches gains a processor nothing, and may cost.

On processors that are not Intel's, products in float32 that torch would give to MKL go to oneDNN
(``unpublished``): MKL leaves the wide registers of other makers' processors alone, which is half
the speed on an AMD EPYC with AVX-512. On an Intel Xeon both are as fast, and a Gram matrix by MKL,
which adds to a sum by itself, takes two thirds of the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import torch
from torch import Tensor

from ace_gui.linalg.split import add_split_product_, splitting
from ace_gui.linalg.unpublished import LINEAR

PIECE: Final = 1536
"""Rows and columns of a product that oneDNN makes at a time: it cannot add to a sum by itself."""

Factor = float | Sequence[float]
"""A factor for all matrices, or one for each of the batch."""


def add_product_(sum_NM: Tensor, left_NK: Tensor, right_KM: Tensor, alpha: Factor = 1.0) -> None:
    """Add ``alpha`` · left right to the sum; all three are matrices or batches of B of them.

    Where the matrices of a batch have factors of their own, ``left`` is copied.
    """
    if isinstance(alpha, Sequence):
        alike = len(set(alpha)) == 1
        left_NK = left_NK if alike else left_NK * one_each(alpha, left_NK)
        alpha = alpha[0] if alike else 1.0
    if splitting() and sum_NM.dtype == torch.float64:
        add_split_product_(sum_NM, left_NK, right_KM, alpha)
    elif sum_NM.ndim == 3 and len(sum_NM) > 1:
        sum_NM.baddbmm_(left_NK, right_KM, alpha=alpha)
    elif sum_NM.ndim == 3:
        _add_one_product_(sum_NM[0], left_NK[0], right_KM[0], alpha)
    else:
        _add_one_product_(sum_NM, left_NK, right_KM, alpha)


def _add_one_product_(sum_NM: Tensor, left_NK: Tensor, right_KM: Tensor, alpha: float) -> None:
    if LINEAR is None or not wants_rows(sum_NM) or not (left_NK.numel() and right_KM.numel()):
        sum_NM.addmm_(left_NK, right_KM, alpha=alpha)
        return
    left_NK = left_NK.contiguous()
    for columns in _pieces(sum_NM.shape[1]):
        right_MK = right_KM[:, columns].mT.contiguous()
        for rows in _pieces(sum_NM.shape[0]):
            added_NM = LINEAR(left_NK[rows], right_MK)
            sum_NM[rows, columns].add_(added_NM, alpha=alpha)


def _pieces(size: int) -> Iterator[slice]:
    """Ranges that cover ``size``, so short that what is made on the way takes little memory."""
    for start in range(0, size, PIECE):
        yield slice(start, start + PIECE)


def wants_rows(matrix: Tensor) -> bool:
    """Whether products like this one are taken of rows with rows, each in one piece of memory."""
    single = matrix.dtype == torch.float32 and matrix.device.type == "cpu"
    return single and LINEAR is not None


def product(left_BNK: Tensor, right_BKM: Tensor) -> Tensor:
    """left · right, matrix by matrix."""
    if len(left_BNK) == 1:
        return (left_BNK[0] @ right_BKM[0])[None]
    return torch.bmm(left_BNK, right_BKM)


def one_each(factors: Sequence[float], like_BNM: Tensor) -> Tensor:
    """Factors by which the matrices of a batch can be multiplied (B × 1 × 1).

    No GPU waits for them: one for all is written there, others are copied from pinned memory.
    """
    if len(set(factors)) == 1:
        return like_BNM.new_full((len(factors), 1, 1), factors[0])
    return moved(torch.tensor(factors, dtype=like_BNM.dtype), like_BNM.device)[:, None, None]


def some(batch_BNM: Tensor, places: Sequence[int]) -> Tensor:
    """Some of the matrices of a batch; without a list of places that a GPU would have to wait for.

    All of them in their order are not copied.
    """
    if len(places) == len(batch_BNM):
        return batch_BNM
    return torch.stack([batch_BNM[b] for b in places])


def moved(given: Tensor, device: torch.device) -> Tensor:
    """A tensor of the processor's on the device; a GPU copies it when it comes to it."""
    if device.type == "cuda":
        return given.pin_memory().to(device, non_blocking=True)
    return given.to(device)
