"""Units of work into which a merge is cut, and the code that merges one.

Layers are independent, so that several processes, on one or many machines, can merge one model. A
unit holds what a single machine would merge together, such as the matrices of a batch on a GPU. Its
result does not depend on where it runs or on what ran before. Units depend on the plan alone:
rounding depends on the batch, and a resumed merge must give the bits of one never interrupted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
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
from ace_gui.engine.merging.memory_budgets import MemoryBudgets, merged_within
from ace_gui.engine.merging.readers import Readers
from ace_gui.engine.merging.tensor_merge import (
    OutputChunk,
    TensorMerge,
    in_the_end,
)
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.streaming import Executor, checksum, packed, single_threads

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
    """The result of one row."""

    name: str
    """The row."""
    tensor: str
    """The stored tensor that it is, or is a part of."""
    stretches: tuple[tuple[int, NDArray[np.uint8]], ...]
    """Its elements in order: the first element and the bytes of each piece. Empty if written."""
    report: LayerReport
    """What the merge of the row gave besides."""
    written: int | None = None
    """CRC-32 of the elements, if they were written to the output instead of sent; None: sent."""

    def pieces(self, dtype: torch.dtype) -> Iterator[OutputChunk]:
        """The elements in order, as they are written. ``dtype``: of the tensor in the output."""
        for start, data in self.stretches:  # copies, because received buffers are read-only
            yield OutputChunk(start=start, values=torch.from_numpy(data.copy()).view(dtype))


@dataclass(frozen=True, kw_only=True)
class UnitMerged:
    """The result of a unit."""

    rows: tuple[RowMerged, ...]
    """Of its rows, in order."""
    readings: Readings
    """Checksums of its reads."""
    seconds: float
    """How long it took, including writing."""


@dataclass(frozen=True, kw_only=True)
class SharedOutput:
    """Location of the output files, for processes that may reach them."""

    store: Path
    """The store's folder, with the probe file."""
    model: Path
    """The folder of the shards."""
    shards: tuple[Shard, ...]
    """The files of the model, and their tensors."""
    token: str
    """Content of the probe file."""

    def is_here(self) -> bool:
        """Whether this process, perhaps on another machine, sees the same files."""
        try:
            return (self.store / TOKEN).read_text(encoding="ascii") == self.token
        except (OSError, ValueError):
            return False

    def write(self, work: TensorMerge, pieces: Iterable[OutputChunk]) -> RowMerged:
        """Write a whole tensor, while its next pieces are computed. Raises OutputError."""
        row = work.row
        shard = self._shard_of(row.tensor)
        written = 0
        for start, data in _stretches(pieces):
            if start == 0:  # also where the merge of a row starts again, as in ``in_the_end``
                written = 0
            write_in_place(self.model, shard, row.tensor, start, data)
            written = checksum(torch.from_numpy(data), written)
        return RowMerged(
            name=row.name, tensor=row.tensor, stretches=(), report=work.report, written=written
        )

    def _shard_of(self, tensor: str) -> Shard:
        """The file with a tensor."""
        for shard in self.shards:
            if any(output.name == tensor for output in shard.tensors):
                return shard
        raise KeyError(tensor)


Scan = Callable[[PlanRow, Readers, ThreadPoolExecutor], Any]
"""What a survey computes from a row before the merge."""


@dataclass(frozen=True, kw_only=True)
class Scanned:
    """What a survey found in some rows."""

    contributions: Sequence[Any]
    """Of every row, in order."""
    readings: Readings
    """Checksums of its reads."""
    seconds: float
    """How long it took."""


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
    all_batches: list[Unit] = []
    for window in packed(whole_rows, _elements, AHEAD):
        groups: dict[Any, list[PlanRow]] = {}
        for row in window:
            groups.setdefault(_what_must_agree(row, prepared), []).append(row)
        batches: list[Unit] = []
        for group in groups.values():
            batches += _even_batches(group)
        indices = {row.name: index for index, row in enumerate(window)}
        batches.sort(key=lambda batch: indices[batch[0].name])
        all_batches += batches
    return all_batches


def units(rows: Sequence[PlanRow], prepared: Prepared, device: torch.device) -> list[Unit]:
    """Split all rows into units.

    A unit is a single matrix, a batch that a GPU merges together, or a pack of small elementwise
    tensors.
    """
    all_units = whole_units(rows, prepared, device)
    elementwise = (row for row in rows if not prepared.is_whole(row))
    all_units += [tuple(pack) for pack in packed(elementwise, _elements, PACKED)]
    return all_units


def _elements(row: PlanRow) -> int:
    return prod(row.shape)


def _what_must_agree(row: PlanRow, prepared: Prepared) -> Any:
    """A key equal for rows that can be merged together; the row's name if it is merged alone."""
    method = prepared.method_of(row)
    if method.merge_batch is None or not row.experts or prepared.need_of(row) is not None:
        return row.name
    kind = (row.shape, row.transposed, row.dtype, row.experts)
    return (*kind, method.name, prepared.parameters_of(row))


def _even_batches(rows: list[PlanRow]) -> Iterator[Unit]:
    """Split rows of one shape into as few batches as ``FULL`` admits, of about the same size."""
    most = max(1, FULL // max(1, prod(rows[0].shape)))
    count = math.ceil(len(rows) / most)
    borders = [len(rows) * number // count for number in range(count + 1)]
    for start, stop in pairwise(borders):
        yield tuple(rows[start:stop])


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
    return Scanned(contributions=contributions, readings=readers.checksums.fresh(), seconds=seconds)


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
    works = []
    for row in unit:
        dtype = torch_dtype(dtypes[row.tensor])
        works.append(TensorMerge(row, readers, budgets.device, dtype))
    with single_threads() as pool:
        pieces: Sequence[Iterable[OutputChunk]]
        if readers.prepared.is_whole(unit[0]):
            pieces = merged_within(works, pool, budgets)
        else:
            pieces = [work.pieces(pool) for work in works]  # computed when they are requested
        output = None
        if shared is not None and shared.is_here():  # asked for each unit: it may be gone by now
            output = shared
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
