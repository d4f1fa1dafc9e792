"""Processes large tensors in parts, so that memory does not grow with their size."""

from __future__ import annotations

import hashlib
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import torch
from torch import Tensor

Part = tuple[int, int]
"""First and last element (exclusive) of a range of a flattened tensor."""

PART_ELEMENTS: Final = 1 << 19
"""Elements of a tensor that are averaged at a time: 2 MB in float32, which a cache holds."""

PASS_ELEMENTS: Final = 1 << 20
"""Elements of a tensor that are surveyed at a time; a multiple of 8, for masks."""


def parts_of(elements: int, width: int | None = None) -> Iterator[Part]:
    """Consecutive parts of a flattened tensor; an empty tensor has one empty part.

    ``width``: number of elements that stay together, as those of a row.
    """
    together = width or 1
    step = max(1, PART_ELEMENTS // together) * together
    for start in range(0, max(elements, 1), step):
        yield start, min(start + step, elements)


def single_threads(count: int | None = None) -> ThreadPoolExecutor:
    """A pool of ``count`` threads (None: as many as torch has), each with a single torch thread.

    Nested thread teams only wait for each other, and a team that gets a short task spins until the
    next one.
    """
    one = partial(torch.set_num_threads, 1)
    return ThreadPoolExecutor(count or torch.get_num_threads(), initializer=one)


Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered(
    pool: ThreadPoolExecutor,
    work: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    ahead: int = 2,
) -> Iterator[Result]:
    """Run ``work`` on every item in the pool, results in order, with ``ahead`` of them waiting."""
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def checksum(piece: Tensor, before: int = 0) -> int:
    """CRC-32 of a CPU tensor's bytes, continuing that of the previous pieces."""
    return zlib.crc32(piece.contiguous().reshape(-1).view(torch.uint8).numpy().data, before)


def tensors_digest(named: Iterable[tuple[str, Tensor]]) -> str:
    """SHA-256 in hexadecimal of CPU tensors: their names, number formats, shapes and values."""
    digest = hashlib.sha256()
    for name, tensor in named:
        digest.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


_BLOCK: Final = 1 << 22


def sha256(path: Path) -> str:
    """The file's SHA-256 in hexadecimal. Raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
