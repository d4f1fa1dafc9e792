"""How much a GPU merges at a time, and what happens when its memory is full."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import torch

from ace_gui.engine.merging.one_tensor.tensor_merge import (
    CROWDED,
    DIVIDED,
    FELL_BACK,
    OutputChunk,
    TensorMerge,
    in_the_end,
    merge_whole,
)
from ace_gui.engine.planning.memory import SIDE_BY_SIDE_BYTES
from ace_gui.errors import MethodError, NonFiniteError, lacks_room
from ace_gui.machine import free_memory

GPU_AHEAD: Final = 4
"""Batches that are read, uploaded, merged and downloaded at the same time."""


@dataclass(eq=False)
class Reservation:
    """Memory reserved by one batch. ``limit``: the limit when it was reserved.

    ``contended``: whether other batches ran meanwhile; ``most``: the peak of all reservations in
    bytes.
    """

    need: int
    limit: float
    contended: bool = False
    most: int = 0


class MemoryBudget:
    """A memory budget in bytes for batches that run at the same time.

    It shrinks after out-of-memory errors.

    ``largest``: the most bytes of one batch; a larger one should be divided first. ``too_large``: a
    single matrix of this many bytes did not fit, so others of this size are not tried.
    """

    def __init__(self, limit: float) -> None:
        self.largest = limit
        self.too_large = math.inf
        self._limit = limit
        self._reserved: list[Reservation] = []
        self._changed = threading.Condition()

    @contextmanager
    def reserve(self, need: int) -> Iterator[Reservation]:
        """Wait until the bytes are free, or no other batch runs, and reserve them."""
        with self._changed:
            self._changed.wait_for(lambda: not self._reserved or self._held + need <= self._limit)
            reservation = Reservation(need=need, limit=self._limit)
            self._reserved.append(reservation)
            for each in self._reserved:
                each.contended |= len(self._reserved) > 1
                each.most = max(each.most, self._held)
        try:
            yield reservation
        finally:
            with self._changed:
                self._reserved.remove(reservation)
                self._changed.notify_all()

    def shrink(self, reservation: Reservation, matrices: int) -> None:
        """Reduce the budget after an out-of-memory error.

        If several batches fail, only the first counts.

        If other batches were running, fewer run at a time from now on. If a batch of several
        matrices ran alone, batches get smaller. If a single matrix ran alone, matrices of its size
        or larger are no longer tried.
        """
        with self._changed:
            if not reservation.contended and matrices == 1:
                self.too_large = min(self.too_large, reservation.need)
            elif not reservation.contended:
                self.largest = min(self.largest, reservation.need / 2)
            elif self._limit == reservation.limit:
                self._limit = reservation.most / 2

    def admits(self, need: int, matrices: int) -> bool:
        """Whether a batch of this size should be tried, given the failures so far."""
        return need < self.too_large if matrices == 1 else need <= self.largest

    @property
    def _held(self) -> int:
        return sum(reservation.need for reservation in self._reserved)


@dataclass(frozen=True, kw_only=True)
class MemoryBudgets:
    """Memory budgets of the ``device``, and of host memory for what does not fit on the device.

    ``share``: fraction of the device memory for each of the batches that run at the same time.
    """

    device: torch.device
    gpu: MemoryBudget
    host: MemoryBudget
    share: float


def budgets_of(device: torch.device, memory_bytes: int | None = None) -> MemoryBudgets:
    """``memory_bytes``: limit of host memory; None: what is free."""
    host = free_memory() if memory_bytes is None else memory_bytes
    free = bytes_free(device)
    return MemoryBudgets(
        device=device,
        gpu=MemoryBudget(free),
        share=free / GPU_AHEAD,
        host=MemoryBudget(min(host, SIDE_BY_SIDE_BYTES)),
    )


def bytes_free(device: torch.device) -> float:
    """Free GPU memory for this process in bytes; unlimited on the CPU."""
    if device.type != "cuda":
        return math.inf
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + unused


def merged_within(
    works: Sequence[TensorMerge], pool: ThreadPoolExecutor, budgets: MemoryBudgets
) -> list[list[OutputChunk]]:
    """Merge the matrices of a batch, with as few other batches at the same time as memory requires.

    If a batch does not fit even alone, it is split into halves. If a single matrix does not fit, it
    is merged on the CPU, within the budget of host memory. The reports mention this. If merging
    fails for one matrix of a batch, the error is raised for that matrix alone.
    """

    def halves() -> list[list[OutputChunk]]:
        middle = len(works) // 2
        first = merged_within(works[:middle], pool, budgets)
        return first + merged_within(works[middle:], pool, budgets)

    least, limit, alone = sum(work.gpu_bytes for work in works), budgets.gpu, len(works) == 1
    need = least + sum(work.stored_bytes for work in works)
    keep = need <= budgets.share and limit.admits(need, len(works))
    need = need if keep else least
    while limit.admits(need, len(works)):
        for work in works:
            work.keeps_experts = keep
        with limit.reserve(need) as reservation:
            try:
                found = _tried(works, pool)
            except (MethodError, NonFiniteError):
                if alone:
                    raise
                return halves()
        if found is not None:
            return found
        if budgets.device.type == "cuda":
            torch.cuda.empty_cache()
        limit.shrink(reservation, len(works))
        need, keep = least, False
        if reservation.contended:
            for work in works:
                work.hindered(CROWDED)
    if alone:
        works[0].hindered(FELL_BACK)
        with budgets.host.reserve(need):
            return [in_the_end(works[0].pieces(pool))]
    for work in works:
        work.hindered(DIVIDED)
    return halves()


def _tried(
    works: Sequence[TensorMerge], pool: ThreadPoolExecutor
) -> list[list[OutputChunk]] | None:
    """The result, or None if GPU memory is too small.

    Retries must be outside the except block, because the exception keeps tensors alive.
    """
    try:
        if len(works) == 1:
            return [in_the_end(works[0].pieces(pool))]
        return [[piece] for piece in merge_whole(works)]
    except RuntimeError as error:
        if not lacks_room(error):
            raise
    return None
