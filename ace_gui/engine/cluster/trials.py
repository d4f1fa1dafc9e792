"""Measures the speed of workers on some units of the merge itself.

No cost model of a method is needed. Trials are timed from reading to writing, on all workers at
once, because these share a machine's memory and disk. Without workers, this process tries as many
matrices at once as it would merge at once. Then the output is read back, as at the end of a merge.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any, Final

import torch

from ace_gui.checkpoints.writer import OutputTensor, Shard, ShardedWriter, plan_shards
from ace_gui.engine.cluster.estimates import Speed, kind_of, kind_without_shape
from ace_gui.engine.cluster.ray_workers import SCANNED_ELEMENTS, RayWorkers
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.merging.memory_budgets import budgets_of
from ace_gui.engine.merging.readers import Readers
from ace_gui.engine.merging.store import verify_shards
from ace_gui.engine.merging.surveying import SurveyGroup, groups, surveyed
from ace_gui.engine.merging.units import (
    PACKED,
    TOKEN,
    SharedOutput,
    Unit,
    UnitMerged,
    merge_unit,
    units,
)
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.requirements import matrices_at_once
from ace_gui.engine.planning.row_work import (
    ASSUMED_BYTES,
    ASSUMED_FLOPS,
    assumed_seconds,
    row_bytes,
    row_flops,
)
from ace_gui.engine.streaming import ordered
from ace_gui.errors import MethodError, NonFiniteError, OutputError
from ace_gui.output_files import sync
from ace_gui.steps import Steps, result_of

CPU: Final = torch.device("cpu")

LARGE: Final = 1 << 20
"""Bytes of a row that suffice to measure reading; with fewer, other costs dominate."""

ROUNDS: Final = 3
"""Most rows of a kind that each worker merges, as far as rows and time suffice."""

TRIAL_SECONDS: Final = 20.0
"""Seconds for trials of rows, at least."""

TRIAL_SHARE: Final = 0.05
"""Share of the merge's time for trials of rows, where that is more."""

LARGE_UNIT: Final = PACKED // 4
"""Elements above which a unit is large; such a one is not tried twice without need."""

TRIAL: Final = "a trial"
"""The token of a trial's output folder, by which workers recognise it."""

MergeUnits = Callable[
    [Sequence[Unit], Prepared, Mapping[str, str], SharedOutput | None], Iterator[UnitMerged | None]
]
"""The same type as ``Workers.merged``."""


def measured_speed(prepared: Prepared, workers: RayWorkers | None = None) -> Speed:
    """The speed of each of the ``workers``; None: of this process.

    Raises the errors of ``measuring_speed``.
    """
    return result_of(measuring_speed(prepared, workers))


def measuring_speed(
    prepared: Prepared,
    workers: RayWorkers | None = None,
    *,
    device: torch.device = CPU,
    most_seconds: float = math.inf,
) -> Steps[Speed]:
    """Measure the speed of each of the ``workers``; None: of this process, on the ``device``.

    Merges rows of every kind, the smallest kinds first, into a temporary folder. Rows beyond
    ``TRIAL_SECONDS``, or ``most_seconds``, are estimated from the largest similar trial. Rows whose
    method needs data are not tried. Raises CheckpointError, FileChangedError, OutputError,
    ResourceError and ClusterError.
    """
    # The findings of trials are put into a copy, as they are of some rows only.
    groundwork = replace(prepared.groundwork, findings=dict(prepared.groundwork.findings))
    prepared = replace(prepared, groundwork=groundwork)
    scan = 0.0
    for group in groups(prepared):
        scan += yield from _scan_seconds(group, prepared, workers)
    began = time.monotonic()
    readers = Readers(prepared)
    trials = list[tuple[PlanRow, _TrialTimes]]()
    speed = _speed_of(trials, prepared, scan)
    with TemporaryDirectory(prefix="ace-trial-") as folder:
        for rows in _rows_by_kind(prepared):
            setup = _setup_for(rows[0], readers, workers, device)
            expected = speed.seconds(rows[0], prepared) * setup.units_per_worker
            allowed = min(_seconds_for_trials(prepared, speed), most_seconds)
            spent = time.monotonic() - began
            remaining = allowed - spent
            if expected > remaining:
                continue
            if ROUNDS * expected < remaining:
                rounds = ROUNDS
            else:
                rounds = 1
            sample = _units_to_try(rows, prepared, setup, rounds)
            try:
                times = yield from _times_of_trial(sample, prepared, setup, Path(folder))
            except (MethodError, NonFiniteError):  # the merge itself reports it
                continue
            trials.append((rows[0], times))
            speed = _speed_of(trials, prepared, scan)
    return speed


def _seconds_for_trials(prepared: Prepared, speed: Speed) -> float:
    """Seconds for trials of a merge, by how long it takes at this speed."""
    forecast = sum(speed.seconds(row, prepared) for row in prepared.plan.rows if row.in_base)
    return max(TRIAL_SECONDS, TRIAL_SHARE * forecast)


@dataclass(frozen=True, kw_only=True)
class _TrialSetup:
    """How the rows of a kind are tried."""

    merge_units: MergeUnits
    """What merges units."""
    units_at_once: int
    """Number of units that are merged at once."""
    units_per_worker: int
    """How many of these one worker, or this process, merges. Each of them then takes that many
    times as long as a unit alone.
    """
    device: torch.device
    """Where they are merged."""


def _setup_for(
    row: PlanRow, readers: Readers, workers: RayWorkers | None, device: torch.device
) -> _TrialSetup:
    """Trials of such rows by the workers, or by this process as it merges."""
    if workers is not None:
        return _TrialSetup(
            merge_units=workers.merged, units_at_once=workers.count, units_per_worker=1, device=CPU
        )
    if readers.prepared.is_whole(row) and device.type == "cpu":
        at_once = matrices_at_once(readers.prepared, limit=None)
    else:
        at_once = 1
    merge_units = partial(_merged_here, readers, at_once, device)
    return _TrialSetup(
        merge_units=merge_units, units_at_once=at_once, units_per_worker=at_once, device=device
    )


@dataclass(frozen=True, kw_only=True)
class _TrialTimes:
    """Durations of the trials of a kind of row."""

    seconds: float
    """Seconds of one row, for one worker."""
    synced_bytes: int
    """Bytes of the tensors that were written and then flushed to the disk."""
    sync_seconds: float
    """Seconds that flushing them took."""
    check_seconds: float
    """Seconds to read these bytes back; 0 if they were not."""


def _speed_of(
    trials: Sequence[tuple[PlanRow, _TrialTimes]], prepared: Prepared, scan: float
) -> Speed:
    """The speed computed from these trials, the smallest first."""
    large = [trial for trial in trials if row_bytes(trial[0], prepared) > LARGE]
    flops = ASSUMED_FLOPS
    read = ASSUMED_BYTES
    for row, times in large:  # they go from small to large: the largest for each speed stays
        if prepared.is_whole(row):
            flops = max(row_flops(row, prepared), 1.0) / times.seconds
        else:
            read = row_bytes(row, prepared) / times.seconds
    sync_seconds = sum(times.sync_seconds for _, times in large)
    write = ASSUMED_BYTES
    if sync_seconds:
        write = sum(times.synced_bytes for _, times in large) / sync_seconds
    check_seconds_per_byte = 0.0
    checked = [times for _, times in large if times.check_seconds]
    if checked:
        # The largest alone: starting the threads takes as long as reading a small file.
        largest = max(checked, key=lambda times: times.synced_bytes)
        check_seconds_per_byte = largest.check_seconds / largest.synced_bytes
    ratios = {}
    for row, times in large:  # here, too, the largest for each key stays
        ratio = times.seconds / assumed_seconds(row, prepared)
        ratios[kind_without_shape(row, prepared)] = ratio
    seconds_by_kind = {kind_of(row, prepared): times.seconds for row, times in trials}
    return Speed(
        flops=flops,
        read=read,
        write=write,
        check_seconds_per_byte=check_seconds_per_byte,
        seconds_by_kind=seconds_by_kind,
        ratios=ratios,
        scan=scan,
    )


def _rows_by_kind(prepared: Prepared) -> Iterator[list[PlanRow]]:
    """The rows of every kind, the least work first."""
    rows_by_kind: defaultdict[Any, list[PlanRow]] = defaultdict(list)
    for row in prepared.plan.rows:
        if row.in_base and 0 not in row.shape and prepared.need_of(row) is None:
            rows_by_kind[kind_of(row, prepared)].append(row)
    kinds = list(rows_by_kind.values())
    kinds.sort(key=lambda rows: assumed_seconds(rows[0], prepared))
    return iter(kinds)


def _times_of_trial(
    sample: Sequence[Unit], prepared: Prepared, setup: _TrialSetup, folder: Path
) -> Steps[_TrialTimes]:
    """How long it takes to merge, write and read back units of rows of one kind."""
    rows: dict[str, PlanRow] = {}  # by the stored tensor's name
    for tried in sample:
        for row in tried:
            rows[row.tensor] = row
    dtype = sample[0][0].output_dtype(prepared.recipe.out_dtype)
    outputs = []
    for name, row in rows.items():
        if row.part is None:  # parts are sent, not written by workers
            outputs.append(OutputTensor(name=name, dtype=dtype, shape=row.tensor_shape))
    synced_bytes = sum(output.nbytes for output in outputs)
    limit = synced_bytes + 1  # of a shard, so that all fit into one
    shards = plan_shards(outputs, limit)
    (folder / TOKEN).write_text(TRIAL, encoding="ascii")
    shared = SharedOutput(store=folder, model=folder, shards=shards, token=TRIAL)
    ShardedWriter(folder, shards)  # makes the files, to which workers write
    events = setup.merge_units(sample, prepared, dict.fromkeys(rows, dtype), shared)
    merged = []
    for unit in events:
        if unit is not None:
            merged.append(unit)
        yield
    seconds = [unit.seconds for unit in merged]
    files = [folder / shard.file_name for shard in shards]
    started = time.monotonic()
    for file in files:
        sync(file)
    sync_seconds = time.monotonic() - started
    check_seconds = _check_seconds(folder, shards, merged)
    for file in files:
        file.unlink()
    if len(seconds) > setup.units_at_once:  # of several rounds, the first only warms workers up
        seconds = seconds[setup.units_at_once :]
    rows_per_unit = len(sample[0])
    seconds_of_row = fmean(seconds) / rows_per_unit / setup.units_per_worker
    return _TrialTimes(
        seconds=seconds_of_row,
        synced_bytes=synced_bytes,
        sync_seconds=sync_seconds,
        check_seconds=check_seconds,
    )


def _check_seconds(folder: Path, shards: Sequence[Shard], merged: Sequence[UnitMerged]) -> float:
    """Seconds to read the files back; 0 if they cannot be compared with what was merged."""
    checksums = {}
    for unit in merged:
        for row in unit.rows:
            if row.written is not None:
                checksums[row.tensor] = row.written
    names: set[str] = set()
    for shard in shards:
        names.update(tensor.name for tensor in shard.tensors)
    if names != checksums.keys():
        return 0.0
    started = time.monotonic()
    with suppress(OutputError):  # the merge itself reports it
        verify_shards(folder, shards, checksums)
        return time.monotonic() - started
    return 0.0


def _units_to_try(
    rows: Sequence[PlanRow], prepared: Prepared, setup: _TrialSetup, rounds: int
) -> list[Unit]:
    """Units of one size from all over the model, enough for all that are merged at once.

    Large ones are repeated only where there are fewer than workers.
    """
    candidates = units(rows, prepared, setup.device)
    if len(candidates) > 1:
        candidates = candidates[:-1]  # the last may be smaller
    trial_count = rounds * setup.units_at_once
    is_large = prod(rows[0].shape) * len(candidates[0]) > LARGE_UNIT
    if is_large:
        trial_count = max(setup.units_at_once, min(len(candidates), trial_count))
    # Equally distant ones, and some of them several times if there are fewer candidates.
    indices = [len(candidates) * n // trial_count for n in range(trial_count)]
    return [candidates[index] for index in indices]


def _merged_here(
    readers: Readers,
    at_once: int,
    device: torch.device,
    units: Sequence[Unit],
    _prepared: Prepared,
    dtypes: Mapping[str, str],
    shared: SharedOutput | None,
) -> Iterator[UnitMerged]:
    """Units merged by this process, ``at_once`` together, each with its share of the threads."""
    budgets = budgets_of(device)

    def merge(unit: Unit) -> UnitMerged:
        return merge_unit(unit, readers, budgets, dtypes, shared)

    if at_once == 1:
        yield from map(merge, units)
        return
    share = max(1, torch.get_num_threads() // at_once)
    with ThreadPoolExecutor(at_once, initializer=partial(torch.set_num_threads, share)) as pool:
        yield from ordered(pool, merge, units, ahead=at_once)


def _scan_seconds(
    group: SurveyGroup, prepared: Prepared, workers: RayWorkers | None
) -> Steps[float]:
    """Seconds in which one worker surveys all rows of a group, measured on some of them.

    Adds their findings to ``prepared``, so that rows can be tried.
    """
    rows = [row for row in group.rows if prepared.need_of(row) is None and 0 not in row.shape]
    if not rows:
        return 0.0
    if workers is None:
        sample = _rows_to_scan(rows, 1)
    else:
        sample = _rows_to_scan(rows, workers.count)
    plan = replace(prepared.plan, rows=tuple(sample))
    groundwork = replace(prepared.groundwork, findings={}, surveys={})
    part = replace(prepared, plan=plan, groundwork=groundwork)

    seconds = 0.0
    before = 0.0 if workers is None else workers.scan_seconds
    started = time.monotonic()
    for _ in surveyed(Readers(part), workers=workers):
        seconds += time.monotonic() - started
        yield  # other work, which does not count
        started = time.monotonic()
    seconds += time.monotonic() - started
    if workers is not None:
        seconds = workers.scan_seconds - before  # of all workers together
    prepared.groundwork.findings.update(part.groundwork.findings)
    return seconds * _entries(rows) / _entries(sample)


def _rows_to_scan(rows: Sequence[PlanRow], count: int) -> list[PlanRow]:
    """Rows from all over the model that fill about a call for each of ``count`` workers.

    All rows would fill ``calls`` calls. Every ``step``-th row, where ``step`` is ``calls`` divided
    by ``count``, fills about ``count`` calls.
    """
    candidates = [row for row in rows if prod(row.shape) <= SCANNED_ELEMENTS]
    if not candidates:
        candidates = list(rows)
    calls = _entries(candidates) // SCANNED_ELEMENTS
    step = max(1, calls // count)
    return candidates[::step]


def _entries(rows: Sequence[PlanRow]) -> int:
    return sum(prod(row.shape) for row in rows)
