"""The merge: a generator that carries out a plan tensor by tensor and writes into a store."""

from __future__ import annotations

import secrets
import time
from collections import defaultdict, deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, zip_longest
from math import prod
from pathlib import Path

import torch

from ace_gui.checkpoints.header import torch_dtype
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.side_files import (
    change_json,
    copy_side_files,
    without_quantisation_settings,
)
from ace_gui.checkpoints.staging import claimed
from ace_gui.checkpoints.writer import ShardedWriter, plan_shards
from ace_gui.engine.calibrating.calibrate import Calibration, calibrated
from ace_gui.engine.capabilities import forget_peak, memory_of, peak_on, resolve_device, work_on
from ace_gui.engine.contract.distilled import Distilled
from ace_gui.engine.contract.events import (
    Event,
    LearningProgress,
    MergeFinished,
    MergeStarted,
    PassProgress,
    TensorFinished,
)
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.evaluating.sanity_check import sanity_checked
from ace_gui.engine.merging.distil import (
    AlignmentPlan,
    alignment_plan,
    distilled,
    sources_key,
)
from ace_gui.engine.merging.learn import learned
from ace_gui.engine.merging.memory_budgets import MemoryBudgets, budgets_of, merged_within
from ace_gui.engine.merging.merge_manifest import SHARD_BYTES, Manifest, make_manifest
from ace_gui.engine.merging.readers import Readers, require_finite_heads
from ace_gui.engine.merging.store import MODEL, MergeStore, planned_shards
from ace_gui.engine.merging.surveying import distance_notes, far_lines, surveyed
from ace_gui.engine.merging.task_modules import write_modules
from ace_gui.engine.merging.tensor_merge import OutputChunk, TensorMerge, in_the_end
from ace_gui.engine.merging.units import (
    TOKEN,
    RowMerged,
    SharedOutput,
    Unit,
    Workers,
    units,
    whole_units,
)
from ace_gui.engine.planning.prepare import require_experts
from ace_gui.engine.planning.prepared import Prepared, head_tensors
from ace_gui.engine.planning.recipe_models import HEADS
from ace_gui.engine.planning.requirements import require_memory
from ace_gui.engine.streaming import ordered, single_threads
from ace_gui.machine import peak_memory
from ace_gui.output_files import writing
from ace_gui.stored_formats import FORMATS

_Learning = PassProgress | LearningProgress


def merge(
    prepared: Prepared,
    store_folder: Path,
    *,
    device: str = "auto",
    resume: bool = False,
    as_output: bool = False,
    memory_bytes: int | None = None,
    workers: Workers | None = None,
    check: bool = False,
) -> Iterator[Event | None]:
    """Merge into a store at ``store_folder``.

    With ``as_output``, tensors are stored in the dtype of the output, ready to be published.
    Otherwise floats stay in float32 (float64 if the base is), and the export rounds once.
    ``memory_bytes``: memory limit of the merge; None: all free memory. ``workers``: the processes
    that merge; None: this process. ``check``: try a language model as its recipe says. While it
    waits for workers, the generator yields None. Stopping the iteration cancels the merge; the
    store can be resumed later. Raises WorkbenchErrors.
    """
    require_experts(prepared)
    started = time.monotonic()
    torch_device = _device_with_room(prepared, device, memory_bytes, workers)
    alignment = _alignment(prepared, torch_device, memory_bytes)
    warnings = yield from _measure(prepared, torch_device, workers)
    notes = distance_notes(prepared)
    manifest = make_manifest(
        prepared, torch_device, memory_bytes, warnings, notes, as_output=as_output, workers=workers
    )
    manifest = _with_inputs(manifest, alignment.sources)
    readers = Readers(prepared)
    require_finite_heads(readers)
    open_store = MergeStore.resume if resume else MergeStore.create
    with (
        writing(store_folder),
        claimed(store_folder),
        open_store(store_folder, manifest, readers.checksums) as store,
    ):
        filled = yield from _fill(store, readers, torch_device, memory_bytes, workers, alignment)
    finished = _finished(store_folder, started, torch_device, warnings, filled, workers)
    if check:
        finished = yield from _checked(finished, prepared, torch_device)
    yield finished


def _finished(
    store_folder: Path,
    started: float,
    device: torch.device,
    warnings: tuple[str, ...],
    filled: _Filled,
    workers: Workers | None,
) -> MergeFinished:
    notes: tuple[str, ...] = ()
    if workers:
        notes = workers.notes
    return MergeFinished(
        store=store_folder,
        seconds=time.monotonic() - started,
        peak_bytes=peak_memory(),
        gpu_peak=peak_on(device),
        warnings=warnings + filled.warnings,
        notes=notes,
        distilled=filled.distilled,
    )


def _checked(
    finished: MergeFinished, prepared: Prepared, device: torch.device
) -> Generator[PassProgress | None, None, MergeFinished]:
    """Try the merge of a language model, as its recipe says; the figures stay the merge's own."""
    model = finished.store / MODEL
    seconds = finished.seconds
    sanity = yield from sanity_checked(prepared, finished.store, model, device, seconds)
    if sanity is None:
        return finished
    return replace(finished, sanity=sanity, warnings=finished.warnings + sanity.warnings)


def _device_with_room(
    prepared: Prepared, device: str, memory_bytes: int | None, workers: Workers | None
) -> torch.device:
    """The device that merges. Raises ResourceError if the largest tensor does not fit."""
    if workers:
        torch_device = resolve_device("cpu")
    else:  # workers have memory of their own
        torch_device = resolve_device(device)
        gpu_bytes = None
        if torch_device.type == "cuda":
            gpu_bytes = memory_of(torch_device)
        require_memory(prepared, memory_bytes, gpu_bytes)
    forget_peak(torch_device)
    return torch_device


def _alignment(prepared: Prepared, device: torch.device, memory_bytes: int | None) -> AlignmentPlan:
    """How the merge is aligned. Raises the errors of ``alignment_plan``."""
    allowed = memory_bytes
    if device.type == "cuda":
        allowed = memory_of(device)
    return alignment_plan(prepared, allowed)


def _with_inputs(manifest: Manifest, sources: Sequence[Calibration]) -> Manifest:
    """The manifest with the inputs that the merge is aligned on, if there are any."""
    if not sources:
        return manifest
    return replace(manifest, measurements=(*manifest.measurements, sources_key(sources)))


def _warnings_of(events: Iterator[_Learning]) -> Generator[_Learning, None, tuple[str, ...]]:
    """Pass the events on; returns the warnings of the last one about learning."""
    warnings: tuple[str, ...] = ()
    for event in events:
        if isinstance(event, LearningProgress):
            warnings = event.warnings
        yield event
    return warnings


def _measure(
    prepared: Prepared, device: torch.device, workers: Workers | None
) -> Generator[Event | None, None, tuple[str, ...]]:
    """Measure statistics and learn values for the methods; returns all warnings so far."""
    prepared.groundwork.forget_statistics()
    yield from calibrated(prepared, device, workers)
    warnings = yield from _warnings_of(learned(prepared, device))
    return prepared.plan.warnings + far_lines(prepared) + warnings


@dataclass(frozen=True, kw_only=True)
class _Filled:
    """What a store was filled with, besides the merge."""

    warnings: tuple[str, ...]
    """Of training."""

    distilled: Distilled | None
    """What aligning the merge with its experts gave."""


def _fill(
    store: MergeStore,
    readers: Readers,
    device: torch.device,
    memory_bytes: int | None,
    workers: Workers | None,
    alignment: AlignmentPlan,
) -> Generator[Event | None, None, _Filled]:
    """Merge the tensors missing from the store, then write the other files of the model."""
    if workers is not None:
        workers.begin(readers.prepared)
    yield from surveyed(readers, store=store.folder, workers=workers)
    store.log_readings()
    if workers is None:
        yield from _merge_here(readers, store, device, memory_bytes)
    else:
        yield from _merge_by(workers, readers, store)
    _write_heads(readers, store.model / HEADS)
    _write_side_files(readers.prepared.base.checkpoint, store.model)
    store.finish_weights()
    prepared = readers.prepared
    distil = prepared.recipe.distil
    result = None
    if distil:
        result = yield from distilled(prepared, store, alignment, distil, device)
        store.finish_weights()  # the trained tensors, too
    warnings = yield from _warnings_of(write_modules(readers, store.model, device))
    readers.check_unchanged()
    store.complete()
    if result is not None:
        warnings += result.warnings
    return _Filled(warnings=warnings, distilled=result)


def input_paths(prepared: Prepared) -> tuple[Path, ...]:
    """Paths where no output may be written: the models named in the recipe, and their folders."""
    return (*prepared.recipe.paths, *prepared.plan.input_folders)


class _MergeProgress:
    """Writes merged rows, with an event for each of them and the progress so far."""

    def __init__(self, prepared: Prepared, store: MergeStore) -> None:
        self.rows = [row for row in prepared.plan.rows if row.in_base]
        self._store = store
        self._peak_bytes = prepared.plan.peak_bytes
        finished_rows = (row for row in self.rows if row.tensor in store.done)
        self._bytes_done = sum(_bytes(row, store.manifest) for row in finished_rows)
        self._row_started = time.monotonic()

    def started(self) -> MergeStarted:
        """The first event."""
        reports = chain.from_iterable(self._store.done.values())  # of the rows of each tensor
        return MergeStarted(
            total=len(self.rows),
            done=self._store.rows_done,
            bytes_total=sum(_bytes(row, self._store.manifest) for row in self.rows),
            peak_bytes=self._peak_bytes,
            reports=tuple(reports),
        )

    def write(
        self, row: PlanRow, work: TensorMerge | RowMerged, pieces: Iterable[OutputChunk]
    ) -> TensorFinished:
        """Write a row; its seconds are counted from the previous row."""
        for piece in pieces:
            self._store.write(row, piece.start, piece.values)
        report = work.report  # complete now
        self._store.log(row, report)
        self._bytes_done += _bytes(row, self._store.manifest)
        started = self._row_started
        self._row_started = time.monotonic()
        return TensorFinished(
            report=report,
            done=self._store.rows_done,
            total=len(self.rows),
            bytes_done=self._bytes_done,
            seconds=self._row_started - started,
        )


def _bytes(row: PlanRow, manifest: Manifest) -> int:
    """The size of a row as it is stored."""
    return prod(row.shape) * FORMATS[manifest.dtypes[row.tensor]].bits // 8


def _merge_here(
    readers: Readers, store: MergeStore, device: torch.device, memory_bytes: int | None
) -> Iterator[MergeStarted | TensorFinished]:
    """Merge the missing rows in this process, in plan order."""
    prepared = readers.prepared
    progress = _MergeProgress(prepared, store)
    yield progress.started()
    # Batches are formed from all rows, finished ones included: the rounding of a resumed merge must
    # not depend on what is done already.
    unmerged_batches = []
    for batch in whole_units(progress.rows, prepared, device):
        if any(row.tensor not in store.done for row in batch):
            unmerged_batches.append(batch)
    unmerged_rows = [row for row in progress.rows if row.tensor not in store.done]
    in_parts = [(row,) for row in unmerged_rows if not prepared.is_whole(row)]
    works_of = partial(_works_of, readers=readers, device=device, dtypes=store.manifest.dtypes)
    budgets = budgets_of(device, memory_bytes)
    with (
        single_threads() as pool,
        # Closed after an error, too: the garbage collector might do it in a thread just being
        # started, and would then wait for these threads for ever.
        closing(
            under_way(works_of(unmerged_batches), pool, budgets, store.manifest.side_by_side)
        ) as whole_merges,
    ):
        merges_in_parts = under_way(works_of(in_parts), pool, budgets, 1)
        # A batch counts as its first row; asking for it starts the first one.
        early: dict[str, Merging] = _by_row(next(whole_merges, []))
        for row in unmerged_rows:
            if prepared.is_whole(row):
                merges = whole_merges
            else:
                merges = merges_in_parts
            while row.name not in early:
                early |= _by_row(next(merges))
            yield progress.write(row, *early.pop(row.name))  # no variable holds the pieces longer


def _works_of(
    batches: Sequence[Unit], readers: Readers, device: torch.device, dtypes: Mapping[str, str]
) -> Iterator[list[TensorMerge]]:
    """The merges of each batch, while the tensors of the next one are read from disk."""
    for batch, next_batch in zip_longest(batches, batches[1:], fillvalue=()):
        tensors = {row.tensor for row in batch}
        next_rows = {row.tensor: row for row in next_batch if row.tensor not in tensors}
        for row in next_rows.values():
            readers.will_read(row)
        works = []
        for row in batch:
            works.append(TensorMerge(row, readers, device, torch_dtype(dtypes[row.tensor])))
        yield works


Merging = tuple[TensorMerge, Iterable[OutputChunk]]
"""The merge of a row, and its output pieces."""


def _by_row(merges: Iterable[Merging]) -> dict[str, Merging]:
    """Merges by the names of their rows."""
    return {work.row.name: (work, pieces) for work, pieces in merges}


def under_way(
    batches: Iterable[list[TensorMerge]],
    pool: ThreadPoolExecutor,
    budgets: MemoryBudgets,
    ahead: int,
) -> Generator[list[Merging], None, None]:
    """Yield matrices with their pieces, batch by batch, in order; ``ahead`` batches run at a time.

    Small matrices do not keep all CPU cores busy, so several are merged at the same time, each with
    its share of the threads. On a GPU several batches are read, copied and computed at the same
    time, each in a thread with its own stream, as long as memory suffices.
    """
    if ahead == 1:
        for works in batches:  # the pieces are computed when they are requested
            yield [(work, work.pieces(pool)) for work in works]
        return

    def begin(works: list[TensorMerge]) -> list[Merging]:
        if budgets.device.type == "cpu":
            return [(work, in_the_end(work.pieces(pool))) for work in works]
        return list(zip(works, merged_within(works, pool, budgets), strict=True))

    share = max(1, torch.get_num_threads() // ahead)

    def start() -> None:
        torch.set_num_threads(share)
        work_on(budgets.device, own_stream=True)

    with ThreadPoolExecutor(ahead, initializer=start) as side_by_side:
        yield from ordered(side_by_side, begin, batches, ahead=ahead)


def _merge_by(
    workers: Workers, readers: Readers, store: MergeStore
) -> Iterator[MergeStarted | TensorFinished | None]:
    """Let workers merge the missing rows; units come in the order in which they finish.

    Workers write into the output files if they can reach them, and send the results otherwise. Only
    this process writes the journal. The rows of one tensor are written in order.
    """
    prepared = readers.prepared
    progress = _MergeProgress(prepared, store)
    yield progress.started()
    unwritten: dict[str, deque[PlanRow]] = defaultdict(deque)  # by tensor, its rows in order
    for row in progress.rows:
        if row.tensor not in store.done:
            unwritten[row.tensor].append(row)
    unmerged_units = []
    for unit in units(progress.rows, prepared, torch.device(workers.device)):
        if any(row.tensor in unwritten for row in unit):
            unmerged_units.append(unit)
    arrived: dict[str, RowMerged] = {}
    with _shared_output(store) as shared:
        for result in workers.merged(unmerged_units, prepared, store.manifest.dtypes, shared):
            if result is None:
                yield None
                continue
            readers.checksums.merge(result.readings)
            arrived.update((merged.name, merged) for merged in result.rows)
            for tensor in dict.fromkeys(merged.tensor for merged in result.rows):
                dtype = torch_dtype(store.manifest.dtypes[tensor])
                rows = unwritten.get(tensor)
                while rows and rows[0].name in arrived:
                    row = rows.popleft()
                    merged = arrived.pop(row.name)
                    if merged.written is not None:
                        store.was_written(row, merged.written)
                    yield progress.write(row, merged, merged.pieces(dtype))


@contextmanager
def _shared_output(store: MergeStore) -> Iterator[SharedOutput]:
    """The output files of an unfinished merge, for workers that can reach them."""
    folder = store.folder.absolute()
    shared = SharedOutput(
        store=folder,
        model=store.model.absolute(),
        shards=planned_shards(store.manifest),
        token=secrets.token_hex(16),
    )
    (folder / TOKEN).write_text(shared.token, encoding="ascii")
    try:
        yield shared
    finally:
        (folder / TOKEN).unlink(missing_ok=True)


def _write_side_files(base: Checkpoint, folder: Path) -> None:
    """Write the base's side files, or changed ones if the merge took something from the experts."""
    if base.output_files is None:
        files = base.side_files
    else:
        files = base.output_files
    copy_side_files(files, folder)
    for part in base.parts:
        without_quantisation_settings(folder / part / "config.json")
    for file, changes in base.changes.items():
        change_json(folder / file, changes)


def _write_heads(readers: Readers, folder: Path) -> None:
    """Write the experts' own tensors under their own names, one file per expert."""
    for t, expert in enumerate(readers.prepared.experts):
        outputs = head_tensors(readers.prepared, t)
        if not outputs:
            continue
        folder.mkdir(exist_ok=True)
        shards = plan_shards(outputs, SHARD_BYTES, stem=expert.name)
        writer = ShardedWriter(folder, shards)
        for output in outputs:
            writer.write(output.name, readers.experts[t].reader.read(output.name))
        writer.finish()
