"""The shared context of all inspections of one tensor, and the cache of their results.

A cache entry is named by a digest of everything its content depends on: current files, tensor,
recipe, versions.

Slow operations are generators that yield None between their parts, so that the caller can do other
work meanwhile, or stop.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from itertools import chain
from typing import Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import TypeAdapter

from ace_gui.checkpoints.input_files import FileStamp
from ace_gui.engine.calibrating.calibrate import calibrated
from ace_gui.engine.capabilities import work_on
from ace_gui.engine.contract.findings import LayerReport
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.kept_files import ArrayCache, Arrays, text_array, text_of
from ace_gui.engine.merging.learn import require_learned
from ace_gui.engine.merging.method_steps import merge_deltas
from ace_gui.engine.merging.quantisation_noise import quantisation_noise
from ace_gui.engine.merging.readers import Readers, resolve_non_finite
from ace_gui.engine.merging.surveying import surveyed
from ace_gui.engine.merging.task_vectors import TaskVectors
from ace_gui.engine.merging.tensor_merge import report_of
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.vocabulary import rows_digest
from ace_gui.engine.streaming import ordered
from ace_gui.errors import MethodError, NonFiniteError, lacks_room
from ace_gui.linalg.passes import energy
from ace_gui.methods import added_sources
from ace_gui.methods.shared.experts import Merged
from ace_gui.versions import COMPUTING, code_digest, library_versions

Item = TypeVar("Item")
Found = TypeVar("Found")
Answer = TypeVar("Answer")

LARGEST_KEPT: Final = 1 << 24
"""Largest merge kept in memory for another inspection, in elements: 128 MB with W_pre."""

_REPORT: Final = TypeAdapter(LayerReport)

_IN_ROWS: Final = frozenset(
    ["scope", "split_fused", "vocabulary", "heads", "non_finite", "overrides", "out_dtype", "tasks"]
)
"""Recipe fields that are covered by the row and its files, or concern only the output."""

FORMAT: Final = 2
"""Version of the cache; raise it when the format or a computation changes."""


def cache_key(kind: str, row: PlanRow, stamps: tuple[FileStamp, ...], *further: object) -> str:
    """The name of an entry, from its kind, the tensor, the files and other values.

    ``further``: values that are fully described by their ``str``. The row's name and position in
    the files count; its disposition does not.
    """
    files = [(str(stamp.path), stamp.size, stamp.mtime_ns, stamp.ctime_ns) for stamp in stamps]
    tensor = (row.name, row.tied_to, row.shape, row.transposed, row.part)
    versions = (FORMAT, code_digest(*COMPUTING), *library_versions().values())
    text = json.dumps([kind, *map(str, (tensor, versions, *further)), files])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class InspectionCache(ArrayCache):
    """``latest``: the key and the result of the last merge for an inspection, only in memory."""

    latest: tuple[str, Merged] | None = None


class InspectionContext:
    """A tensor under a recipe. Its task vectors are opened on first use."""

    def __init__(
        self, prepared: Prepared, row: PlanRow, device: torch.device, cache: InspectionCache
    ) -> None:
        self.row = row
        self.cache = cache
        self.readers = Readers(prepared)
        self.names = self.readers.names_of(row)
        self.prepared = prepared
        self.device = device
        self._deltas: TaskVectors | None = None
        self._opening = threading.Lock()

    @property
    def deltas(self) -> TaskVectors:
        """The task vectors of the tensor, on the device. Thread-safe."""
        with self._opening:
            if self._deltas is None:
                self._deltas = TaskVectors(self.row, self.readers, self.device)
            return self._deltas

    def merged(self) -> Merged:
        """The merge of the tensor, with its preliminary solution if there is one.

        Several inspections of one tensor usually follow each other, and the first computes the
        merge. It must not be overwritten.
        """
        key = self.merge_key("merge")
        if self.cache.latest is not None and self.cache.latest[0] == key:
            return self.cache.latest[1]
        self.cache.latest = None  # never hold two in memory
        merged = merge_deltas(self.row, self.prepared, self.deltas, keep_preliminary=True)
        if merged.delta.numel() <= LARGEST_KEPT:
            self.cache.latest = key, merged
        return merged

    def report(self, merged: Merged) -> LayerReport:
        """The report of a merge of the tensor."""
        norm = math.sqrt(energy(merged.delta))
        report = report_of(self.row, self.names, merged.diagnostics, norm)
        return replace(report, quantisation_noise=quantisation_noise(self.row, self.readers))

    def surveyed(self) -> Iterator[None]:
        """Survey the whole model first, if the tensor's method needs it."""
        require_learned(self.prepared, self.device)
        for _ in calibrated(self.prepared, self.device):
            yield None
        for _ in surveyed(self.readers, only=self.row):
            yield None

    def key(self, kind: str, *experts: int) -> str:
        """Cache key for results that depend only on these experts of the tensor (default: all)."""
        chosen = [self.row.experts[index] for index in experts] or self.row.experts
        models = (self.prepared.base, *(self.prepared.experts[t] for t in chosen))
        stamps = tuple(chain.from_iterable(model.checkpoint.files for model in models))
        orders = [rows_digest(model, self.row.tied_to or self.row.tensor) for model in models]
        return cache_key(kind, self.row, stamps, orders)

    def merge_key(self, kind: str) -> str:
        """Cache key for results that also depend on the recipe and the device."""
        prepared = self.prepared
        row = self.row
        terms = (
            row.disposition,
            row.after,
            prepared.method_of(row).name,
            added_sources([prepared.method_of(row).name]),
            prepared.parameters_of(row),
            prepared.expert_parameters_of(row),
            prepared.weights_of(row),
            prepared.findings_of(row),
            [part.key for part in chain.from_iterable(prepared.groundwork.statistics.values())],
            [item for item in prepared.recipe.choices().items() if item[0] not in _IN_ROWS],
            self.names,
            self.device.type,
        )
        return self.key(repr((kind, *terms)))

    def remembered(self, key: str, compute: Callable[[], Arrays]) -> Arrays:
        """The cached result, or else the computed one."""
        arrays = self.cache.get(key)
        if arrays is None:
            arrays = compute()
            self.cache.put(key, arrays)
        return arrays


def report_array(report: LayerReport) -> NDArray[np.uint8]:
    """A report as an array, for the cache."""
    return text_array(json.dumps(asdict(report)))


def report_from(array: NDArray[np.uint8]) -> LayerReport:
    """The report stored in an array."""
    return _REPORT.validate_python(json.loads(text_of(array)))


def inspect_row(
    prepared: Prepared,
    row: PlanRow,
    device: torch.device,
    cache: InspectionCache,
    steps: Callable[[InspectionContext], Iterator[Answer | None]],
) -> Iterator[Answer | None]:
    """The steps of an inspection.

    It starts again without experts that turn out to have NaN or Inf in the tensor, and on the CPU
    if GPU memory is too small. Raises MethodError for a tensor that no expert has, NonFiniteError
    if a merge would stop.
    """
    if not row.experts:
        raise MethodError(f"No expert has `{row.name}`; choose another tensor.", tensor=row.name)
    context = InspectionContext(prepared, row, device, cache)
    try:
        yield from _with_room(context, steps)
        return
    except NonFiniteError as error:
        resolved = resolve_non_finite(error, row, Readers(prepared))
    if not resolved.row.experts:
        raise MethodError(resolved.notes[0], tensor=row.name)
    yield from _with_room(InspectionContext(prepared, resolved.row, device, cache), steps)


def _with_room(
    context: InspectionContext, steps: Callable[[InspectionContext], Iterator[Answer | None]]
) -> Iterator[Answer | None]:
    try:
        yield from steps(context)
        return
    except RuntimeError as error:
        if context.device.type == "cpu" or not lacks_room(error):
            raise
    fresh = InspectionContext(context.prepared, context.row, torch.device("cpu"), context.cache)
    del context
    torch.cuda.empty_cache()
    yield from steps(fresh)


def require_matrix(row: PlanRow) -> None:
    """Raise MethodError for a tensor that is not a matrix."""
    if len(row.shape) != 2:
        raise MethodError(f"`{row.name}` has no spectrum; choose a matrix.", tensor=row.name)


def side_by_side(
    work: Callable[[Item], Found], items: Iterable[Item], device: torch.device
) -> Generator[None, None, list[Found]]:
    """Run ``work`` on the items side by side, each on one CPU core; return the results in order.

    Decompositions gain little from a second thread, but two of them run at the same time without
    loss. A GPU does one after another, as two threads must not initialise its libraries at the same
    time.
    """
    if device.type == "cpu":
        threads = torch.get_num_threads()
    else:
        threads = 1

    def start() -> None:
        torch.set_num_threads(1)
        work_on(device)

    results = []
    with ThreadPoolExecutor(threads, initializer=start) as pool:
        for item_result in ordered(pool, work, items):
            results.append(item_result)
            yield None
    return results
