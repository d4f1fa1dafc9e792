"""Sums of matrix products, of one matrix or of a batch of B of one shape. N rows, M columns.

A GPU gets a batch as a whole, since one small matrix leaves most of it idle. A batch of one is
computed as a single matrix: batched library calls do not help a processor, and may be slower.

On AMD's processors with AVX-512, torch's MKL uses half of each register. numpy's OpenBLAS uses all
of it, which is nearly twice as fast in float64 and more in float32. There,
products of single threads use numpy. Other float32 products use oneDNN (``LINEAR``).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import torch
from threadpoolctl import ThreadpoolController
from torch import Tensor

PIECE: Final = 1536
"""Rows and columns of a product that is made at a time before it is added to a sum."""

WIDE: Final = frozenset({"SkylakeX", "Cooperlake", "SapphireRapids", "Zen4", "Zen5"})
"""What OpenBLAS calls its products for registers of 512 bits."""

Factor = float | Sequence[float]
"""A factor for all matrices, or one for each of the batch."""


def linear(x_NK: Tensor, w_MK: Tensor) -> Tensor:
    """x wᵀ by oneDNN: the operation into which torch compiles linear layers.

    Both float32 on the processor, neither empty. Rows that are not contiguous make it a thousand
    times slower.
    """
    found: Tensor = torch.ops.mkldnn._linear_pointwise(x_NK, w_MK, None, "none", [], "")
    return found


def _usable() -> bool:
    if not torch.backends.mkl.is_available() or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    one = torch.ones(1, 1)
    try:
        return torch.equal(linear(one, one), one)
    except (AttributeError, RuntimeError, TypeError):
        return False


def _by_intel() -> bool:
    """Whether the processor is Intel's, according to the system."""
    description = os.environ.get("PROCESSOR_IDENTIFIER", "")  # Windows
    with suppress(OSError), Path("/proc/cpuinfo").open(encoding="ascii", errors="replace") as info:
        description += info.read(500)  # Linux: the first processor's
    return "GenuineIntel" in description


LINEAR: Final[Callable[[Tensor, Tensor], Tensor] | None] = (
    linear if _usable() and not _by_intel() else None
)
"""``linear`` is the one operation here that torch does not document and may change in any release.

None in releases without it, or with another signature: products are then taken by operations that
torch documents; on Intel's processors too, for which these are as fast and need no copies.
"""


@cache
def by_numpy() -> bool:
    """Whether numpy's OpenBLAS has wide registers on this processor.

    OpenBLAS then uses no threads of its own in this process: those that merge have one each.
    """
    found = ThreadpoolController().select(internal_api="openblas")
    own = [each for each in found.lib_controllers if "numpy" in each.filepath]
    wide = any(each.info()["architecture"] in WIDE for each in own)
    if wide:
        found.limit(limits=1)
    return wide


def library() -> str:
    """By what a processor's products are taken, on which their last digits depend."""
    return "numpy" if by_numpy() else "torch"


def times(left_NK: Tensor, right_KM: Tensor) -> Tensor:
    """left · right, two matrices of one number format."""
    return _by_numpy(left_NK, right_KM) if _for_numpy(left_NK) else left_NK @ right_KM


def product(left_BNK: Tensor, right_BKM: Tensor) -> Tensor:
    """left · right, matrix by matrix."""
    if len(left_BNK) == 1:
        return times(left_BNK[0], right_BKM[0])[None]
    return torch.bmm(left_BNK, right_BKM)


def add_product_(sum_NM: Tensor, left_NK: Tensor, right_KM: Tensor, alpha: Factor = 1.0) -> None:
    """Add ``alpha`` · left right to the sum; all three are matrices or batches of B of them.

    Where the matrices of a batch have factors of their own, ``left`` is copied.
    """
    if isinstance(alpha, Sequence):
        alike = len(set(alpha)) == 1
        left_NK = left_NK if alike else left_NK * one_each(alpha, left_NK)
        alpha = alpha[0] if alike else 1.0
    if sum_NM.ndim == 3 and len(sum_NM) > 1:
        sum_NM.baddbmm_(left_NK, right_KM, alpha=alpha)
    elif sum_NM.ndim == 3:
        add_product_(sum_NM[0], left_NK[0], right_KM[0], alpha)
    elif _for_numpy(sum_NM):
        _add_in_parts_(sum_NM, left_NK, right_KM, alpha, _by_numpy)
    elif wants_rows(sum_NM) and left_NK.numel() and right_KM.numel():
        rows_NK, rows_MK = left_NK.contiguous(), right_KM.mT.contiguous()
        _add_in_parts_(sum_NM, rows_NK, rows_MK.mT, alpha, _by_onednn)
    else:
        sum_NM.addmm_(left_NK, right_KM, alpha=alpha)


def _for_numpy(matrix: Tensor) -> bool:
    """Threads that share a matrix are torch's: while numpy computes, they would wait in vain."""
    known = matrix.dtype in (torch.float32, torch.float64) and matrix.device.type == "cpu"
    return known and torch.get_num_threads() == 1 and by_numpy()


def wants_rows(matrix: Tensor) -> bool:
    """Whether products like this one are taken of rows with rows, each in one piece of memory."""
    single = matrix.dtype == torch.float32 and matrix.device.type == "cpu"
    return single and LINEAR is not None and not _for_numpy(matrix)


def _by_numpy(left_NK: Tensor, right_KM: Tensor) -> Tensor:
    found_NM = left_NK.new_empty(len(left_NK), right_KM.shape[1])
    with np.errstate(all="ignore"):  # the caller, which knows the tensor's name, reports infinities
        np.matmul(left_NK.numpy(), right_KM.numpy(), out=found_NM.numpy())
    return found_NM


def _by_onednn(left_NK: Tensor, right_KM: Tensor) -> Tensor:
    assert LINEAR is not None
    return LINEAR(left_NK, right_KM.mT)


def _add_in_parts_(
    sum_NM: Tensor,
    left_NK: Tensor,
    right_KM: Tensor,
    alpha: float,
    multiply: Callable[[Tensor, Tensor], Tensor],
) -> None:
    """For libraries that cannot accumulate into a sum."""
    for rows, columns in _parts(sum_NM.shape, PIECE):
        sum_NM[rows, columns].add_(multiply(left_NK[rows], right_KM[:, columns]), alpha=alpha)


def _parts(shape: Sequence[int], longest: int) -> Iterator[tuple[slice, slice]]:
    """Parts of a matrix that cover it, of at most so many rows and columns, of about one size."""
    rows, columns = (
        [slice(n * size // count, (n + 1) * size // count) for n in range(count)]
        for size, count in ((size, math.ceil(size / max(1, longest))) for size in shape)
    )
    for each in rows:
        for other in columns:
            yield each, other


def one_each(factors: Sequence[float], like_BNM: Tensor) -> Tensor:
    """Factors by which the matrices of a batch can be multiplied (B × 1 × 1).

    No GPU waits for them: one for all is written there, others are copied from pinned memory.
    """
    if len(set(factors)) == 1:
        return like_BNM.new_full((len(factors), 1, 1), factors[0])
    return moved(torch.tensor(factors, dtype=like_BNM.dtype), like_BNM.device)[:, None, None]


def some(batch_BNM: Tensor, indices: Sequence[int]) -> Tensor:
    """Some of the matrices of a batch, without an index list that a GPU would have to wait for.

    All of them in their order are not copied.
    """
    if len(indices) == len(batch_BNM):
        return batch_BNM
    return torch.stack([batch_BNM[b] for b in indices])


def moved(given: Tensor, device: torch.device) -> Tensor:
    """A tensor of the processor's on the device; a GPU copies it when it comes to it."""
    if device.type == "cuda":
        return given.pin_memory().to(device, non_blocking=True)
    return given.to(device)
