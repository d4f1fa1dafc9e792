"""The one operation used here that torch does not document, and may change in any release.

In releases without it, or with another signature, ``LINEAR`` is None and products are taken by
operations that torch documents; on Intel's processors too, for which these are as fast and need no
copies.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import torch
from torch import Tensor


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
