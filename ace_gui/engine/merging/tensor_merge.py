"""The merge of one tensor: read, merge, round; large elementwise tensors in parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ace_gui.checkpoints.derived import ExtendedInfo
from ace_gui.engine.contract.findings import LayerReport, Regime
from ace_gui.engine.contract.matrix_figures import effective_rank
from ace_gui.engine.contract.plan import NOTHING_AFTER, Disposition, PlanRow
from ace_gui.engine.merging.low_rank_merge import merged_in_coordinates
from ace_gui.engine.merging.quantisation_noise import quantisation_noise
from ace_gui.engine.merging.readers import Readers, ResolvedRow, resolve_non_finite
from ace_gui.engine.merging.task_vectors import (
    CPU,
    GpuVectors,
    Kept,
    TaskVectors,
    averaged,
    measured_of,
    merging_of,
)
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.requirements import FLOAT32, kept_bytes, whole_bytes
from ace_gui.engine.streaming import Part, of_row, ordered, parts_of
from ace_gui.errors import MethodError, NonFiniteError, OutputError
from ace_gui.linalg.passes import is_finite, squared_norm
from ace_gui.methods.calling import merged_by, merged_together
from ace_gui.methods.linear import LinearParameters, linear
from ace_gui.methods.method import Kind, MethodInput
from ace_gui.methods.shared.after import SHARE_BEFORE, changed_after
from ace_gui.methods.shared.experts import (
    SURPLUS,
    Computed,
    Context,
    Diagnostics,
    Merged,
    Vote,
    vectors_for,
)
from ace_gui.methods.shared.survey import (
    Findings,
    RandomKey,
    Range,
    Survey,
    SurveyContext,
    context_after,
    findings_in_memory,
    findings_in_passes,
)
from ace_gui.methods.shared.tolerance import STRICT, Tolerance
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
    """Consecutive elements of an output tensor, flat, in the output's dtype."""

    start: int
    values: Tensor
    squared_norm: float = 0.0
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    vote: Vote = field(default_factory=Vote)


class TensorMerge:
    """Carries out one row of the plan. Iterate over ``pieces``, then read the ``report``.

    ``device``: where matrices are merged. Elementwise methods stay on the CPU, because the transfer
    takes longer than the computation. If GPU memory is too small, ``pieces`` raises a RuntimeError
    (``errors.lacks_room``). It can be requested again after ``note_fallback``. ``dtype``: what
    floats are rounded to; None: no rounding. ``keeps_experts``: whether the GPU holds the stored
    tensors of all experts.
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
        self._resolved: ResolvedRow | None = None
        self._caches: dict[Part, Kept] = {}
        self.keeps_experts = False

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
        # A part of a tensor comes in one piece, as it may have to be inserted between other parts.
        parts = list(parts_of(elements, width)) if self.row.part is None else [(0, elements)]
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

        def carry_out(survey: Survey) -> Findings:
            if len(parts) == 1:
                return pool.submit(
                    lambda: findings_in_memory(survey, vectors(survey, parts[0]))
                ).result()
            return findings_in_passes(
                survey, lambda: ordered(pool, partial(measure, survey), parts)
            )

        random_key = _random_key(row, prepared, self._names, parts[0])
        with merging_of(row.name, self._names):
            return _tensor_findings(row, prepared, random_key, carry_out) or {}

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

        assumed = {**findings, SURPLUS: (0.0,) * experts} if votes else findings
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
            report = replace(report, notes=notes, non_finite=tuple(self._resolved.found))
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
        row = self.row
        values = weight.reshape(-1)
        if row.part is None and row.is_merged:
            # Rows of new tokens are the experts' mean, whatever the method does elsewhere.
            info = self.prepared.base.checkpoint.tensors[row.tensor]
            for new in info.new_parts if isinstance(info, ExtendedInfo) else ():
                first = max(new[0], start)
                last = min(new[1], start + values.numel())
                if first < last:
                    mean = self.readers.base.read(row.tensor, (first, last))
                    values[first - start : last - start] = mean
        return OutputChunk(
            start=start,
            values=rounded(values, self.output_dtype, row.name),
            squared_norm=norm * norm,
            diagnostics=merged.diagnostics,
            vote=merged.vote,
        )

    def note_fallback(self, how: str) -> None:
        """Prepare for a retry after GPU memory was too small; ``how`` goes into the report."""
        if how == FELL_BACK:
            self.device = CPU
        if how not in self._fallbacks:
            self._fallbacks = (*self._fallbacks, how)

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
    try:
        with merging_of(works[0].row.name, deltas[0].names):
            if len(works) == 1:
                work = works[0]
                merged = [
                    merge_deltas(work.row, work.prepared, deltas[0], output=work.output_dtype)
                ]
            else:
                merged = _merged_batch(works, deltas)
            pieces = [
                work.finished(task_vectors, delta, 0)
                for work, task_vectors, delta in zip(works, deltas, merged, strict=True)
            ]
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
    keeps = bool(kept_bytes(work.row, work.prepared))
    return TaskVectors(work.row, work.readers, work.device, cache={} if keeps else None)


def _merged_batch(works: Sequence[TensorMerge], deltas: Sequence[TaskVectors]) -> list[Merged]:
    row = works[0].row
    prepared = works[0].prepared
    layers = []
    tolerances = []
    for work, task_vectors in zip(works, deltas, strict=True):
        weights = prepared.weights_of(work.row)
        tolerance = task_vectors.tolerance(weights, work.output_dtype)
        of_method = _of_method(work.row, tolerance)
        layers.append(MethodInput(task_vectors, weights, task_vectors.base, of_method))
        tolerances.append(tolerance)
    bases = [task_vectors.base for task_vectors in deltas]
    parameters = prepared.parameters_of(row)
    merged_layers = merged_together(prepared.method_of(row), layers, bases, parameters)
    finished = []
    for work, merged, vectors, tolerance in zip(
        works, merged_layers, deltas, tolerances, strict=True
    ):
        weights = prepared.weights_of(work.row)
        finished.append(_after(work.row, merged, vectors, weights, tolerance))
    return finished


def _of_method(row: PlanRow, tolerance: Tolerance) -> Tolerance:
    """What the method may use of the tolerance, beside steps that use some."""
    if row.after.reshapes:
        return tolerance.part(SHARE_BEFORE)
    return tolerance


def _tensor_findings(
    row: PlanRow,
    prepared: Prepared,
    random_key: RandomKey | None,
    carry_out: Callable[[Survey], Findings],
) -> Findings | None:
    """The findings of the model's surveys, and of the tensor's, which ``carry_out`` runs.

    None if there are no findings of the model, and no surveys of the tensor.
    """
    findings = prepared.findings_of(row)
    parameters = prepared.parameters_of(row)
    surveys = prepared.method_of(row).surveys_over(Range.TENSOR, parameters)
    if not row.is_merged or not surveys:
        return findings
    context = SurveyContext(
        parameters=prepared.expert_parameters_of(row) or [parameters] * len(row.experts),
        weights=prepared.weights_of(row),
        findings=findings or {},
        random_key=random_key,
    )
    return context_after(surveys, context, carry_out).findings


def merge_deltas(
    row: PlanRow,
    prepared: Prepared,
    deltas: TaskVectors,
    *,
    keep_preliminary: bool = False,
    output: torch.dtype | None = None,
    findings: Findings | None = None,
) -> Merged:
    """The merged task vector of one tensor, by the recipe's method or the mean.

    ``output``: dtype in which the result is stored; None if unknown. ``findings``: of the tensor if
    ``deltas`` are a part of it; None: the tensor is surveyed here.
    """
    weights = prepared.weights_of(row)
    if row.disposition == Disposition.AVERAGED:
        return linear(deltas, weights, LinearParameters())
    need = prepared.need_of(row)
    measured = None if need is None else measured_of(row, prepared, deltas, need)
    if need is not None and measured is None:
        mean = averaged(linear(deltas, weights, LinearParameters()))
        return _after(row, mean, deltas, weights, deltas.tolerance(weights, output))
    random_key = _random_key(row, prepared, deltas.names, deltas.part)
    if findings is None:

        def at_once(survey: Survey) -> Findings:
            return findings_in_memory(survey, vectors_for(survey, deltas, deltas.base))

        with merging_of(row.name, deltas.names):
            findings = _tensor_findings(row, prepared, random_key, at_once)
    tolerance = deltas.tolerance(weights, output) if prepared.is_whole(row) else STRICT
    context = Context(
        keep_preliminary=keep_preliminary,
        random_key=random_key,
        findings=findings,
        expert_parameters=prepared.expert_parameters_of(row),
        base=deltas.base,
        tolerance=_of_method(row, tolerance),
        measured=measured,
    )
    in_coordinates = merged_in_coordinates(row, prepared, deltas, context)
    if in_coordinates is not None:
        return in_coordinates.whole()
    parameters = prepared.parameters_of(row)
    method = prepared.method_of(row)
    with merging_of(row.name, deltas.names):
        merged = merged_by(method, deltas, weights, parameters, deltas.base, context)
    return _after(row, merged, deltas, weights, tolerance)


def _after(
    row: PlanRow,
    merged: Merged,
    deltas: TaskVectors,
    weights: Sequence[float],
    tolerance: Tolerance,
) -> Merged:
    """The merged task vector after the recipe's later steps for this row."""
    if row.after == NOTHING_AFTER:
        return merged
    matrix = replace(merged, delta=merged.delta.flatten(1))  # of a convolution; others have 2 axes
    matrices = Computed(len(deltas), lambda t: deltas[t].flatten(1))
    base_OI = deltas.base.flatten(1)
    steps = asdict(row.after)
    changed = changed_after(matrix, matrices, weights, base_OI, **steps, tolerance=tolerance)
    return replace(changed, delta=changed.delta.view(merged.delta.shape))


def _random_key(
    row: PlanRow, prepared: Prepared, experts: Sequence[str], part: Part | None
) -> RandomKey:
    """The key of the random numbers for the task vectors of a row, or of a part of it.

    A tied tensor uses the key of the tensor it is tied to, so that both stay equal.
    """
    by_entries = prepared.method_of(row).kind is Kind.ENTRY
    return RandomKey(
        tensor=row.tied_to or row.name,
        experts=tuple(experts),
        seed=prepared.recipe.seed,
        role=row.role,
        start=part[0] if part else 0,
        turned=by_entries and row.transposed and part is None,
    )


def report_of(
    row: PlanRow, names: tuple[str, ...], diagnostics: Diagnostics, norm: float
) -> LayerReport:
    """The diagnostics of a method as a plain value, with the names of the experts."""
    regime = None
    if diagnostics.heterogeneous is not None:
        regime = Regime.HETEROGENEOUS if diagnostics.heterogeneous else Regime.HOMOGENEOUS
    ranks = None
    if diagnostics.reshaped is not None:
        before, after = (effective_rank(np.array(sigma)) for sigma in diagnostics.reshaped)
        ranks = before, after
    return LayerReport(
        name=row.name,
        **diagnostics.figures(),
        regime=regime,
        energies=dict(zip(names, diagnostics.energies, strict=True))
        if diagnostics.energies
        else None,
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
        lost = int((~torch.isfinite(result)).sum())
        plain = str(dtype).removeprefix("torch.")
        raise OutputError(
            f"{lost} values of `{name}` do not fit into {plain}; choose bfloat16 or float32.",
            tensor=name,
        )
    return result
