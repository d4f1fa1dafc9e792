"""Float32 products in full float32, whatever the surrounding program has set."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch

_LOCK: Final = threading.Lock()
_WITHIN: Final[list[list[str]]] = []
"""One entry a thread that is within: the settings that it found."""


@contextmanager
def full_float32() -> Iterator[None]:
    """Within it, matrix products of float32 use neither TF32 (CUDA) nor bfloat16 (CPU).

    The settings are global to the process: they are put back when the last thread leaves.
    """
    settings: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)  # type: ignore[attr-defined]
    with _LOCK:
        _WITHIN.append(_WITHIN[0] if _WITHIN else [each.fp32_precision for each in settings])
        for each in settings:
            each.fp32_precision = "ieee"
    try:
        yield
    finally:
        with _LOCK:
            before = _WITHIN.pop()
            if not _WITHIN:
                for each, value in zip(settings, before, strict=True):
                    each.fp32_precision = value
