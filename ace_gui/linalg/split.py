"""Float64 sums of products by three float32 products each, for GPUs on which float64 is slow.

Every row of the left factor and every column of the right one is a power of two times h + l: h its
leading seven bits as an integer, l the rest. Then a·b = h_a h_b + h_a l_b + l_a b. Over 512 terms
the first is exact in float32, and the others are a hundredth of it, so that their rounding is, too.
The pieces are summed in float64. Splitting by bits is that of Ozaki, Ogita, Oishi and Rump,
Error-free transformations of matrix multiplication, Numerical Algorithms 59 (2012).

N rows, M columns, K terms; matrices, or batches of them. No GPU without float64 can use this, as
the sums are float64. It was never run on a GPU.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import torch
from torch import Tensor

from ace_gui.linalg.precision import full_float32

BITS: Final = 7
TERMS: Final = 512
"""Products of two integers of up to 2⁷ fit 2⁹ times into float32's 24 bits."""

WORTH: Final = 6.0
"""From this ratio of float32's speed to float64's on: three products, and what splitting takes."""

_WITHIN: ContextVar[bool] = ContextVar("split_products", default=False)
_CHOSEN: Final[dict[torch.device, bool]] = {}


@contextmanager
def split_products(on: bool) -> Iterator[None]:
    """Within it, ``add_product_`` takes float64 products so, in this thread, if ``on``."""
    token = _WITHIN.set(on)
    try:
        yield
    finally:
        _WITHIN.reset(token)


def splitting() -> bool:
    """Whether float64 products are being split."""
    return _WITHIN.get()


def choose(device: torch.device, on: bool) -> None:
    """Whether to split products on the device where that is exact enough."""
    _CHOSEN[device] = on


def chosen(device: torch.device) -> bool:
    """What ``choose`` said last; no before."""
    return _CHOSEN.get(device, False)


def pays(device: torch.device) -> bool:
    """Whether splitting is the faster on the device, by a measurement of milliseconds.

    Never on a processor, whose float64 is at most five times slower, nor on a GPU that has no room
    even for the measurement.
    """
    if device.type != "cuda":
        return False
    try:
        with full_float32():
            single, double = (_seconds(dtype, device) for dtype in (torch.float32, torch.float64))
    except RuntimeError:  # in whatever way it says that there is no room
        return False
    return double > WORTH * single


def _seconds(dtype: torch.dtype, device: torch.device, size: int = 512) -> float:
    """Of a square product, the best of four."""
    factor = torch.ones(size, size, dtype=dtype, device=device)
    times = []
    for _ in range(4):
        torch.cuda.synchronize(device)
        started = time.perf_counter()
        factor @ factor
        torch.cuda.synchronize(device)
        times.append(time.perf_counter() - started)
    return min(times)


def add_split_product_(sum_NM: Tensor, left_NK: Tensor, right_KM: Tensor, alpha: float) -> None:
    """Add ``alpha`` · left right to a float64 sum."""
    for start in range(0, left_NK.shape[-1], TERMS):
        terms = slice(start, start + TERMS)
        scale_N1, high_NK, low_NK = _split(left_NK[..., terms], dim=-1)
        scale_1M, high_KM, low_KM = _split(right_KM[..., terms, :], dim=-2)
        found_NM = (high_NK @ high_KM).double()
        rest_NM = high_NK @ low_KM
        rest_NM += low_NK @ (high_KM + low_KM)
        found_NM += rest_NM
        sum_NM.add_(found_NM.mul_(scale_N1).mul_(scale_1M), alpha=alpha)


def _split(factor: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """Powers of two in float64, and by these integers up to 2⁷ and what is left, in float32."""
    _, exponents = torch.frexp(factor.abs().amax(dim=dim, keepdim=True).double())
    scales = torch.ldexp(torch.ones_like(exponents, dtype=torch.float64), exponents - BITS)
    whole = factor.double() / scales
    high = whole.round()
    return scales, high.float(), whole.sub_(high).float()
