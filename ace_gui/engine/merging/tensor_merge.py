"""The merge of one tensor: read, merge, round; large elementwise tensors in parts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ace_gui.checkpoints.derived import ExtendedInfo
from ace_gui.engine.contract.findings import LayerReport, Regime
from ace_gui.engine.contract.matrix_figures import effective_rank
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.merging.method_steps import (
    after_later_steps,
    merge_deltas,
    method_tolerance,
    random_key_of,
    tensor_findings,
)
from ace_gui.engine.merging.quantisation_noise import quantisation_noise
from ace_gui.engine.merging.readers import Readers, ResolvedRow, resolve_non_finite
from ace_gui.engine.merging.task_vectors import (
    CPU,
    GpuVectors,
    StoredByExpert,
    TaskVectors,
    merging_of,
)
from ace_gui.engine.planning.requirements import FLOAT32, kept_bytes, whole_bytes
from ace_gui.engine.streaming import Part, of_row, ordered, parts_of
from ace_gui.errors import MethodError, NonFiniteError, OutputError
from ace_gui.linalg.passes import is_finite, squared_norm
from ace_gui.methods.calling import merged_together
from ace_gui.methods.method import MethodInput
from ace_gui.methods.shared.experts import (
    SURPLUS,
    Diagnostics,
    Merged,
    Vote,
    vectors_for,
)
from ace_gui.methods.shared.survey import (
    Findings,
    Survey,
    findings_in_passes,
    findings_of_one_tensor,
)
from ace_gui.stored_formats import FORMATS

FELL_BACK: Final = "GPU memory was too small for this matrix: it was merged on the processor."
CROWDED: Final = (
    "GPU memory was too small for this matrix together with others: fewer are merged at a time "
    "from here on."
)
DIVIDED: Final = (
    "GPU memory was too small for the batch of this matrix: a smaller one was merged, so its last "
    "digits may differ from those of another run."
)

HARMLESS_NORM: Final = 1e30
"""Relative change that cannot make a finite float32 number infinite.

It is below half a unit in the last place.
"""


@dataclass(frozen=True, kw_only=True)
class OutputChunk:
    """Consecutive elements of an output tensor."""

    start: int
    """Index of the first element in the flat tensor."""
    values: Tensor
    """The elements, flat, in the output's dtype."""
    squared_norm: float = 0.0
    """‖ΔW‖² of the merged change in these elements."""
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    """What the method found."""
    vote: Vote = field(default_factory=Vote)
    """For methods whose parts vote."""


class TensorMerge:
    """Carries out one row of the plan. Iterate over ``pieces``, then read the ``report``.

    ``device``: where matrices are merged. Elementwise methods stay on the CPU, because the transfer
    takes longer than the computation. If GPU memory is too small, ``pieces`` raises a RuntimeError
    (``errors.lacks_room``). It can be requested again after ``note_fallback``. ``dtype``: what
    floats are rounded to; None: no rounding.
    """

    def __init__(
        self, row: PlanRow, readers: Readers, device: torch.device, dtype: torch.dtype | None = None
    ) -> None:
        self.row = row
        self.output_dtype = dtype
        self.prepared = readers.prepared
        self.readers = readers
        self.device = device
        self._squared_norm = 0.0
        self._diagnostics = Diagnostics()
        self._fallbacks: tuple[str, ...] = ()
        """What was done because GPU memory was too small, a sentence each."""
        self._resolved: ResolvedRow | None = None
        """The row without experts that have NaN or Inf; None before one was found."""
        self._caches: dict[Part, StoredByExpert] = {}
        """Stored tensors of parts that are read more than once."""
        self.keeps_experts = False
        """Whether the GPU holds the stored tensors of all experts."""

    @property
    def gpu_bytes(self) -> int:
        """Estimated GPU memory of the merge in bytes."""
        return whole_bytes(self.row, self.prepared)

    @property
    def stored_bytes(self) -> int:
        """Bytes of all experts' stored tensors on the GPU, if none is wider than expected."""
        entries = len(self.row.experts) * math.prod(self.row.shape)
        return entries * max(FORMATS[self.row.dtype].bits // 8, FLOAT32)

    def pieces(self, pool: ThreadPoolExecutor) -> Iterator[OutputChunk]:
        """The output tensor, piece by piece in order; a matrix method gives it in one piece.

        The merge starts again if an expert turns out to have NaN or Inf and the recipe says how to
        continue. It also starts again if a decision over all parts differs from the expected one.
        Raises NonFiniteError, CheckpointError, FileChangedError, ResourceError or MethodError.
        """
        try:
            yield from self._pieces(pool)
            return
        except NonFiniteError as error:
            self._resolved = resolve_non_finite(error, self.row, self.readers)
        self.row = self._resolved.row
        self._squared_norm = 0.0
        yield from self._pieces(pool)

    def _pieces(self, pool: ThreadPoolExecutor) -> Iterator[OutputChunk]:
        elements = math.prod(self.row.shape)
        width = self.prepared.row_width(self.row)
        parts: list[Part] = [(0, elements)]
        # A part of a tensor comes in one piece, as it may have to be inserted between other parts.
        if self.row.part is None:
            parts = list(parts_of(elements, width))
        if not self._is_combined:
            read = partial(self.readers.base.read, self.row.tensor)

            def copied(part: Part) -> OutputChunk:
                values = rounded(of_row(self.row, part, read), self.output_dtype, self.row.name)
                return OutputChunk(start=part[0], values=values)

            yield from ordered(pool, copied, parts)
            return
        if self.prepared.is_whole(self.row):
            yield from merge_whole([self])
            return
        if kept_bytes(self.row, self.prepared):
            self._caches = {part: {} for part in parts}
        yield from self._in_parts(parts, self._findings(parts, pool), pool)
        self._caches = {}

    def _findings(self, parts: Sequence[Part], pool: ThreadPoolExecutor) -> Findings:
        """The findings of the model's surveys, and of this tensor's surveys."""
        row = self.row
        prepared = self.prepared
        experts = range(len(self.row.experts))

        def vectors(survey: Survey, part: Part) -> Sequence[Tensor]:
            deltas = self._vectors(part)
            return vectors_for(survey, deltas, deltas.base)

        def measure(survey: Survey, part: Part) -> Tensor:
            return survey.measure(experts, vectors(survey, part), part[0])

        def measured_parts(survey: Survey) -> Iterator[Tensor]:
            return ordered(pool, partial(measure, survey), parts)

        def in_memory(survey: Survey) -> Findings:
            return findings_of_one_tensor(survey, vectors(survey, parts[0]))

        def carry_out(survey: Survey) -> Findings:
            if len(parts) == 1:
                return pool.submit(in_memory, survey).result()
            return findings_in_passes(survey, partial(measured_parts, survey))

        random_key = random_key_of(row, prepared, self._names, parts[0])
        with merging_of(row.name, self._names):
            return tensor_findings(row, prepared, random_key, carry_out) or {}

    def _in_parts(
        self, parts: Sequence[Part], findings: Findings, pool: ThreadPoolExecutor
    ) -> Iterator[OutputChunk]:
        """Merge in parts; all of them again if their votes differ from the assumed ones."""
        experts = len(self.row.experts)
        vote = Vote()
        votes = self.prepared.method_of(self.row).votes and len(parts) > 1

        def merged(all_findings: Findings, part: Part) -> OutputChunk:
            deltas = self._vectors(part)
            with merging_of(self.row.name, deltas.names):
                chunk = merge_deltas(self.row, self.prepared, deltas, findings=all_findings)
                return self.finished(deltas, chunk, part[0])

        assumed = findings
        if votes:
            assumed = {**findings, SURPLUS: (0.0,) * experts}
        for piece in ordered(pool, partial(merged, assumed), parts):
            self.note(piece)
            vote += piece.vote
            yield piece
        if votes and vote.matters and vote.surplus < 0:
            self._squared_norm = 0.0
            with_surplus = {**findings, SURPLUS: (vote.surplus,) * experts}
            for piece in ordered(pool, partial(merged, with_surplus), parts):
                self.note(piece)
                yield piece

    @property
    def report(self) -> LayerReport:
        """The report, once every piece was taken."""
        report = LayerReport(name=self.row.name)
        if self._is_combined:
            norm = math.sqrt(self._squared_norm)
            report = report_of(self.row, self._names, self._diagnostics, norm)
            noise = quantisation_noise(self.row, self.readers)
            report = replace(report, quantisation_noise=noise)
        if self._resolved is not None:
            notes = (*self._resolved.notes, *report.notes)
            report = replace(report, notes=notes, non_finite=tuple(self._resolved.non_finite))
        return replace(report, notes=(*report.notes, *self._fallbacks))

    def note(self, piece: OutputChunk) -> None:
        """Record the diagnostics of a piece for the report."""
        self._squared_norm += piece.squared_norm
        self._diagnostics = piece.diagnostics

    def finished(self, deltas: TaskVectors, merged: Merged, start: int) -> OutputChunk:
        """The base with a merged change of it, complete and rounded, and its diagnostics."""
        exact = squared_norm(merged.delta).sqrt()
        weight, norm = deltas.restored(deltas.base.add_(merged.delta), exact)
        if not math.isfinite(norm) or (norm > HARMLESS_NORM and not is_finite(weight)):
            raise MethodError(
                "The merged task vector leaves the range of its numbers; lower the experts' "
                "weights or the method's scale, or average this tensor."
            )
        values = weight.reshape(-1)
        self._put_new_tokens_(values, start)
        return OutputChunk(
            start=start,
            values=rounded(values, self.output_dtype, self.row.name),
            squared_norm=norm * norm,
            diagnostics=merged.diagnostics,
            vote=merged.vote,
        )

    def _put_new_tokens_(self, values: Tensor, start: int) -> None:
        """Set the rows of new tokens to the experts' mean, whatever the method does elsewhere.

        ``start``: index of the first value in the tensor.
        """
        row = self.row
        if row.part is not None or not row.is_merged:
            return
        info = self.prepared.base.checkpoint.tensors[row.tensor]
        if not isinstance(info, ExtendedInfo):
            return
        for new_start, new_stop in info.new_parts:
            first = max(new_start, start)
            stop = min(new_stop, start + values.numel())
            if first < stop:
                mean = self.readers.base.read(row.tensor, (first, stop))
                values[first - start : stop - start] = mean

    def note_fallback(self, sentence: str) -> None:
        """Prepare for a retry after GPU memory was too small; the report has the sentence."""
        if sentence == FELL_BACK:
            self.device = CPU
        if sentence not in self._fallbacks:
            self._fallbacks = (*self._fallbacks, sentence)

    @property
    def _is_combined(self) -> bool:
        """Whether there is something to merge; otherwise the tensor is just the base's."""
        # Without experts from the start, a row of a slice is the base's tensor times a factor.
        return self.row.is_combined and (bool(self.row.experts) or self._resolved is None)

    @property
    def _names(self) -> tuple[str, ...]:
        return self.readers.names_of(self.row)

    def _vectors(self, part: Part) -> TaskVectors:
        width = self.prepared.row_width(self.row)
        cached = self._caches.get(part)
        return TaskVectors(self.row, self.readers, CPU, part, width, cached)


def in_the_end(pieces: Iterable[OutputChunk]) -> list[OutputChunk]:
    """All pieces of a row.

    If the merge of the row starts again (``TensorMerge.pieces``), the earlier pieces are dropped,
    so that there is only one result in memory.
    """
    finished: list[OutputChunk] = []
    for piece in pieces:
        if piece.start == 0:
            finished.clear()
        finished.append(piece)
    return finished


def merge_whole(works: Sequence[TensorMerge]) -> list[OutputChunk]:
    """Merge a tensor in one piece, or several matrices of one batch (``batches``), a piece of each.

    Raises what ``TensorMerge.pieces`` raises for any of them, also in cases in which a single merge
    could start again.
    """
    deltas = [_task_vectors(work) for work in works]
    pieces: list[OutputChunk] = []
    try:
        with merging_of(works[0].row.name, deltas[0].names):
            if len(works) == 1:
                merged = [_merged_alone(works[0], deltas[0])]
            else:
                merged = _merged_batch(works, deltas)
            for work, task_vectors, merged_delta in zip(works, deltas, merged, strict=True):
                pieces.append(work.finished(task_vectors, merged_delta, 0))
    except (MethodError, RuntimeError):
        for task_vectors in deltas:
            task_vectors.require_finite()
        raise
    for work, piece in zip(works, pieces, strict=True):
        work.note(piece)
    return pieces


def _task_vectors(work: TensorMerge) -> TaskVectors:
    if work.device.type == "cuda":
        return GpuVectors(work.row, work.readers, work.device, keep=work.keeps_experts)
    cache: StoredByExpert | None = None
    if kept_bytes(work.row, work.prepared):
        cache = {}
    return TaskVectors(work.row, work.readers, work.device, cache=cache)


def _merged_alone(work: TensorMerge, deltas: TaskVectors) -> Merged:
    return merge_deltas(work.row, work.prepared, deltas, output=work.output_dtype)


def _merged_batch(works: Sequence[TensorMerge], deltas: Sequence[TaskVectors]) -> list[Merged]:
    """The merged task vectors of a batch; its rows have one method with the same parameters."""
    row = works[0].row
    prepared = works[0].prepared
    layers = []
    tolerances = []
    for work, task_vectors in zip(works, deltas, strict=True):
        weights = prepared.weights_of(work.row)
        tolerance = task_vectors.tolerance(weights, work.output_dtype)
        share = method_tolerance(work.row, tolerance)
        layers.append(MethodInput(task_vectors, weights, task_vectors.base, share))
        tolerances.append(tolerance)
    bases = [task_vectors.base for task_vectors in deltas]
    parameters = prepared.parameters_of(row)
    merged_layers = merged_together(prepared.method_of(row), layers, bases, parameters)
    finished = []
    results = zip(works, merged_layers, deltas, tolerances, strict=True)
    for work, merged, task_vectors, tolerance in results:
        weights = prepared.weights_of(work.row)
        finished.append(after_later_steps(work.row, merged, task_vectors, weights, tolerance))
    return finished


def report_of(
    row: PlanRow, names: tuple[str, ...], diagnostics: Diagnostics, norm: float
) -> LayerReport:
    """The diagnostics of a method as a plain value, with the names of the experts."""
    regime = None
    if diagnostics.heterogeneous:
        regime = Regime.HETEROGENEOUS
    elif diagnostics.heterogeneous is not None:
        regime = Regime.HOMOGENEOUS
    ranks = None
    spectrum = diagnostics.reshaped
    if spectrum is not None:
        rank_before = effective_rank(np.array(spectrum.before))
        rank_after = effective_rank(np.array(spectrum.after))
        ranks = (rank_before, rank_after)
    energies = None
    if diagnostics.energies:
        energies = dict(zip(names, diagnostics.energies, strict=True))
    return LayerReport(
        name=row.name,
        **diagnostics.figures(),
        regime=regime,
        energies=energies,
        delta_norm=norm,
        effective_ranks=ranks,
        precision=diagnostics.precision,
        notes=diagnostics.notes,
        warnings=diagnostics.warnings,
    )


def rounded(tensor: Tensor, dtype: torch.dtype | None, name: str) -> Tensor:
    """The tensor in the output's dtype, rounded once; as it is if ``dtype`` is None.

    Raises OutputError if finite values exceed the range of the dtype.
    """
    if dtype is None or not tensor.is_floating_point() or tensor.dtype == dtype:
        return tensor
    result = tensor.to(dtype)
    if not is_finite(result):
        count = int((~torch.isfinite(result)).sum())
        format_name = str(dtype).removeprefix("torch.")
        raise OutputError(
            f"{count} values of `{name}` do not fit into {format_name}; choose bfloat16 or "
            "float32.",
            tensor=name,
        )
    return result
