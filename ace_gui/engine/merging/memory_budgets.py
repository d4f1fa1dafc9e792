"""Batches of matrices, as many at a time as memory admits.

If the memory of a GPU is full, fewer are merged at a time from then on, smaller batches, or single
matrices on the processor.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import torch

from ace_gui.engine.merging.tensor_merge import (
    CROWDED,
    DIVIDED,
    FELL_BACK,
    OutputChunk,
    TensorMerge,
    in_the_end,
    merge_whole,
)
from ace_gui.engine.planning.requirements import SIDE_BY_SIDE_BYTES
from ace_gui.errors import MethodError, NonFiniteError, lacks_room
from ace_gui.machine import free_memory

GPU_AHEAD: Final = 4
"""Batches that are read, uploaded, merged and downloaded at the same time."""


@dataclass(eq=False)
class Reservation:
    """Memory reserved by one batch, in bytes."""

    need: int
    """What the batch needs."""
    limit: float
    """The limit of all batches when it was reserved."""
    contended: bool = False
    """Whether other batches ran meanwhile."""
    peak: int = 0
    """The most that all batches had reserved meanwhile."""


class MemoryBudget:
    """A memory budget in bytes for batches that run at the same time.

    It shrinks after out-of-memory errors.
    """

    def __init__(self, limit: float) -> None:
        self.largest = limit
        """The most bytes of one batch; a larger one should be divided first."""
        self.too_large = math.inf
        """Bytes of the smallest single matrix that did not fit; none of its size is tried again."""
        self._limit = limit
        """The most bytes of all batches that run at the same time."""
        self._reserved: list[Reservation] = []
        self._changed = threading.Condition()

    @contextmanager
    def reserve(self, need: int) -> Iterator[Reservation]:
        """Wait until the bytes are free, or no other batch runs, and reserve them."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_room_for(need))
            reservation = Reservation(need=need, limit=self._limit)
            self._reserved.append(reservation)
            for reserved in self._reserved:
                reserved.contended |= len(self._reserved) > 1
                reserved.peak = max(reserved.peak, self._reserved_bytes)
        try:
            yield reservation
        finally:
            with self._changed:
                self._reserved.remove(reservation)
                self._changed.notify_all()

    def _has_room_for(self, need: int) -> bool:
        return not self._reserved or self._reserved_bytes + need <= self._limit

    def shrink(self, reservation: Reservation, matrices: int) -> None:
        """Reduce the budget after an out-of-memory error.

        If several batches fail, only the first counts. If other batches were running, fewer run at
        a time from now on. If a batch of several matrices ran alone, batches get smaller. If a
        single matrix ran alone, matrices of its size or larger are no longer tried.
        """
        with self._changed:
            if not reservation.contended and matrices == 1:
                self.too_large = min(self.too_large, reservation.need)
            elif not reservation.contended:
                self.largest = min(self.largest, reservation.need / 2)
            elif self._limit == reservation.limit:
                self._limit = reservation.peak / 2

    def admits(self, need: int, matrices: int) -> bool:
        """Whether a batch of this size should be tried, given the failures so far."""
        if matrices == 1:
            return need < self.too_large
        return need <= self.largest

    @property
    def _reserved_bytes(self) -> int:
        return sum(reservation.need for reservation in self._reserved)


@dataclass(frozen=True, kw_only=True)
class MemoryBudgets:
    """Memory budgets of a device and of the host."""

    device: torch.device
    """Where matrices are merged."""
    gpu: MemoryBudget
    """Of the device's memory."""
    host: MemoryBudget
    """Of host memory, for what does not fit on the device."""
    bytes_per_batch: float
    """Device memory for each of the batches that run at the same time."""


def budgets_of(device: torch.device, memory_bytes: int | None = None) -> MemoryBudgets:
    """The budgets for merging on a device. ``memory_bytes``: of the host; None: what is free."""
    if memory_bytes is None:
        memory_bytes = free_memory()
    free = bytes_free(device)
    return MemoryBudgets(
        device=device,
        gpu=MemoryBudget(free),
        bytes_per_batch=free / GPU_AHEAD,
        host=MemoryBudget(min(memory_bytes, SIDE_BY_SIDE_BYTES)),
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
    is_single = len(works) == 1
    try:
        merged = _merged_on_gpu(works, pool, budgets)
    except (MethodError, NonFiniteError):
        if is_single:
            raise
        return _merged_in_halves(works, pool, budgets)
    if merged is not None:
        return merged
    if is_single:
        return [_merged_on_cpu(works[0], pool, budgets)]
    _note_fallback(works, DIVIDED)
    return _merged_in_halves(works, pool, budgets)


def _merged_on_gpu(
    works: Sequence[TensorMerge], pool: ThreadPoolExecutor, budgets: MemoryBudgets
) -> list[list[OutputChunk]] | None:
    """The merged batch; None if it does not fit, also without its stored tensors in memory.

    A try that ran out of memory lowers the limit, so that there are few.
    """
    budget = budgets.gpu
    need_without_experts = sum(work.gpu_bytes for work in works)
    need = need_without_experts + sum(work.stored_bytes for work in works)
    keeps_experts = need <= budgets.bytes_per_batch and budget.admits(need, len(works))
    if not keeps_experts:
        need = need_without_experts
    while budget.admits(need, len(works)):
        for work in works:
            work.keeps_experts = keeps_experts
        with budget.reserve(need) as reservation:
            merged = _merged_if_it_fits(works, pool)
        if merged is not None:
            return merged
        if budgets.device.type == "cuda":
            torch.cuda.empty_cache()
        budget.shrink(reservation, len(works))
        need = need_without_experts
        keeps_experts = False
        if reservation.contended:
            _note_fallback(works, CROWDED)
    return None


def _merged_on_cpu(
    work: TensorMerge, pool: ThreadPoolExecutor, budgets: MemoryBudgets
) -> list[OutputChunk]:
    """The row merged on the processor. Its report says so."""
    work.note_fallback(FELL_BACK)
    with budgets.host.reserve(work.gpu_bytes):
        return in_the_end(work.pieces(pool))


def _merged_in_halves(
    works: Sequence[TensorMerge], pool: ThreadPoolExecutor, budgets: MemoryBudgets
) -> list[list[OutputChunk]]:
    middle = len(works) // 2
    first = merged_within(works[:middle], pool, budgets)
    return first + merged_within(works[middle:], pool, budgets)


def _note_fallback(works: Sequence[TensorMerge], sentence: str) -> None:
    for work in works:
        work.note_fallback(sentence)


def _merged_if_it_fits(
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
