"""How long a merge by N workers will take: from the plan, and from how fast a worker is.

Units go to the worker that is free first, those with most work first, as ``ray_workers`` does it;
one process writes what they send.
"""

from __future__ import annotations

import heapq
import math
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from math import prod
from statistics import fmean
from tempfile import TemporaryFile
from typing import Any, Final

import torch

from ace_gui.engine.cluster.estimates import largest_first, row_bytes, row_flops, unit_bytes
from ace_gui.engine.cluster.ray_workers import LOOKED
from ace_gui.engine.contract.plan import COMBINED, PlanRow
from ace_gui.engine.merging.gpu_memory import rooms_of
from ace_gui.engine.merging.measured_rows import need_of
from ace_gui.engine.merging.surveying import groups, look_for, survey_of
from ace_gui.engine.merging.task_vectors import Readers
from ace_gui.engine.merging.units import Look, Unit, Workers, look_at, merge_unit, units
from ace_gui.engine.planning.prepare import Prepared
from ace_gui.errors import MethodError, NonFiniteError
from ace_gui.machine import total_memory
from ace_gui.stored_formats import FORMATS

UNIT_SECONDS: Final = 0.005
"""What giving a unit to a worker and taking what it sends costs beside its bytes."""

LATE: Final = 0.1
"""Of the memory: as much of the output the system keeps there, and writes at the end."""

TELLING: Final = 1 << 20
"""Bytes of a row that say how fast a worker reads: of fewer, all else takes longer."""

PUT: Final = 1 << 25
"""Bytes that are written, to see how fast that is before they go to the disk."""

MOST_LOOKS: Final = 16
"""Of one row by one worker, to see how long one takes."""

TRIALS: Final = 2
"""Of a row on a worker: the first warms it."""

TRIAL_SECONDS: Final = 8.0
"""For which matrices are tried, to see how fast a worker is."""


@dataclass(frozen=True, kw_only=True)
class Speed:
    """How fast one worker is, and the one that writes.

    ``flops``, ``read``: operations and bytes a second; ``write``: bytes a second of the writer.
    ``tried``: seconds of rows of a kind that were merged to see it. ``look``: seconds in which one
    worker looks at the whole model; ``start``: until workers are there. ``put``: bytes a second
    that a worker checks and gives to the system to be written.
    """

    flops: float
    read: float
    write: float
    tried: Mapping[Any, float] = field(default_factory=dict)
    look: float = 0.0
    start: float = 0.0
    put: float = math.inf

    def seconds(self, row: PlanRow, prepared: Prepared) -> float:
        """Of merging a row, its reading included."""
        put = prod(row.shape) * FORMATS[row.store_dtype].bits / 8 / self.put
        known = self.tried.get(_kind(row, prepared))
        if known is not None:
            return known + put
        moved = row_bytes(row, row.store_dtype) / self.read
        return row_flops(row, prepared) / self.flops + moved + put


@dataclass(frozen=True, kw_only=True)
class PlannedUnit:
    """One unit: its first tensor and how many, arithmetic, bytes, memory, seconds on one worker."""

    name: str
    rows: int
    flops: float
    bytes: int
    memory: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A merge by ``workers``: ``seconds`` from when they are asked for to the last byte.

    ``bottleneck``: what decides that: "work", "largest unit" or "writing".
    """

    workers: int
    seconds: float
    busy: float
    bottleneck: str


def planned_units(prepared: Prepared, speed: Speed, *, gpu: bool = False) -> list[PlannedUnit]:
    """Every unit of a merge, in the order in which they are given."""
    rows = [row for row in prepared.plan.rows if row.in_base]
    found = units(rows, prepared, torch.device("cuda" if gpu else "cpu"))
    return [_planned(unit, prepared, speed) for unit in largest_first(found, prepared)]


def _planned(unit: Unit, prepared: Prepared, speed: Speed) -> PlannedUnit:
    return PlannedUnit(
        name=unit[0].name,
        rows=len(unit),
        flops=sum(row_flops(row, prepared) for row in unit),
        bytes=sum(row_bytes(row, row.store_dtype) for row in unit),
        memory=unit_bytes(unit, prepared),
        seconds=sum(speed.seconds(row, prepared) for row in unit),
    )


def schedule(
    planned: Sequence[PlannedUnit], workers: int, bytes_to_write: int, speed: Speed
) -> Schedule:
    """When the last unit is done and written; ``planned``: in the order in which they are given."""
    free = [0.0] * workers
    for unit in planned:
        heapq.heappush(free, heapq.heappop(free) + unit.seconds + UNIT_SECONDS)
    work = speed.look + sum(unit.seconds + UNIT_SECONDS for unit in planned)
    merged, written = max(free), bytes_to_write / speed.write
    late = min(bytes_to_write, LATE * total_memory()) / speed.write
    longest = max((unit.seconds for unit in planned), default=0.0)
    bottleneck = "work" if merged > 1.1 * longest else "largest unit"
    seconds = speed.start + speed.look / workers + max(merged, written - late) + late
    return Schedule(
        workers=workers,
        seconds=seconds,
        busy=work / (workers * seconds) if seconds else 0.0,
        bottleneck="writing" if written - late > merged else bottleneck,
    )


def measured(prepared: Prepared, write: float, workers: Workers | None = None) -> Speed:
    """The speed of each of the workers, None: of this process, by merging one row of every kind,
    the smallest kinds first; on all workers at once, as they share the machine's memory.

    What does not fit into ``TRIAL_SECONDS`` is told from the rate of the largest that did. Rows
    whose method needs data are not tried. ``write``: bytes a second.

    Raises CheckpointError, FileChangedError, ResourceError and ClusterError.
    """
    prepared = replace(prepared, findings=dict(prepared.findings))
    look = _looking(prepared, workers)
    try_row = _here(prepared) if workers is None else partial(_there, workers, prepared)
    tried: dict[Any, float] = {}
    flops, read, left = 2e10, 5e8, TRIAL_SECONDS
    for kind, row in _kinds(prepared):
        if row_flops(row, prepared) / flops > left:
            continue
        started = time.monotonic()
        try:
            tried[kind] = try_row(row)
        except (MethodError, NonFiniteError):  # the merge itself will say so
            continue
        left -= time.monotonic() - started
        if prepared.is_whole(row):
            flops = max(row_flops(row, prepared), 1.0) / tried[kind]
        elif (moved := row_bytes(row, row.store_dtype)) > TELLING:
            read = moved / tried[kind]
    return Speed(flops=flops, read=read, write=write, tried=tried, look=look, put=_put_rate())


def _put_rate() -> float:
    block = bytes(PUT)
    with TemporaryFile() as file:
        started = time.monotonic()
        zlib.crc32(block)
        file.write(block)
        return PUT / (time.monotonic() - started)


def _here(prepared: Prepared) -> Callable[[PlanRow], float]:
    readers, rooms = Readers(prepared), rooms_of(torch.device("cpu"))
    dtypes = {row.tensor: row.store_dtype for row in prepared.plan.rows}
    return lambda row: min(
        merge_unit((row,), prepared, readers, rooms, dtypes).seconds for _ in range(TRIALS)
    )


def _there(workers: Workers, prepared: Prepared, row: PlanRow) -> float:
    """By all workers at the same time: their mean, after each is warm."""
    dtypes = {each.tensor: each.store_dtype for each in prepared.plan.rows}
    units = [(row,)] * (TRIALS * workers.count)
    found = [each.seconds for each in workers.merged(units, prepared, dtypes, None) if each]
    return fmean(found[-workers.count :])


def _looking(prepared: Prepared, workers: Workers | None) -> float:
    """Seconds in which one worker looks at the whole model, from trying one row in each pass.

    So that rows can be tried, ``prepared`` gets what would be found of a model without tensors.
    """
    readers, seconds = Readers(prepared), 0.0
    for group in groups(prepared):
        survey = survey_of(group, len(prepared.experts))
        if survey is None:
            continue
        entries = sum(prod(row.shape) for row in group.rows)
        row = _middle(group.rows)
        unfinished = True
        while unfinished:
            look = partial(look_for, survey=survey)
            share = entries / max(prod(row.shape), 1)
            seconds += share * _one_look(look, row, prepared, readers, workers)
            unfinished = survey.finish_pass()
        prepared.findings[group.method.name, group.parameters] = survey.findings
    return seconds


def _one_look(
    look: Look, row: PlanRow, prepared: Prepared, readers: Readers, workers: Workers | None
) -> float:
    """Seconds that a worker takes for a row; where they fill calls, all look at once."""
    if workers is None:
        started = time.monotonic()
        look_at(look, (row,), prepared, readers)
        return time.monotonic() - started
    filling = min(max(1, LOOKED // max(prod(row.shape), 1)), MOST_LOOKS)
    rows = (row,) * (filling * workers.count)
    at_once = min(workers.count, -(-prod(row.shape) * len(rows) // LOOKED))
    started = time.monotonic()
    for _ in workers.looked(look, rows):
        pass
    return (time.monotonic() - started) * at_once / len(rows)


def _middle(rows: Sequence[PlanRow]) -> PlanRow:
    """The one in which the middle entry lies, when they are sorted by size."""
    by_size = sorted(rows, key=lambda row: prod(row.shape))
    half = sum(prod(row.shape) for row in rows) / 2
    reached = accumulate(prod(row.shape) for row in by_size)
    return next(row for row, entries in zip(by_size, reached, strict=True) if entries >= half)


def _kinds(prepared: Prepared) -> Iterator[tuple[Any, PlanRow]]:
    """One row of every kind, the least work first; from the middle of the model."""
    alike: defaultdict[Any, list[PlanRow]] = defaultdict(list)
    for row in prepared.plan.rows:
        if row.in_base and 0 not in row.shape and need_of(row, prepared) is None:
            alike[_kind(row, prepared)].append(row)
    by_work = sorted(alike.items(), key=lambda item: row_flops(item[1][0], prepared))
    return ((kind, rows[len(rows) // 2]) for kind, rows in by_work)


def _kind(row: PlanRow, prepared: Prepared) -> Any:
    """Equal for rows that take the same time to merge."""
    method = prepared.method_of(row).name if row.disposition in COMBINED else ""
    return (row.shape, row.transposed, row.dtype, row.disposition, len(row.experts), method)
