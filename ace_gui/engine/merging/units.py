"""Units of work into which a merge is cut, and the code that merges one.

Layers are independent, so that several processes, on one or many machines, can merge one model. A
unit holds what a single machine would merge together, such as the matrices of a batch on a GPU. Its
result does not depend on where it runs or on what ran before. Units depend on the plan alone:
rounding depends on the batch, and a resumed merge must give the bits of one never interrupted.

As many are merged at a time as memory admits. If the memory of a GPU is full, fewer are.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ace_gui.checkpoints.header import torch_dtype
from ace_gui.checkpoints.reader import Readings
from ace_gui.checkpoints.writer import Shard, write_in_place
from ace_gui.engine.contract.findings import LayerReport
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.merging.readers import Readers
from ace_gui.engine.merging.tensor_merge import (
    CROWDED,
    DIVIDED,
    FELL_BACK,
    OutputChunk,
    TensorMerge,
    in_the_end,
    merge_whole,
)
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.requirements import SIDE_BY_SIDE_BYTES
from ace_gui.engine.streaming import Executor, checksum, packed, single_threads
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

    It shrinks after out-of-memory errors. ``largest``: the most bytes of one batch; a larger one
    should be divided first. ``too_large``: a single matrix of this many bytes did not fit, so
    others of this size are not tried.
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
            for reserved in self._reserved:
                reserved.contended |= len(self._reserved) > 1
                reserved.most = max(reserved.most, self._held)
        try:
            yield reservation
        finally:
            with self._changed:
                self._reserved.remove(reservation)
                self._changed.notify_all()

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
                self._limit = reservation.most / 2

    def admits(self, need: int, matrices: int) -> bool:
        """Whether a batch of this size should be tried, given the failures so far."""
        if matrices == 1:
            return need < self.too_large
        return need <= self.largest

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
    if memory_bytes is None:
        host = free_memory()
    else:
        host = memory_bytes
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
    limit = budgets.gpu
    least = sum(work.gpu_bytes for work in works)
    most = least + sum(work.stored_bytes for work in works)
    keeps = most <= budgets.share and limit.admits(most, len(works))
    needed = most if keeps else least
    while limit.admits(needed, len(works)):
        for work in works:
            work.keeps_experts = keeps
        with limit.reserve(needed) as reservation:
            merged = _tried(works, pool)
        if merged is not None:
            return merged
        if budgets.device.type == "cuda":
            torch.cuda.empty_cache()
        limit.shrink(reservation, len(works))
        needed = least
        keeps = False
        if reservation.contended:
            _note_fallback(works, CROWDED)
    return None


def _merged_on_cpu(
    work: TensorMerge, pool: ThreadPoolExecutor, budgets: MemoryBudgets
) -> list[OutputChunk]:
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


PACKED: Final = 1 << 22
"""Elements of small tensors that form one unit.

Sending each alone would take longer than merging it.
"""

TOKEN: Final = "reachable"
"""Probe file in an unfinished merge.

A process that reads the expected content there can write there, too.
"""

Unit = tuple[PlanRow, ...]
"""Rows that are merged by one process, one after another or together."""

FULL: Final = 1 << 23
"""Elements of the matrices of a batch: enough work for a large GPU, in about half a gigabyte."""

AHEAD: Final = 1 << 25
"""Elements within which matrices of the same shape are searched.

Results may have to wait for the result of the first one: 128 MiB of host memory.
"""


@dataclass(frozen=True, kw_only=True)
class RowMerged:
    """The result of one row: its elements in order, and its report.

    ``stretches``: the first element and the bytes of each piece. ``written``: CRC-32 of the
    elements, if they were written to the output instead of sent.
    """

    name: str
    tensor: str
    stretches: tuple[tuple[int, NDArray[np.uint8]], ...]
    report: LayerReport
    written: int | None = None

    def pieces(self, dtype: torch.dtype) -> Iterator[OutputChunk]:
        """The elements in order, as they are written. ``dtype``: of the tensor in the output."""
        for start, data in self.stretches:  # copies, because received buffers are read-only
            yield OutputChunk(start=start, values=torch.from_numpy(data.copy()).view(dtype))


@dataclass(frozen=True, kw_only=True)
class UnitMerged:
    """The result of a unit.

    ``readings``: checksums of its reads; ``seconds``: duration, including writing.
    """

    rows: tuple[RowMerged, ...]
    readings: Readings
    seconds: float


@dataclass(frozen=True, kw_only=True)
class SharedOutput:
    """Location of the output files, for processes that may reach them.

    ``token``: content of the probe file.
    """

    store: Path
    model: Path
    shards: tuple[Shard, ...]
    token: str

    def is_here(self) -> bool:
        """Whether this process, perhaps on another machine, sees the same files."""
        try:
            return (self.store / TOKEN).read_text(encoding="ascii") == self.token
        except (OSError, ValueError):
            return False

    def write(self, work: TensorMerge, pieces: Iterable[OutputChunk]) -> RowMerged:
        """Write a whole tensor, while its next pieces are computed. Raises OutputError."""
        row = work.row
        shard_of = {tensor.name: shard for shard in self.shards for tensor in shard.tensors}
        running = 0
        for start, data in _stretches(pieces):
            if start == 0:  # also where the merge of a row starts again, as in ``in_the_end``
                running = 0
            write_in_place(self.model, shard_of[row.tensor], row.tensor, start, data)
            running = checksum(torch.from_numpy(data), running)
        return RowMerged(
            name=row.name, tensor=row.tensor, stretches=(), report=work.report, written=running
        )


Scan = Callable[[PlanRow, Readers, ThreadPoolExecutor], Any]
"""What a survey computes from a row before the merge."""


@dataclass(frozen=True, kw_only=True)
class Scanned:
    """What a survey found in some rows, in order.

    ``readings``: checksums of its reads; ``seconds``: duration.
    """

    found: Sequence[Any]
    readings: Readings
    seconds: float


class Workers(Executor, Protocol):
    """Processes that merge units. ``threads``: of each.

    Their iterators yield None while there is nothing new. Closing an iterator stops the work. They
    raise the errors of merging, and ClusterError.
    """

    threads: int

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the workers and how they worked, after the merge."""
        ...

    def begin(self, prepared: Prepared) -> None:
        """Let the workers open the models; call this first."""
        ...

    def scanned(self, scan: Scan, rows: Sequence[PlanRow]) -> Iterator[Scanned | None]:
        """The results of ``scan`` for each row, in order."""
        ...

    def merged(
        self,
        units: Sequence[Unit],
        prepared: Prepared,
        dtypes: Mapping[str, str],
        shared: SharedOutput | None,
    ) -> Iterator[UnitMerged | None]:
        """The merged units as they finish, in any order. ``dtypes``: of the output tensors.

        ``shared``: the output, which workers write to directly if they can reach it.
        """
        ...


def whole_units(rows: Sequence[PlanRow], prepared: Prepared, device: torch.device) -> list[Unit]:
    """The rows that are merged in one piece: alone on a processor, in batches on a GPU.

    Batches are in the order of their first rows.
    """
    whole_rows = [row for row in rows if prepared.is_whole(row)]
    if device.type == "cpu":
        return [(row,) for row in whole_rows]
    together_units: list[Unit] = []
    for window in packed(whole_rows, _elements, AHEAD):
        alike: dict[Any, list[PlanRow]] = {}
        for row in window:
            alike.setdefault(_what_must_agree(row, prepared), []).append(row)
        indices = {row.name: index for index, row in enumerate(window)}
        together = [batch for group in alike.values() for batch in _even(group)]
        together_units += sorted(together, key=lambda batch: indices[batch[0].name])
    return together_units


def units(rows: Sequence[PlanRow], prepared: Prepared, device: torch.device) -> list[Unit]:
    """Split all rows into units.

    A unit is a single matrix, a batch that a GPU merges together, or a pack of small elementwise
    tensors.
    """
    all_units = whole_units(rows, prepared, device)
    small = (row for row in rows if not prepared.is_whole(row))
    return all_units + [tuple(pack) for pack in packed(small, _elements, PACKED)]


def _elements(row: PlanRow) -> int:
    return prod(row.shape)


def _what_must_agree(row: PlanRow, prepared: Prepared) -> Any:
    """A key equal for rows that can be merged together; the row's name if it is merged alone."""
    method = prepared.method_of(row)
    if method.merge_batch is None or not row.experts or prepared.need_of(row) is not None:
        return row.name
    kind = (row.shape, row.transposed, row.dtype, row.experts)
    return (*kind, method.name, prepared.parameters_of(row))


def _even(alike: list[PlanRow]) -> Iterator[Unit]:
    """Split rows into as few batches as ``FULL`` admits, of about the same size."""
    most = max(1, FULL // max(1, prod(alike[0].shape)))
    count = -(-len(alike) // most)
    for number in range(count):
        start, stop = (len(alike) * index // count for index in (number, number + 1))
        yield tuple(alike[start:stop])


def scan_rows(scan: Scan, rows: Sequence[PlanRow], readers: Readers) -> Scanned:
    """Survey rows in this process.

    Counts are returned as one sum at the last row: they are large, and their sum does not depend on
    the order.
    """
    started = time.monotonic()
    contributions = list[Any]()
    counts = None
    with single_threads() as pool:
        for row in rows:
            contribution = scan(row, readers, pool)
            if isinstance(contribution, Tensor) and not contribution.is_floating_point():
                if counts is None:
                    counts = contribution
                else:
                    counts = counts.add_(contribution)
                contribution = None
            contributions.append(contribution)
    if counts is not None:
        contributions[-1] = counts
    seconds = time.monotonic() - started
    return Scanned(found=contributions, readings=readers.checksums.fresh(), seconds=seconds)


def merge_unit(
    unit: Unit,
    readers: Readers,
    budgets: MemoryBudgets,
    dtypes: Mapping[str, str],
    shared: SharedOutput | None = None,
) -> UnitMerged:
    """Merge the rows of one unit in this process, on the device of ``budgets``.

    If the process can reach the output, it writes the result there. Raises the errors of
    ``TensorMerge.pieces``, and OutputError.
    """
    started = time.monotonic()
    works = [
        TensorMerge(row, readers, budgets.device, torch_dtype(dtypes[row.tensor])) for row in unit
    ]
    with single_threads() as pool:
        pieces: Sequence[Iterable[OutputChunk]]
        if readers.prepared.is_whole(unit[0]):
            pieces = merged_within(works, pool, budgets)
        else:
            pieces = [work.pieces(pool) for work in works]  # computed when they are requested
        # Whether it is here is checked for each unit, as the folder may be gone.
        output = shared if shared is not None and shared.is_here() else None
        merged = tuple(map(partial(_row_merged, output), works, pieces))
    seconds = time.monotonic() - started
    return UnitMerged(rows=merged, readings=readers.checksums.fresh(), seconds=seconds)


def _row_merged(
    output: SharedOutput | None, work: TensorMerge, pieces: Iterable[OutputChunk]
) -> RowMerged:
    """The result of a row; what is written need not be sent, but a part of a tensor is sent."""
    row = work.row
    if output is not None and row.part is None:
        return output.write(work, pieces)
    stretches = tuple(_stretches(in_the_end(pieces)))
    return RowMerged(name=row.name, tensor=row.tensor, stretches=stretches, report=work.report)


def _stretches(pieces: Iterable[OutputChunk]) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """The first element and the bytes of each piece."""
    for piece in pieces:
        values = piece.values.detach().contiguous().reshape(-1)
        yield piece.start, values.view(torch.uint8).numpy()
