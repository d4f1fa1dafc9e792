"""Estimates the work of a merge from only the plan, and predicts its time with N workers.

A matrix is O outputs × I inputs; T experts. Each unit goes to the worker that is free first, most
work first, as in ``ray_workers``; one process writes the results.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

import torch

from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.engine.merging.units import Unit, units
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.requirements import with_freed, working_set
from ace_gui.linalg.singular import matrix_shape, shaping_flops
from ace_gui.machine import total_memory
from ace_gui.methods.method import Kind
from ace_gui.stored_formats import FORMATS

UNIT_SECONDS: Final = 0.005
"""Seconds for sending a unit to a worker and receiving its result, not counting its bytes."""

LATE: Final = 0.1
"""Fraction of memory for output that the system has not written to disk yet."""

SOME_FLOPS: Final = 2e10
"""Operations per second assumed for an unknown worker."""

SOME_BYTES: Final = 5e8
"""Bytes per second that an unknown worker is assumed to read or write."""

ENTRY_FLOPS: Final = 4.0
"""Operations per element of each expert: widen, subtract, weight, add."""


def row_flops(row: PlanRow, prepared: Prepared) -> float:
    """Estimated arithmetic operations for merging a row."""
    if not row.is_combined:
        return 0.0
    experts = len(row.experts)
    entries = prod(row.shape)
    method = prepared.method_of(row)
    flops = ENTRY_FLOPS * experts * entries
    if row.after.reshapes:
        flops += shaping_flops(matrix_shape(row.shape))
    if row.disposition is Disposition.AVERAGED or method.kind is not Kind.MATRIX:
        return flops
    if row.transposed:
        shape = tuple(reversed(row.shape))
    else:
        shape = row.shape
    return flops + method.flops(shape, experts, prepared.parameters_of(row))


def row_bytes(row: PlanRow, prepared: Prepared) -> int:
    """Bytes that merging a row reads, and writes in the number format of the output."""
    entries = prod(row.shape)
    models = 1
    if row.is_combined:
        models += len(row.experts)
    output = row.output_dtype(prepared.recipe.out_dtype)
    return entries * (models * FORMATS[row.dtype].bits + FORMATS[output].bits) // 8


def some_seconds(row: PlanRow, prepared: Prepared) -> float:
    """Estimated seconds for merging a row on an unknown worker."""
    return row_flops(row, prepared) / SOME_FLOPS + row_bytes(row, prepared) / SOME_BYTES


def largest_first(units: Iterable[Unit], prepared: Prepared) -> list[Unit]:
    """The units in the order in which workers get them: most work first."""

    def seconds(unit: Unit) -> float:
        return sum(some_seconds(row, prepared) for row in unit)

    return sorted(units, key=seconds, reverse=True)


def unit_bytes(rows: Iterable[PlanRow], prepared: Prepared) -> int:
    """Memory for merging the rows of a unit: that of the largest one, and all results."""
    members = list(rows)
    results = sum(prod(row.shape) * FORMATS[row.store_dtype].bits // 8 for row in members)
    return with_freed(max(working_set(row, prepared) for row in members) + results)


@dataclass(frozen=True, kw_only=True)
class Speed:
    """The speed of one worker, and of the process that writes."""

    flops: float
    """Operations per second."""
    read: float
    """Bytes per second."""
    write: float
    """Bytes per second of the writer."""
    check: float = 0.0
    """Seconds for reading back a byte of the output."""
    tried: Mapping[Any, float] = field(default_factory=dict)
    """Measured seconds for a row of a kind (``kind_of``)."""
    ratios: Mapping[Any, float] = field(default_factory=dict)
    """Measured divided by estimated seconds (``some_seconds``) of the largest trial, by
    ``kind_without_shape``.
    """
    scan: float = 0.0
    """Seconds for one worker to survey the whole model."""
    start: float = 0.0
    """Seconds until the merge begins: for the program, opening the models, and the workers."""

    def seconds(self, row: PlanRow, prepared: Prepared) -> float:
        """Seconds for merging a row, including reading."""
        kind = kind_of(row, prepared)
        alike = kind_without_shape(row, prepared)
        if kind in self.tried:
            return self.tried[kind]
        if alike in self.ratios:
            return self.ratios[alike] * some_seconds(row, prepared)
        computing = row_flops(row, prepared) / self.flops
        reading = row_bytes(row, prepared) / self.read
        return computing + reading


@dataclass(frozen=True, kw_only=True)
class PlannedUnit:
    """One unit of work."""

    name: str
    """Its first tensor."""
    rows: int
    """Number of its rows."""
    flops: float
    """Number of operations."""
    bytes: int
    """Bytes to read and write."""
    memory: int
    """Bytes while it is merged."""
    seconds: float
    """On one worker."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A merge by ``workers``: ``seconds`` from starting them to the last byte.

    ``busy``: share of their time; ``bottleneck``: "work", "largest unit" or "writing".
    """

    workers: int
    seconds: float
    busy: float
    bottleneck: str


def planned_units(prepared: Prepared, speed: Speed) -> list[PlannedUnit]:
    """Every unit of a merge, in the order of assignment."""
    rows = [row for row in prepared.plan.rows if row.in_base]
    unordered = units(rows, prepared, torch.device("cpu"))
    return [
        PlannedUnit(
            name=unit[0].name,
            rows=len(unit),
            flops=sum(row_flops(row, prepared) for row in unit),
            bytes=sum(row_bytes(row, prepared) for row in unit),
            memory=unit_bytes(unit, prepared),
            seconds=sum(speed.seconds(row, prepared) for row in unit),
        )
        for unit in largest_first(unordered, prepared)
    ]


def schedule(
    planned: Sequence[PlannedUnit], workers: int, bytes_to_write: int, speed: Speed
) -> Schedule:
    """The time until the last unit is written and the output read back by the one that writes.

    ``planned``: in the order of assignment.
    """
    free = [0.0] * workers
    for unit in planned:
        heapq.heappush(free, heapq.heappop(free) + unit.seconds + UNIT_SECONDS)
    work = speed.scan + sum(unit.seconds + UNIT_SECONDS for unit in planned)
    merged = max(free)
    # The writer writes while units are merged. At the end, the system still holds a part in memory.
    late = min(bytes_to_write, LATE * total_memory()) / speed.write
    meanwhile = bytes_to_write / speed.write - late
    longest = max((unit.seconds for unit in planned), default=0.0)
    if meanwhile > merged:
        bottleneck = "writing"
    elif merged > 1.1 * longest:
        bottleneck = "work"
    else:
        bottleneck = "largest unit"
    checking = bytes_to_write * speed.check
    seconds = speed.start + speed.scan / workers + max(merged, meanwhile) + late + checking
    return Schedule(
        workers=workers,
        seconds=seconds,
        busy=work / (workers * seconds) if seconds else 0.0,
        bottleneck=bottleneck,
    )


def kind_of(row: PlanRow, prepared: Prepared) -> tuple[Any, ...]:
    """A key that is equal for rows with the same duration."""
    return (row.shape, row.transposed, *kind_without_shape(row, prepared))


def kind_without_shape(row: PlanRow, prepared: Prepared) -> tuple[Any, ...]:
    """A key that is equal for rows whose durations differ only by their shapes."""
    if row.is_combined:
        method = prepared.method_of(row).name
    else:
        method = ""
    return (row.dtype, row.disposition, len(row.experts), method)
