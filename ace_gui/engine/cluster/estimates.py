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

from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.merging.units import Unit, units
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.requirements import with_freed, working_set
from ace_gui.engine.planning.row_work import assumed_seconds, row_bytes, row_flops
from ace_gui.machine import total_memory
from ace_gui.stored_formats import FORMATS

UNIT_SECONDS: Final = 0.005
"""Seconds for sending a unit to a worker and receiving its result, not counting its bytes."""

UNWRITTEN_SHARE: Final = 0.1
"""Share of the machine's memory that the system fills with output before it writes to the disk."""


def largest_first(unordered: Iterable[Unit], prepared: Prepared) -> list[Unit]:
    """The units in the order in which workers get them: most work first."""

    def seconds(unit: Unit) -> float:
        return sum(assumed_seconds(row, prepared) for row in unit)

    return sorted(unordered, key=seconds, reverse=True)


def unit_bytes(rows: Iterable[PlanRow], prepared: Prepared) -> int:
    """Memory for merging the rows of a unit: that of the largest one, and all results.

    ``with_freed`` adds what the allocator keeps of freed memory.
    """
    unit = list(rows)
    results = sum(prod(row.shape) * FORMATS[row.store_dtype].bits // 8 for row in unit)
    largest = max(working_set(row, prepared) for row in unit)
    return with_freed(largest + results)


@dataclass(frozen=True, kw_only=True)
class Speed:
    """The speed of one worker, and of the process that writes.

    Several fields have the names that the JSON of ``merge --dry-run`` has.
    """

    flops: float
    """Operations per second."""
    read: float
    """Bytes per second that a worker reads."""
    write: float
    """Bytes per second that the writer writes."""
    check_seconds_per_byte: float = 0.0
    """For reading the output back; 0: unknown."""
    seconds_by_kind: Mapping[Any, float] = field(default_factory=dict)
    """Measured seconds for a row, by kind of row (``kind_of``)."""
    ratios: Mapping[Any, float] = field(default_factory=dict)
    """Measured seconds divided by ``assumed_seconds``, by ``kind_without_shape``. If rows of
    several shapes were tried, from the one with the most work.
    """
    scan: float = 0.0
    """Seconds for one worker to survey the whole model."""
    start: float = 0.0
    """Seconds until the merge begins: for the program, opening the models, and the workers."""

    def seconds(self, row: PlanRow, prepared: Prepared) -> float:
        """Seconds for merging a row, including reading."""
        kind = kind_of(row, prepared)
        if kind in self.seconds_by_kind:
            return self.seconds_by_kind[kind]
        general_kind = kind_without_shape(row, prepared)
        if general_kind in self.ratios:
            return self.ratios[general_kind] * assumed_seconds(row, prepared)
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
    """Number of arithmetic operations."""
    bytes: int
    """Bytes to read and write."""
    memory: int
    """Bytes of memory while it is merged."""
    seconds: float
    """Seconds on one worker, without sending."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The times of a merge."""

    workers: int
    """Number of workers."""
    seconds: float
    """From starting the workers to the last byte on the disk."""
    busy: float
    """Share of the workers' time in which they work."""
    bottleneck: str
    """What takes the longest: "work", "largest unit" or "writing"."""


def planned_units(prepared: Prepared, speed: Speed) -> list[PlannedUnit]:
    """Every unit of a merge, in the order of assignment."""
    rows = [row for row in prepared.plan.rows if row.in_base]
    unordered = units(rows, prepared, torch.device("cpu"))
    planned = []
    for unit in largest_first(unordered, prepared):
        planned_unit = PlannedUnit(
            name=unit[0].name,
            rows=len(unit),
            flops=sum(row_flops(row, prepared) for row in unit),
            bytes=sum(row_bytes(row, prepared) for row in unit),
            memory=unit_bytes(unit, prepared),
            seconds=sum(speed.seconds(row, prepared) for row in unit),
        )
        planned.append(planned_unit)
    return planned


def schedule(
    planned: Sequence[PlannedUnit], workers: int, bytes_to_write: int, speed: Speed
) -> Schedule:
    """The time until the last unit is written and the output read back by the one that writes.

    ``planned``: in the order of assignment.
    """
    free_at = [0.0] * workers  # a heap: when each worker is free, after the survey
    for unit in planned:
        start = heapq.heappop(free_at)
        heapq.heappush(free_at, start + unit.seconds + UNIT_SECONDS)
    merge_seconds = max(free_at)
    # The writer writes while units are merged. At the end, the system still holds a part in memory,
    # which it writes then.
    unwritten = min(bytes_to_write, UNWRITTEN_SHARE * total_memory())
    seconds_at_end = unwritten / speed.write
    seconds_meanwhile = bytes_to_write / speed.write - seconds_at_end
    longest = max((unit.seconds for unit in planned), default=0.0)
    if seconds_meanwhile > merge_seconds:
        bottleneck = "writing"
    elif merge_seconds > 1.1 * longest:  # clearly more: another worker would help
        bottleneck = "work"
    else:
        bottleneck = "largest unit"
    seconds = speed.start + speed.scan / workers + max(merge_seconds, seconds_meanwhile)
    seconds += seconds_at_end + bytes_to_write * speed.check_seconds_per_byte
    work_seconds = speed.scan + sum(unit.seconds + UNIT_SECONDS for unit in planned)
    busy = 0.0
    if seconds:
        busy = work_seconds / (workers * seconds)
    return Schedule(workers=workers, seconds=seconds, busy=busy, bottleneck=bottleneck)


def kind_of(row: PlanRow, prepared: Prepared) -> tuple[Any, ...]:
    """A key that is equal for rows that take as long as each other."""
    return (row.shape, row.transposed, *kind_without_shape(row, prepared))


def kind_without_shape(row: PlanRow, prepared: Prepared) -> tuple[Any, ...]:
    """A key that is equal for rows whose durations differ only by their shapes."""
    if row.is_combined:
        method = prepared.method_of(row).name
    else:
        method = ""
    return (row.dtype, row.disposition, len(row.experts), method)
