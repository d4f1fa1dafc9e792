"""The pieces of work into which a merge can be cut, and what carries out one of them.

Layers are independent of each other, so that several processes, on one machine or many, can merge
one model. A unit is what one machine would merge together as well: its rows' results do not depend
on where it runs, or what runs before it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Final, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ace_gui.checkpoints import Readings, torch_dtype
from ace_gui.engine.contract.findings import LayerReport
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.merging.batches import alone, batches
from ace_gui.engine.merging.gpu_memory import Rooms, merged_with_room
from ace_gui.engine.merging.task_vectors import Readers
from ace_gui.engine.merging.tensor_merge import Piece, TensorMerge
from ace_gui.engine.planning.prepare import Prepared

PACKED: Final = 1 << 22
"""Entries of small tensors that make one unit together: sending each by itself would take longer
than merging it."""

Unit = tuple[PlanRow, ...]
"""Rows that are merged in one place, one after another or together."""


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Some elements of an output tensor, from ``start`` on, as the bytes that are written."""

    start: int
    data: NDArray[np.uint8]

    @classmethod
    def of(cls, piece: Piece) -> Stretch:
        """A piece, ready to be sent to another process."""
        flat = piece.values.detach().contiguous().reshape(-1)
        return cls(start=piece.start, data=flat.view(torch.uint8).numpy())

    def values(self, dtype: torch.dtype) -> Tensor:
        """The elements, flat. A copy: what was sent may not be changed."""
        return torch.from_numpy(self.data.copy()).view(dtype)


@dataclass(frozen=True, kw_only=True)
class RowMerged:
    """What came of one row: its elements, in order, and its report."""

    name: str
    tensor: str
    stretches: tuple[Stretch, ...]
    report: LayerReport

    def pieces(self, dtype: torch.dtype) -> Iterator[Piece]:
        """The elements, in order, as they are written; ``dtype``: of the tensor in the output."""
        return (Piece(start=each.start, values=each.values(dtype)) for each in self.stretches)


@dataclass(frozen=True, kw_only=True)
class UnitMerged:
    """What came of a unit. ``readings``: what was read for it; ``seconds``: it took."""

    rows: tuple[RowMerged, ...]
    readings: Readings
    seconds: float


class Workers(Protocol):
    """Processes that merge units. ``threads``: of each. ``device``: on what it computes."""

    threads: int
    device: str

    def merged(
        self, units: Sequence[Unit], prepared: Prepared, dtypes: Mapping[str, str]
    ) -> Iterator[UnitMerged]:
        """The units as they get done, in any order; closing the iterator stops the workers.

        ``dtypes``: of the tensors of the output. Raises what merging raises, and ClusterError.
        """
        ...


def units(rows: Sequence[PlanRow], prepared: Prepared, device: torch.device) -> list[Unit]:
    """All rows, each in one unit: matrices by themselves, or those that a GPU merges together, and
    what is done entry by entry packed, as far as it is small."""
    together = alone if device.type == "cpu" else batches
    found: list[Unit] = [tuple(batch) for batch in together(rows, prepared)]
    pack: list[PlanRow] = []
    for row in rows:
        if prepared.is_whole(row):
            continue
        if pack and sum(prod(each.shape) for each in pack) + prod(row.shape) > PACKED:
            found.append(tuple(pack))
            pack = []
        pack.append(row)
    return found + ([tuple(pack)] if pack else [])


def merge_unit(
    unit: Unit,
    prepared: Prepared,
    readers: Readers,
    rooms: Rooms,
    dtypes: Mapping[str, str],
) -> UnitMerged:
    """Merge the rows of one unit here, on the device of ``rooms``.

    Raises as ``TensorMerge.pieces`` does.
    """
    started = time.monotonic()
    works = [
        TensorMerge(row, prepared, readers, rooms.device, torch_dtype(dtypes[row.tensor]))
        for row in unit
    ]
    one = partial(torch.set_num_threads, 1)
    with ThreadPoolExecutor(torch.get_num_threads(), initializer=one) as pool:
        if prepared.is_whole(unit[0]):
            pieces = merged_with_room(works, pool, rooms)
        else:
            pieces = [list(work.pieces(pool)) for work in works]
    merged = tuple(
        RowMerged(
            name=row.name,
            tensor=row.tensor,
            stretches=tuple(map(Stretch.of, of_row)),
            report=work.report,
        )
        for row, work, of_row in zip(unit, works, pieces, strict=True)
    )
    seconds = time.monotonic() - started
    return UnitMerged(rows=merged, readings=readers.witness.fresh(), seconds=seconds)
