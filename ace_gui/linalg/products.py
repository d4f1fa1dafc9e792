"""Sums of matrix products, of one matrix or of a batch of B of one shape. N rows, M columns.

A batch goes to a GPU as a whole, since one small matrix leaves most of it idle. A batch of one goes
as the matrix that it is: what libraries do for batches gains a processor nothing, and may cost.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

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
    if sum_NM.ndim == 2:
        sum_NM.addmm_(left_NK, right_KM, alpha=alpha)
    elif len(sum_NM) == 1:
        sum_NM[0].addmm_(left_NK[0], right_KM[0], alpha=alpha)
    else:
        sum_NM.baddbmm_(left_NK, right_KM, alpha=alpha)


def product(left_BNK: Tensor, right_BKM: Tensor) -> Tensor:
    """left · right, matrix by matrix."""
    if len(left_BNK) == 1:
        return (left_BNK[0] @ right_BKM[0])[None]
    return torch.bmm(left_BNK, right_BKM)


def one_each(factors: Sequence[float], like_BNM: Tensor) -> Tensor:
    """Factors by which the matrices of a batch can be multiplied (B × 1 × 1)."""
    return like_BNM.new_tensor(factors)[:, None, None]
