"""The merge: a generator that carries out a plan tensor by tensor and writes into a store."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from math import prod
from pathlib import Path
from typing import Protocol

import torch

from ace_gui.checkpoints import (
    Checkpoint,
    ShardedWriter,
    claimed,
    copy_side_files,
    plan_shards,
    torch_dtype,
)
from ace_gui.engine.calibrating.calibrate import calibrated
from ace_gui.engine.contract.events import (
    Event,
    LearningProgress,
    MergeFinished,
    MergeStarted,
    TensorFinished,
)
from ace_gui.engine.contract.figures.findings import LayerReport
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.devices import forget_peak, memory_of, peak_on, resolve_device, work_on
from ace_gui.engine.merging.by_workers import merged_by, put
from ace_gui.engine.merging.layout_digest import layout_digest
from ace_gui.engine.merging.on_gpu.batches import Batch, alone, batches
from ace_gui.engine.merging.on_gpu.gpu_memory import (
    GPU_AHEAD,
    MemoryBudgets,
    budgets_of,
    merged_within,
)
from ace_gui.engine.merging.one_tensor.non_finite import require_finite_heads
from ace_gui.engine.merging.one_tensor.task_vectors import Readers
from ace_gui.engine.merging.one_tensor.tensor_merge import OutputChunk, TensorMerge
from ace_gui.engine.merging.output_config import change_json, without_quantisation_settings
from ace_gui.engine.merging.store import InputFile, Manifest, MergeStore
from ace_gui.engine.merging.task_modules import write_modules
from ace_gui.engine.merging.units import Workers
from ace_gui.engine.merging.whole_model.learn import learned
from ace_gui.engine.merging.whole_model.surveying import surveyed
from ace_gui.engine.merging.whole_model.unrelated import unrelated_checks
from ace_gui.engine.planning.expert_files import HEADS, head_tensors
from ace_gui.engine.planning.memory import matrices_at_once, require_memory
from ace_gui.engine.planning.prepare import Prepared, require_experts
from ace_gui.engine.streaming import ordered, single_threads
from ace_gui.linalg.products import library
from ace_gui.machine import peak_memory
from ace_gui.methods import added_sources
from ace_gui.output_files import writing
from ace_gui.recipe import Recipe
from ace_gui.stored_formats import FORMATS
from ace_gui.versions import COMPUTING, code_digest

SHARD_BYTES = 5_000_000_000


def merge(
    prepared: Prepared,
    store_folder: Path,
    *,
    device: str = "auto",
    resume: bool = False,
    as_output: bool = False,
    memory_bytes: int | None = None,
    workers: Workers | None = None,
) -> Iterator[Event | None]:
    """Merge into a store at ``store_folder``.

    With ``as_output``, tensors are stored in the dtype of the output, ready to be published.
    Otherwise floats stay in float32 (float64 if the base is), and the export rounds once.
    ``memory_bytes``: memory limit of the merge; None: all free memory. ``workers``: the processes
    that merge; None: this process. While it waits for workers, the generator yields None. Stopping
    the iteration cancels the merge; the store can be resumed later.

    Raises WorkbenchError subclasses for failures of reading, merging and writing.
    """
    require_experts(prepared)
    started, where = time.monotonic(), resolve_device("cpu" if workers else device)
    if workers is None:  # workers have memory of their own
        on_gpu = memory_of(where) if where.type == "cuda" else None
        require_memory(prepared.plan.rows, prepared.method, memory_bytes, on_gpu)
    forget_peak(where)
    prepared.measurements.clear()  # their data may have changed since
    yield from calibrated(prepared, where, workers)
    more_warnings: tuple[str, ...] = ()
    for event in learned(prepared, where):
        more_warnings = event.warnings if isinstance(event, LearningProgress) else more_warnings
        yield event
    far = tuple(check.line for check in unrelated_checks(prepared))
    manifest = replace(
        make_manifest(prepared, where, memory_bytes, as_output=as_output, workers=workers),
        warnings=prepared.plan.warnings + far + more_warnings,
    )
    if workers is not None:
        workers.begin(prepared)
    readers = Readers(prepared)
    require_finite_heads(prepared, readers)
    opened = MergeStore.resume if resume else MergeStore.create
    with (
        writing(store_folder),
        claimed(store_folder),
        opened(store_folder, manifest, readers.checksums) as store,
    ):
        trained: tuple[str, ...] = ()
        for done in _fill(store, prepared, readers, where, memory_bytes, workers):
            trained = done.warnings if isinstance(done, LearningProgress) else trained
            yield done
    yield MergeFinished(
        store=store_folder,
        seconds=time.monotonic() - started,
        peak_bytes=peak_memory(),
        gpu_peak=peak_on(where),
        warnings=manifest.warnings + trained,
        notes=workers.notes if workers else (),
    )


def _fill(
    store: MergeStore,
    prepared: Prepared,
    readers: Readers,
    device: torch.device,
    memory_bytes: int | None,
    workers: Workers | None,
) -> Iterator[Event | None]:
    """Merge the tensors missing from the store, then write the other files of the model."""
    rows = [row for row in prepared.plan.rows if row.in_base]
    yield from surveyed(prepared, readers, store=store.folder, workers=workers)
    store.log_readings()
    yield MergeStarted(
        total=len(rows),
        done=store.rows_done,
        bytes_total=sum(_bytes(row, store.manifest) for row in rows),
        peak_bytes=prepared.plan.peak_bytes,
        reports=tuple(report for found in store.done.values() for report in found),
    )
    if workers is None:
        yield from _merge_rows(rows, prepared, readers, store, device, memory_bytes)
    else:
        yield from _merged_by(workers, rows, prepared, readers, store)
    _write_heads(prepared, readers, store.model / HEADS)
    _write_side_files(prepared.base.checkpoint, store.model)
    store.finish_weights()
    yield from write_modules(prepared, readers, store.model, device)
    readers.check_unchanged()
    store.complete()


def make_manifest(
    prepared: Prepared,
    device: torch.device,
    memory_bytes: int | None,
    *,
    as_output: bool,
    workers: Workers | None = None,
) -> Manifest:
    """Everything the store depends on: recipe, current state of the inputs, layout, versions.

    The number of workers is left out, because each worker merges one unit at a time.
    """
    plan, at_once = prepared.plan, GPU_AHEAD
    if workers is not None:
        at_once = 1
    elif device.type == "cpu":
        at_once = matrices_at_once(plan.rows, prepared.method, memory_bytes)
    dtypes = {
        row.tensor: row.output_dtype(plan.recipe.out_dtype) if as_output else row.store_dtype
        for row in plan.rows
        if row.in_base
    }
    return Manifest(
        code=code_digest(*COMPUTING),
        added_methods=added_sources(plan.recipe.methods),
        recipe=plan.recipe,
        parameters=plan.parameters,
        inputs=tuple(map(InputFile.of, prepared.files)),
        input_folders=plan.input_folders,
        expert_classes=tuple(expert.architecture.model_class for expert in prepared.experts),
        rows=plan.rows,
        headers=layout_digest(prepared),
        dtypes=dtypes,
        stems=prepared.base.checkpoint.stems,
        metadata=prepared.base.checkpoint.metadata,
        shard_bytes=SHARD_BYTES,
        device=str(device) if workers is None else workers.device,
        threads=torch.get_num_threads() if workers is None else workers.threads,
        side_by_side=at_once,
        products=library(),
        measurements=tuple(
            statistics.key for own in prepared.measurements.values() for statistics in own
        ),
    )


def input_paths(prepared: Prepared) -> tuple[Path, ...]:
    """Paths where no output may be written: the models named in the recipe, and their folders."""
    return (*prepared.plan.recipe.paths, *prepared.plan.input_folders)


def models_of(recipe: Recipe) -> tuple[Path, ...]:
    """The models and adapters as named in the recipe."""
    return recipe.paths


Begun = Sequence[tuple[PlanRow, TensorMerge]]
"""Rows that are merged together, with the merge of each."""


class Reporting(Protocol):
    """Gives the report of a merged row, once all its pieces were taken."""

    @property
    def report(self) -> LayerReport:
        """The report of the merge of this row."""
        ...


Merging = tuple[PlanRow, Reporting, Iterable[OutputChunk]]
"""A row, its merge, and its output pieces."""


def _merge_rows(
    rows: list[PlanRow],
    prepared: Prepared,
    readers: Readers,
    store: MergeStore,
    device: torch.device,
    memory_bytes: int | None,
) -> Iterator[TensorFinished]:
    # Batches are formed from all rows, finished ones included: the rounding of a resumed merge must
    # not depend on what is done already.
    together = (alone if device.type == "cpu" else batches)(rows, prepared)
    left = [batch for batch in together if any(row.tensor not in store.done for row in batch)]
    waiting = [row for row in rows if row.tensor not in store.done]
    in_parts = [(row,) for row in waiting if not prepared.is_whole(row)]
    dtypes = store.manifest.dtypes
    begun = partial(_begun, prepared=prepared, readers=readers, device=device, dtypes=dtypes)
    with single_threads() as pool:
        budgets = budgets_of(device, memory_bytes)
        whole = under_way(begun(left), pool, budgets, store.manifest.side_by_side)
        others = map(partial(_taken, pool), begun(in_parts))
        merged = _in_plan_order(waiting, prepared, whole, others)
        yield from _written(rows, merged, store)


def _in_plan_order(
    rows: list[PlanRow],
    prepared: Prepared,
    whole: Iterator[list[Merging]],
    others: Iterator[list[Merging]],
) -> Iterator[Merging]:
    """Yield whole matrices and tensors in parts in plan order. A batch counts as its first row."""
    early = {merging[0].name: merging for merging in next(whole, [])}  # starts the first batch
    for row in rows:
        source = whole if prepared.is_whole(row) else others
        while row.name not in early:
            early |= {merging[0].name: merging for merging in next(source)}
        yield early.pop(row.name)


def _written(
    rows: list[PlanRow], merged: Iterator[Merging], store: MergeStore
) -> Iterator[TensorFinished]:
    progress = _Progress(rows, store)
    for row, work, pieces in merged:
        for piece in pieces:
            store.write(row, piece.start, piece.values)
        store.log(row, work.report)
        yield progress.finished(row, work)


class _Progress:
    """Yields an event for every written row, with the progress so far."""

    def __init__(self, rows: list[PlanRow], store: MergeStore) -> None:
        self._total, self._store = len(rows), store
        done = (row for row in rows if row.tensor in store.done)
        self._bytes_done = sum(_bytes(row, store.manifest) for row in done)
        self._started = time.monotonic()

    def finished(self, row: PlanRow, work: Reporting) -> TensorFinished:
        """Report a written row; its seconds are counted from the previous row."""
        self._bytes_done += _bytes(row, self._store.manifest)
        before, self._started = self._started, time.monotonic()
        return TensorFinished(
            report=work.report,
            done=self._store.rows_done,
            total=self._total,
            bytes_done=self._bytes_done,
            seconds=self._started - before,
        )


def _merged_by(
    workers: Workers,
    rows: list[PlanRow],
    prepared: Prepared,
    readers: Readers,
    store: MergeStore,
) -> Iterator[TensorFinished | None]:
    """Let workers merge the missing rows; units come in the order in which they finish."""
    progress = _Progress(rows, store)
    for found in merged_by(workers, rows, prepared, readers, store):
        if found is None:
            yield None
            continue
        put(*found, store)
        yield progress.finished(*found)


def _begun(
    together: Sequence[Batch],
    prepared: Prepared,
    readers: Readers,
    device: torch.device,
    dtypes: Mapping[str, str],
) -> Iterator[Begun]:
    """Pair each row with its merge, while the tensors of the next rows are read from disk."""
    for batch, following in zip_longest(together, together[1:], fillvalue=()):
        here = {row.tensor for row in batch}
        for row in {row.tensor: row for row in following if row.tensor not in here}.values():
            readers.will_read(row)
        yield [
            (row, TensorMerge(row, prepared, readers, device, torch_dtype(dtypes[row.tensor])))
            for row in batch
        ]


def _taken(pool: ThreadPoolExecutor, begun: Begun) -> list[Merging]:
    """Pair each merge with its pieces, which are computed when they are requested."""
    return [(row, work, work.pieces(pool)) for row, work in begun]


def under_way(
    begun: Iterable[Begun], pool: ThreadPoolExecutor, budgets: MemoryBudgets, ahead: int
) -> Iterator[list[Merging]]:
    """Yield matrices with their pieces, batch by batch, in order; ``ahead`` batches run at a time.

    Small matrices do not keep all CPU cores busy, so several are merged at the same time, each with
    its share of the threads. On a GPU several batches are read, copied and computed at the same
    time, each in a thread with its own stream, as long as memory suffices.
    """
    if ahead == 1:
        yield from map(partial(_taken, pool), begun)
        return

    def begin(batch: Begun) -> list[Merging]:
        found = merged_within([work for _, work in batch], pool, budgets)
        return [(row, work, pieces) for (row, work), pieces in zip(batch, found, strict=True)]

    share = max(1, torch.get_num_threads() // ahead)

    def start() -> None:
        torch.set_num_threads(share)
        work_on(budgets.device, own_stream=True)

    with ThreadPoolExecutor(ahead, initializer=start) as side_by_side:
        yield from ordered(side_by_side, begin, begun, ahead=ahead)


def _write_side_files(base: Checkpoint, folder: Path) -> None:
    """Write the base's side files, or changed ones if the merge took something from the experts."""
    files = base.side_files if base.output_files is None else base.output_files
    copy_side_files(files, folder)
    for part in base.parts:
        without_quantisation_settings(folder / part / "config.json")
    for file, changes in base.changes.items():
        change_json(folder / file, changes)


def _write_heads(prepared: Prepared, readers: Readers, folder: Path) -> None:
    """Write the experts' own tensors under their own names, one file per expert."""
    for t, expert in enumerate(prepared.experts):
        outputs = head_tensors(prepared.plan.rows, expert, t)
        if not outputs:
            continue
        folder.mkdir(exist_ok=True)
        shards = plan_shards(outputs, SHARD_BYTES, stem=expert.name)
        with ShardedWriter(folder, shards) as writer:
            for output in outputs:
                writer.write(output.name, readers.experts[t].reader.read(output.name))
            writer.finish()


def _bytes(row: PlanRow, manifest: Manifest) -> int:
    return prod(row.shape) * FORMATS[manifest.dtypes[row.tensor]].bits // 8
