"""Merges tensors in worker processes.

Workers write directly into the output files if they can reach them, and send the results otherwise.

Only this process writes the journal.
"""

from __future__ import annotations

import secrets
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from ace_gui.checkpoints import torch_dtype
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.merging.one_tensor.task_vectors import Readers
from ace_gui.engine.merging.store import MergeStore, planned_shards
from ace_gui.engine.merging.units import TOKEN, RowMerged, SharedOutput, Workers, units
from ace_gui.engine.planning.prepare import Prepared


@contextmanager
def shared_output(store: MergeStore) -> Iterator[SharedOutput]:
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


def merged_by(
    workers: Workers,
    rows: Sequence[PlanRow],
    prepared: Prepared,
    readers: Readers,
    store: MergeStore,
) -> Iterator[tuple[PlanRow, RowMerged] | None]:
    """Yield the missing rows as workers have merged them; the rows of a tensor come in order.

    None means that no result is there yet. Raises the errors of merging, and ClusterError.
    """
    unwritten: dict[str, deque[PlanRow]] = defaultdict(deque)
    for row in rows:
        if row.tensor not in store.done:
            unwritten[row.tensor].append(row)
    left = [
        unit
        for unit in units(rows, prepared, torch.device(workers.device))
        if any(row.tensor in unwritten for row in unit)
    ]
    arrived: dict[str, RowMerged] = {}
    with shared_output(store) as shared:
        for unit in workers.merged(left, prepared, store.manifest.dtypes, shared):
            if unit is None:
                yield None
                continue
            readers.checksums.merge(unit.readings)
            arrived.update((merged.name, merged) for merged in unit.rows)
            for tensor in dict.fromkeys(merged.tensor for merged in unit.rows):
                waiting = unwritten.get(tensor)
                while waiting and waiting[0].name in arrived:
                    row = waiting.popleft()
                    yield row, arrived.pop(row.name)


def put(row: PlanRow, merged: RowMerged, store: MergeStore) -> None:
    """Write a row that a worker has sent, unless the worker has written it, and log it."""
    if merged.written is not None:
        store.was_written(row, merged.written)
    for piece in merged.pieces(torch_dtype(store.manifest.dtypes[row.tensor])):
        store.write(row, piece.start, piece.values)
    store.log(row, merged.report)
