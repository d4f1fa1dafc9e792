"""Works through large tensors in parts, so that memory does not grow with their size.

Threads of this process do it, or other processes, perhaps on other machines. A stored tensor may
hold several matrices; a row of the plan is then a part of it.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from math import prod
from typing import Any, Final, Protocol, TypeVar

import torch
from torch import Tensor

from ace_gui.checkpoints.reader import TensorReader
from ace_gui.engine.contract.plan import MatrixPart, PlanRow

Part = tuple[int, int]
"""First and last element (exclusive) of a range of a flattened tensor."""

PART_ELEMENTS: Final = 1 << 19
"""Elements of a tensor that are averaged at a time: 2 MB in float32, which a cache holds."""

PASS_ELEMENTS: Final = 1 << 20
"""Elements of a tensor that are surveyed at a time; a multiple of 8, for masks."""


def parts_of(elements: int, width: int | None = None) -> Iterator[Part]:
    """Consecutive parts of a flattened tensor; an empty tensor has one empty part.

    ``width``: number of elements that stay together, such as those of a row.
    """
    unit = width or 1
    step = max(1, PART_ELEMENTS // unit) * unit
    for start in range(0, max(elements, 1), step):
        yield start, min(start + step, elements)


Item = TypeVar("Item")
Result = TypeVar("Result")


def packed(items: Iterable[Item], size: Callable[[Item], int], most: int) -> Iterator[list[Item]]:
    """Consecutive items whose sizes add up to ``most``; a larger item is alone."""
    pack = list[Item]()
    held = 0
    for item in items:
        if pack and held + size(item) > most:
            yield pack
            pack = []
            held = 0
        pack.append(item)
        held += size(item)
    if pack:
        yield pack


def single_threads(count: int | None = None) -> ThreadPoolExecutor:
    """A pool of ``count`` threads (None: as many as torch has), each with a single torch thread.

    Nested thread teams only wait for each other, and a team that gets a short task spins until the
    next one.
    """
    one_thread = partial(torch.set_num_threads, 1)
    return ThreadPoolExecutor(count or torch.get_num_threads(), initializer=one_thread)


def ordered(
    pool: ThreadPoolExecutor,
    work: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    ahead: int = 2,
) -> Iterator[Result]:
    """Run ``work`` in the pool and yield results in order; ``ahead`` more items are submitted."""
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


class Executor(Protocol):
    """Processes that run functions at the same time. ``device``: where each of them computes."""

    device: str

    def map_unordered(
        self,
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        about: Sequence[str],
    ) -> Iterator[tuple[int, Any] | None]:
        """Call the function with each of the arguments; yield each result with its index.

        Results come in order of completion; None: no result yet. ``about``: names of the calls.
        Closing the iterator stops the processes. Raises the errors of the function, and
        ClusterError.
        """
        ...


Found = TypeVar("Found", Tensor, Tensor | None)


def of_row(row: PlanRow, part_read: Part | None, read: Callable[[Part | None], Found]) -> Found:
    """Read a row's part of its stored tensor.

    ``read``: reads a range of the flattened tensor, or with None the whole tensor in its shape.
    ``part_read``: a range of the row, or None for the whole row. For a range, only the repetitions
    that contain it are read.
    """
    part = row.part
    if part is None:
        return read(part_read)
    start, stop = part_read or (0, prod(row.shape))
    width = part.last - part.first
    if part.in_one_piece:
        flat = read((part.start + start, part.start + stop))
    else:
        first = start // width
        last = -(-stop // width)
        stretch = read((part.start + first * part.period, part.start + last * part.period))
        if stretch is None:
            return stretch
        elements = stretch.reshape(-1, part.period)[:, part.first : part.last].reshape(-1)
        flat = elements[start - first * width : stop - first * width]
    if part_read is not None or flat is None:
        return flat
    return flat.reshape(row.shape)


def read_row(reader: TensorReader, row: PlanRow, part_read: Part | None = None) -> Tensor:
    """A row's part of a model with the base's names, in its shape or, for a range, flat."""

    def read(part: Part | None) -> Tensor:
        if part is None:
            return reader.read(row.tensor)
        return reader.read_part(row.tensor, *part)

    return of_row(row, part_read, read)


def elements_of(flat: Tensor, part: MatrixPart) -> Tensor:
    """A view of a matrix's elements in its flattened tensor: repetitions × elements of each."""
    return flat[part.start : part.stop].view(-1, part.period)[:, part.first : part.last]


class Assembly:
    """Puts the parts of a tensor together as they are stored. They must come in order."""

    def __init__(self) -> None:
        self._stretch: Tensor | None = None

    def add(self, part: MatrixPart, values: Tensor) -> Tensor | None:
        """Add a part; the last one returns all elements from ``part.start`` on, others None."""
        if part.in_one_piece:
            return values
        if self._stretch is None:
            self._stretch = torch.empty(part.stop - part.start, dtype=values.dtype)
        target = self._stretch.view(-1, part.period)[:, part.first : part.last]
        target.copy_(values.view(target.shape))
        if not part.fills_stretch:
            return None
        complete = self._stretch
        self._stretch = None
        return complete
