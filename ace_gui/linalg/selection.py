"""Exact order statistics of numbers in memory, or in two passes of more numbers than fit.

The two passes use that the bits of float32 numbers, read as integers, have the order of the numbers
(reversed for negative ones). The first pass counts the numbers by their upper 16 bits. The second
takes the bin that holds the wanted rank, and counts its numbers by their lower 16 bits, which
leaves one number. Counts are integers, so neither the parts nor their order matter.
"""

from __future__ import annotations

import math
import struct
from typing import Final

import numpy as np
import torch
from torch import Tensor

BINS: Final = 1 << 16
"""Number of upper bins, and of lower bins in one of them."""

ZERO_BIN: Final = 1 << 15
"""The upper bin of zero and of the smallest positive numbers."""

INFINITE_BIN: Final = ZERO_BIN + 0x7F80
"""The upper bin of infinity, which holds no finite number."""

_MAGNITUDE_BITS: Final = 0x7FFFFFFF
"""All bits of a float32 number but its sign."""

SAMPLE: Final = 1 << 14
"""Size of the sample from which an order statistic is estimated."""


def kth_smallest(values: Tensor, rank: int) -> Tensor:
    """The ``rank``-th smallest of the values, counted from 1; of any shape, but not empty.

    A sample gives two values that almost surely enclose it, and only values between them are
    searched. If the sample was misleading, all values are searched. The result is exact either way.
    """
    flat = values.reshape(-1)
    sample = flat[:: max(1, len(flat) // SAMPLE)].sort().values
    index = rank * len(sample) // len(flat)
    # Eight standard deviations of a rank in a random sample, whose variance is at most a quarter of
    # its size.
    margin = 4 * math.isqrt(len(sample))
    if index >= margin:
        low = float(sample[index - margin])
    else:
        low = -math.inf
    if index + margin < len(sample):
        high = float(sample[index + margin])
    else:
        high = math.inf
    inside, below = _between(flat, low, high)
    rank_inside = rank - below
    if 1 <= rank_inside <= len(inside):
        return inside.kthvalue(rank_inside).values
    return flat.kthvalue(rank).values


def _between(flat: Tensor, low: float, high: float) -> tuple[Tensor, int]:
    """The values from ``low`` to ``high``, and how many are smaller.

    Uses numpy if possible, which selects few of many values in a fifth of torch's time.
    """
    if flat.is_cpu and flat.dtype in {torch.float32, torch.float64}:
        numbers = flat.numpy()
        inside = numbers[(numbers >= low) & (numbers <= high)]
        return torch.from_numpy(inside), int(np.count_nonzero(numbers < low))
    return flat[(flat >= low) & (flat <= high)], int(torch.count_nonzero(flat < low))


def upper_counts(values: Tensor) -> Tensor:
    """Number of values in each of the ``BINS`` upper bins, int64."""
    return torch.bincount((_ordered_bits(values) >> 16).add_(ZERO_BIN), minlength=BINS)


def lower_counts(values: Tensor, upper: int) -> Tensor:
    """Number of values of the upper bin ``upper`` in each lower bin, int64."""
    first = (upper - ZERO_BIN) << 16
    bits = _ordered_bits(values).numpy()
    # Lower bin 0 is counted apart: most differences of 16-bit numbers are in it, and selecting them
    # takes longer than counting.
    inside = bits[(bits > first) & (bits <= first + BINS - 1)]
    counts = np.bincount(inside - first, minlength=BINS)
    counts[0] = np.count_nonzero(bits == first)
    return torch.from_numpy(counts)


def bin_of_rank(counts: Tensor, rank: int) -> tuple[int, int]:
    """The bin that holds the ``rank``-th smallest, from 1, and its rank within the bin.

    Uses numpy, like all work with counts. torch would use all threads, and wait long for those that
    are busy with the next part.
    """
    numbers = counts.numpy()
    reached = numbers.cumsum()
    index = int(np.searchsorted(reached, rank))
    return index, rank - int(reached[index] - numbers[index])


def float32_in_bins(upper: int, lower: int) -> float:
    """The float32 number in these bins."""
    bits = ((upper - ZERO_BIN) << 16) | lower
    if bits < 0:
        bits ^= _MAGNITUDE_BITS  # negative numbers were counted in reverse
    return float(struct.unpack("<f", struct.pack("<i", bits))[0])


def order_in_rows(magnitudes: Tensor) -> Tensor:
    """The indices that sort each row of magnitudes (≥ 0) in ascending order, int64.

    Equal ones stay in their order: each key is the bits of a number followed by its index, so that
    no two keys are equal. For float32 on the processor, this takes a tenth of the time of a stable
    sort.
    """
    if not magnitudes.is_cpu or magnitudes.dtype != torch.float32:
        return magnitudes.argsort(dim=1, stable=True)
    keys = magnitudes.contiguous().view(torch.int32).numpy().astype(np.int64)
    keys <<= 32
    keys |= np.arange(keys.shape[1])
    keys.sort(axis=1)
    keys &= (1 << 32) - 1
    return torch.from_numpy(keys)


def _ordered_bits(values: Tensor) -> Tensor:
    """Integers in the order of the values, int32, flat, read-only.

    Wider values are rounded to float32.
    """
    bits = values.to(torch.float32).contiguous().reshape(-1).view(torch.int32)
    if not bits.numel() or int(bits.min()) >= 0:
        return bits  # no negative values to reverse, as with magnitudes
    # Inverts the magnitude of negative values: the shift gives -1 (all bits) for them, else 0.
    inverted_bits = (bits >> 31).bitwise_and_(_MAGNITUDE_BITS)
    return inverted_bits.bitwise_xor_(bits)
