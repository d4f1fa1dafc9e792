"""Large tensors part by part, so that memory does not grow with them."""

from __future__ import annotations

import hashlib
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

import torch
from torch import Tensor

Part = tuple[int, int]
"""From and to which element of a flattened tensor."""

PART_ELEMENTS: Final = 1 << 19
"""Elements of a tensor that are averaged at a time: 2 MB in float32, which a cache holds."""


def parts_of(elements: int) -> Iterator[Part]:
    """Parts of a flattened tensor, in order; an empty tensor has one empty part."""
    for start in range(0, max(elements, 1), PART_ELEMENTS):
        yield start, min(start + PART_ELEMENTS, elements)


Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered(
    pool: ThreadPoolExecutor,
    work: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    ahead: int = 2,
) -> Iterator[Result]:
    """``work`` on every item by the pool's threads, results in order, ``ahead`` of them waiting."""
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
    """CRC-32 of a CPU tensor's bytes, continuing that of the pieces before it."""
    return zlib.crc32(piece.contiguous().reshape(-1).view(torch.uint8).numpy().data, before)


_BLOCK: Final = 1 << 22


def sha256(path: Path) -> str:
    """The file's SHA-256 in hexadecimal. Raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
