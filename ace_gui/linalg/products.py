"""Sums of matrix products, of one matrix or of a batch of B of one shape.

N rows and M columns of a product, K terms in each of its sums.

A GPU gets a whole batch, since one small matrix leaves most of it idle. A batch of one is computed
as a single matrix, because batched library calls do not help a processor and may be slower.

On processors that are not Intel's, torch's MKL is too slow, with AVX-512 by a factor of two. There,
single threads use numpy's OpenBLAS. It computes only half of a matrix times its own transpose, and
reads parts and transposes without a copy.

Other products do not use the symmetry of their result. They are therefore computed in blocks of
columns, and the blocks below the diagonal (nearly half) are skipped. Everything is in place and on
the matrix's own device.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from threadpoolctl import ThreadpoolController
from torch import Tensor

LONGEST_PART: Final = 1536
"""Rows and columns of the part of a product that is computed before it is added to a sum."""

Factor = float | Sequence[float]
"""A factor for all matrices, or one per matrix of the batch."""


def _is_intel_processor() -> bool:
    """Whether the processor is Intel's, according to the system."""
    description = os.environ.get("PROCESSOR_IDENTIFIER", "")  # Windows
    with suppress(OSError), Path("/proc/cpuinfo").open(encoding="ascii", errors="replace") as info:
        description += info.read(500)  # Linux: the vendor of the first processor
    return "GenuineIntel" in description


@cache
def uses_numpy() -> bool:
    """Whether single threads use numpy on this processor.

    If so, the first call also limits OpenBLAS to one thread in this process, as every merging
    thread calls it.
    """
    if _is_intel_processor() or not torch.backends.mkl.is_available():  # type: ignore[no-untyped-call]
        return False
    openblas = ThreadpoolController().select(internal_api="openblas")
    is_in_numpy = any("numpy" in library.filepath for library in openblas.lib_controllers)
    if is_in_numpy:
        openblas.limit(limits=1)
    return is_in_numpy


def product_library() -> str:
    """The name of the library for a processor's matrix products; their last digits depend on it."""
    if uses_numpy():
        return "numpy"
    return "torch"


def as_wide(matrix_NM: Tensor) -> Tensor:
    """The matrix, or its transpose, whichever has no more rows than columns; no copy."""
    if matrix_NM.shape[0] > matrix_NM.shape[1]:
        return matrix_NM.mT
    return matrix_NM


def times(left_NK: Tensor, right_KM: Tensor) -> Tensor:
    """left · right for two matrices of one dtype."""
    if computed_by_numpy(left_NK):
        return _times_in_numpy(left_NK, right_KM)
    return left_NK @ right_KM


def product(left_BNK: Tensor, right_BKM: Tensor) -> Tensor:
    """left · right for each matrix of the batch."""
    if len(left_BNK) == 1:
        return times(left_BNK[0], right_BKM[0])[None]
    return torch.bmm(left_BNK, right_BKM)


def add_product_(sum_NM: Tensor, left_NK: Tensor, right_KM: Tensor, alpha: Factor = 1.0) -> None:
    """Add ``alpha`` · left right to the sum.

    All three are matrices, as their names say, or batches of B of them. If the matrices of a batch
    have different factors, ``left`` is copied.
    """
    if isinstance(alpha, Sequence):
        if len(set(alpha)) == 1:
            alpha = alpha[0]
        else:
            left_NK = left_NK * factor_per_matrix(alpha, left_NK)
            alpha = 1.0
    if sum_NM.ndim == 3 and len(sum_NM) > 1:
        sum_NM.baddbmm_(left_NK, right_KM, alpha=alpha)
    elif sum_NM.ndim == 3:
        add_product_(sum_NM[0], left_NK[0], right_KM[0], alpha)
    elif computed_by_numpy(sum_NM):
        for rows, columns in itertools.product(parts(len(sum_NM)), parts(sum_NM.shape[1])):
            # numpy cannot accumulate into a sum.
            added_NM = _times_in_numpy(left_NK[rows], right_KM[:, columns])
            sum_NM[rows, columns].add_(added_NM, alpha=alpha)
    else:
        sum_NM.addmm_(left_NK, right_KM, alpha=alpha)


def computed_by_numpy(matrix: Tensor) -> bool:
    """Whether numpy computes products of this matrix here.

    Several threads on one matrix use torch, as they would idle while numpy computes.
    """
    is_suitable = matrix.dtype in (torch.float32, torch.float64) and matrix.device.type == "cpu"
    return is_suitable and torch.get_num_threads() == 1 and uses_numpy()


def has_half_price_gram(matrix: Tensor) -> bool:
    """Whether the product of this matrix with its own transpose takes half the operations."""
    return (matrix.ndim == 2 or len(matrix) == 1) and computed_by_numpy(matrix)


def _times_in_numpy(left_NK: Tensor, right_KM: Tensor) -> Tensor:
    product_NM = left_NK.new_empty(len(left_NK), right_KM.shape[1])
    with np.errstate(all="ignore"):  # the caller, which knows the tensor's name, reports infinities
        np.matmul(left_NK.numpy(), right_KM.numpy(), out=product_NM.numpy())
    return product_NM


def parts(size: int) -> list[slice]:
    """Ranges that cover ``size`` rows or columns, at most ``LONGEST_PART`` long and nearly equal.

    For numpy, which needs memory for each product; ``blocks`` are narrower, to skip work.
    """
    count = math.ceil(size / LONGEST_PART)
    return [slice(n * size // count, (n + 1) * size // count) for n in range(count)]


def factor_per_matrix(factors: Sequence[float], like_BNM: Tensor) -> Tensor:
    """One factor for each matrix of a batch, on its device and in its dtype (B × 1 × 1).

    A GPU does not wait: a common factor is written there, others come from pinned memory.
    """
    if len(set(factors)) == 1:
        return like_BNM.new_full((len(factors), 1, 1), factors[0])
    return moved(torch.tensor(factors, dtype=like_BNM.dtype), like_BNM.device)[:, None, None]


def matrices_at(batch_BNM: Tensor, indices: Sequence[int]) -> Tensor:
    """The matrices of a batch at these indices, without an index list, for which a GPU would wait.

    The indices are different and ascending. If there are as many indices as matrices, they are all
    matrices in their order, and nothing is copied.
    """
    if len(indices) == len(batch_BNM):
        return batch_BNM
    return torch.stack([batch_BNM[b] for b in indices])


def moved(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor from the processor's memory on the device; a GPU copies it asynchronously."""
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


NARROWEST: Final = 96
"""Fewest columns of a block on a processor: wide enough for full speed."""

WIDEST: Final = 192
"""Most columns of a block on a processor: narrow enough to skip work."""

NARROWEST_ON_GPU: Final = 256
"""Fewest columns of a block on a GPU, where each block costs several launches."""

WIDEST_ON_GPU: Final = 512
"""Most columns of a block on a GPU."""


def blocks(size: int, device: torch.device) -> Iterator[slice]:
    """Consecutive ranges that cover ``size`` rows or columns of a matrix on the device.

    Their width is a compromise: wide ones are fast, narrow ones skip more of a symmetric matrix.
    """
    step = _width(size, on_gpu=device.type == "cuda")
    for start in range(0, size, step):
        yield slice(start, min(start + step, size))


def widest_block(size: int) -> int:
    """Columns of the widest block for ``size`` columns on any device."""
    return max(_width(size, on_gpu=on_gpu) for on_gpu in (False, True))


def _width(size: int, *, on_gpu: bool) -> int:
    if on_gpu:
        return min(max(size // 8, NARROWEST_ON_GPU), WIDEST_ON_GPU)
    return min(max(size // 8, NARROWEST), WIDEST)


def add_gram_(sum_NN: Tensor, matrix_KN: Tensor, *, alpha: Factor = 1.0) -> None:
    """Add ``alpha`` · matrixᵀ matrix to the upper blocks of a symmetric sum; see ``mirror_``."""
    size = sum_NN.shape[-1]
    if has_half_price_gram(matrix_KN):
        diagonal = parts(size)
    else:
        diagonal = list(blocks(size, sum_NN.device))
    _add_upper_(sum_NN, matrix_KN.mT, alpha, diagonal)


def _add_upper_(sum_NN: Tensor, rows_NK: Tensor, alpha: Factor, diagonal: list[slice]) -> None:
    """Add ``alpha`` · rows rowsᵀ to a square part of the sum, but not below its diagonal blocks.

    ``diagonal``: consecutive ranges, of which each is both the rows and the columns of a diagonal
    block. They are halved recursively, because the largest products are the fastest: all rows of
    the first half times all columns of the second half are one product above the diagonal.
    """
    if not diagonal:
        return
    if len(diagonal) == 1:
        rows = diagonal[0]
        columns = diagonal[0]
    else:
        half = len(diagonal) // 2
        first_half = diagonal[:half]
        second_half = diagonal[half:]
        _add_upper_(sum_NN, rows_NK, alpha, first_half)
        _add_upper_(sum_NN, rows_NK, alpha, second_half)
        rows = slice(first_half[0].start, first_half[-1].stop)
        columns = slice(second_half[0].start, second_half[-1].stop)
    left_NK = rows_NK[..., rows, :]
    right_NK = rows_NK[..., columns, :]
    add_product_(sum_NN[..., rows, columns], left_NK, right_NK.mT, alpha)


def mirror_(matrix_NN: Tensor) -> Tensor:
    """Copy the part above the diagonal to below it; returns the matrix."""
    for block in blocks(matrix_NN.shape[-1], matrix_NN.device):
        square_NN = matrix_NN[..., block, block]
        square_NN.copy_(square_NN.triu() + square_NN.triu(1).mT)
        matrix_NN[..., block.stop :, block].copy_(matrix_NN[..., block, block.stop :].mT)
    return matrix_NN


def gram(matrix_KN: Tensor, *, alpha: Factor = 1.0) -> Tensor:
    """``alpha`` · matrixᵀ matrix as a new matrix."""
    if matrix_KN.ndim == 3 and len(matrix_KN) == 1:
        if isinstance(alpha, Sequence):
            alpha = alpha[0]
        return gram(matrix_KN[0], alpha=alpha)[None]
    if has_half_price_gram(matrix_KN) and not isinstance(alpha, Sequence):
        return times(matrix_KN.mT, matrix_KN).mul_(alpha)
    *batch, _, size = matrix_KN.shape
    gram_NN = matrix_KN.new_zeros(*batch, size, size)
    add_gram_(gram_NN, matrix_KN, alpha=alpha)
    return mirror_(gram_NN)


_LOCK: Final = threading.Lock()
_PRECISIONS_BEFORE: Final[list[list[str]]] = []
"""What was set before ``full_float32``: one entry for each thread that is inside, all the same."""


@contextmanager
def full_float32() -> Iterator[None]:
    """Inside the block, float32 matrix products use neither TF32 (CUDA) nor bfloat16 (CPU).

    The settings are global to the process. They are restored when the last thread leaves.
    """
    backends: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)  # type: ignore[attr-defined]
    with _LOCK:
        if _PRECISIONS_BEFORE:
            precisions = _PRECISIONS_BEFORE[0]
        else:
            precisions = [backend.fp32_precision for backend in backends]
        _PRECISIONS_BEFORE.append(precisions)
        for backend in backends:
            backend.fp32_precision = "ieee"
    try:
        yield
    finally:
        with _LOCK:
            precisions = _PRECISIONS_BEFORE.pop()
            if not _PRECISIONS_BEFORE:
                for backend, precision in zip(backends, precisions, strict=True):
                    backend.fp32_precision = precision
