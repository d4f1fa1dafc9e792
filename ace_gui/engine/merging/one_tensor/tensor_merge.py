"""The merge of one tensor: read, merge, round; large elementwise tensors in parts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ace_gui.checkpoints import new_parts
from ace_gui.engine.contract.figures.findings import LayerReport, Regime
from ace_gui.engine.contract.figures.spectral_figures import effective_rank
from ace_gui.engine.contract.plan import NOTHING_AFTER, Disposition, PlanRow
from ace_gui.engine.merging.on_gpu.gpu_vectors import GpuVectors
from ace_gui.engine.merging.one_tensor.error_context import merging_of
from ace_gui.engine.merging.one_tensor.measured_rows import averaged, measured_of, need_of
from ace_gui.engine.merging.one_tensor.non_finite import ResolvedRow, resolve_non_finite
from ace_gui.engine.merging.one_tensor.random_keys import random_key_of
from ace_gui.engine.merging.one_tensor.task_vectors import Kept, Readers, TaskVectors
from ace_gui.engine.merging.one_tensor.tensor_findings import tensor_findings
from ace_gui.engine.planning.matrix_parts import of_row
from ace_gui.engine.planning.memory import FLOAT32, kept_bytes, whole_bytes
from ace_gui.engine.planning.prepare import Prepared
from ace_gui.engine.streaming import Part, ordered, parts_of
from ace_gui.errors import MethodError, NonFiniteError, OutputError
from ace_gui.linalg.finite import is_finite
from ace_gui.methods.calling import merged_by, merged_together
from ace_gui.methods.linear import LinearParameters, linear
from ace_gui.methods.method import SURPLUS, Context, Diagnostics, Merged, MethodInput, Vote
from ace_gui.methods.shared.after import changed_after
from ace_gui.methods.shared.survey import Findings
from ace_gui.methods.shared.tolerance import STRICT
from ace_gui.stored_formats import FORMATS

CPU: Final = torch.device("cpu")

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
    (``errors.lacks_room``). It can be requested again when memory is free, or after ``fall_back``;
    the report mentions it. ``dtype``: what floats are rounded to; None: no rounding.
    ``keeps_experts``: whether the GPU holds the stored tensors of all experts.
    """

    def __init__(
        self,
        row: PlanRow,
        prepared: Prepared,
        readers: Readers,
        device: torch.device,
        dtype: torch.dtype | None = None,
    ) -> None:
        self._row = row
        self._dtype = dtype
        self._prepared = prepared
        self._readers = readers
        self.device = device
        self._squared_norm = 0.0
        self._diagnostics = Diagnostics()
        self._hindrances: tuple[str, ...] = ()
        self._settled: ResolvedRow | None = None
        self._kept: dict[Part, Kept] = {}
        self.keeps_experts = False

    @property
    def gpu_bytes(self) -> int:
        """Estimated GPU memory of the merge in bytes."""
        return whole_bytes(self._row, self._prepared.method)

    @property
    def stored_bytes(self) -> int:
        """Bytes of all experts' stored tensors on the GPU, if none is wider than expected."""
        entries = len(self._row.experts) * math.prod(self._row.shape)
        return entries * max(FORMATS[self._row.dtype].bits // 8, FLOAT32)

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
            self._settled = resolve_non_finite(error, self._row, self._prepared, self._readers)
        self._row, self._squared_norm = self._settled.row, 0.0
        yield from self._pieces(pool)

    def _pieces(self, pool: ThreadPoolExecutor) -> Iterator[OutputChunk]:
        elements, width = math.prod(self._row.shape), self._prepared.row_width(self._row)
        # A part of a tensor comes in one piece, as it may have to be inserted between other parts.
        parts = list(parts_of(elements, width)) if self._row.part is None else [(0, elements)]
        if not self._is_combined:
            yield from ordered(pool, self._copied, parts)
            return
        if self._prepared.is_whole(self._row):
            (piece,) = merge_whole([self])
            yield self.took(piece)
            return
        if kept_bytes(self._row, self._prepared.method):
            self._kept = {part: {} for part in parts}
        findings = tensor_findings(
            self._row, self._prepared, self._vectors, self._names, pool, parts
        )
        yield from self._in_parts(parts, findings, pool)
        self._kept = {}

    def _in_parts(
        self, parts: Sequence[Part], findings: Findings, pool: ThreadPoolExecutor
    ) -> Iterator[OutputChunk]:
        """Merge in parts; all of them again if their votes differ from the assumed ones."""
        given, experts = findings, len(self._row.experts)
        if self._prepared.method_of(self._row).votes and len(parts) > 1:
            given = {**findings, SURPLUS: (0.0,) * experts}
        vote = Vote()
        for piece in ordered(pool, partial(self._merged, findings=given), parts):
            self._note(piece)
            vote += piece.vote
            yield piece
        if SURPLUS in given and vote.matters and vote.surplus < 0:
            self._squared_norm = 0.0
            known = {**findings, SURPLUS: (vote.surplus,) * experts}
            for piece in ordered(pool, partial(self._merged, findings=known), parts):
                self._note(piece)
                yield piece

    @property
    def report(self) -> LayerReport:
        """The report, once every piece was taken."""
        report = self._report()
        if self._settled is not None:
            notes = (*self._settled.notes, *report.notes)
            report = replace(report, notes=notes, non_finite=tuple(self._settled.found))
        return replace(report, notes=(*report.notes, *self._hindrances))

    def took(self, piece: OutputChunk) -> OutputChunk:
        """Note, complete and round the result of ``merge_whole`` for this tensor."""
        self._note(piece)
        return self._rounded(self._with_new_rows(piece))

    def _note(self, piece: OutputChunk) -> None:
        """Record the diagnostics of a piece for the report."""
        self._squared_norm += piece.squared_norm
        self._diagnostics = piece.diagnostics

    def _rounded(self, piece: OutputChunk) -> OutputChunk:
        if self._dtype is None:
            return piece
        return replace(piece, values=rounded(piece.values, self._dtype, self._row.name))

    def _with_new_rows(self, piece: OutputChunk) -> OutputChunk:
        """Set rows of new tokens to the mean of the experts, whatever the method does elsewhere."""
        row, stop = self._row, piece.start + piece.values.numel()
        if row.part is None and row.disposition is Disposition.MERGED:
            for new in new_parts(self._prepared.base.checkpoint, row.tensor):
                first, last = max(new[0], piece.start), min(new[1], stop)
                if first < last:
                    mean = self._readers.base.read(row.tensor, (first, last))
                    piece.values[first - piece.start : last - piece.start] = mean
        return piece

    def _task_vectors(self) -> TaskVectors:
        if self.device.type == "cuda":
            return GpuVectors(self._row, self._readers, self.device, keep=self.keeps_experts)
        return TaskVectors(self._row, self._readers, self.device)

    def begin_again(self) -> None:
        """Prepare for a retry: GPU memory was too small with other batches running."""
        self._hindered(CROWDED)

    def divide(self) -> None:
        """Prepare for a retry in a smaller batch: GPU memory was too small for the whole batch."""
        self._hindered(DIVIDED)

    def fall_back(self) -> None:
        """Merge on the CPU, because GPU memory is too small."""
        self.device = CPU
        self._hindered(FELL_BACK)

    def _hindered(self, how: str) -> None:
        if how not in self._hindrances:
            self._hindrances = (*self._hindrances, how)

    @property
    def _is_combined(self) -> bool:
        """Whether there is something to merge; otherwise the tensor is just the base's."""
        combined = self._row.disposition in {Disposition.MERGED, Disposition.AVERAGED}
        # Without experts from the start, a row of a slice is the base's tensor times a factor.
        return combined and (bool(self._row.experts) or self._settled is None)

    def _report(self) -> LayerReport:
        if not self._is_combined:
            return LayerReport(name=self._row.name)
        return report_of(self._row, self._names, self._diagnostics, math.sqrt(self._squared_norm))

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(self._readers.experts[t].model.name for t in self._row.experts)

    def _copied(self, part: Part) -> OutputChunk:
        read = partial(self._readers.base.read, self._row.tensor)
        return self._rounded(OutputChunk(start=part[0], values=of_row(self._row, part, read)))

    def _vectors(self, part: Part) -> TaskVectors:
        width = self._prepared.row_width(self._row)
        kept = self._kept.get(part)
        return TaskVectors(self._row, self._readers, CPU, part, width, kept)

    def _merged(self, part: Part, findings: Findings | None) -> OutputChunk:
        piece = _merged_piece(self, self._vectors(part), part[0], findings)
        return self._rounded(self._with_new_rows(piece))


def in_the_end(pieces: Iterable[OutputChunk]) -> list[OutputChunk]:
    """All pieces of a row.

    If the merge of the row starts again (``TensorMerge.pieces``), the earlier pieces are dropped,
    so that two results are never held.
    """
    found: list[OutputChunk] = []
    for piece in pieces:
        if piece.start == 0:
            found.clear()
        found.append(piece)
    return found


def pieces_together(works: Sequence[TensorMerge]) -> list[list[OutputChunk]]:
    """The pieces of several matrices that are merged together (``batches``), one of each.

    Raises what ``TensorMerge.pieces`` raises for any of them, also in cases in which a single merge
    could start again.
    """
    found = merge_whole(works)
    return [[work.took(piece)] for work, piece in zip(works, found, strict=True)]


def merge_whole(works: Sequence[TensorMerge]) -> list[OutputChunk]:
    """Merge a tensor that comes in one piece, or several tensors of one batch."""
    deltas = [work._task_vectors() for work in works]
    try:
        return _merged_pieces(works, deltas)
    except (MethodError, RuntimeError):
        for own in deltas:
            own.require_finite()
        raise


def _merged_pieces(
    works: Sequence[TensorMerge], deltas: Sequence[TaskVectors]
) -> list[OutputChunk]:
    (row, *others), prepared = [work._row for work in works], works[0]._prepared
    if not others:
        return [_merged_piece(works[0], deltas[0], 0)]
    method, bases = prepared.method_of(row), [own.base for own in deltas]
    weights = [prepared.weights_of(each) for each in (row, *others)]
    with merging_of(row.name, deltas[0].names):
        layers = [
            MethodInput(own, weight, own.base, own.tolerance(weight, work._dtype))
            for work, own, weight in zip(works, deltas, weights, strict=True)
        ]
        found = merged_together(method, layers, bases, prepared.parameters_of(row))
        rows = (row, *others)
        return [
            _piece(own, _after(each, merged, own, weight), 0)
            for each, merged, own, weight in zip(rows, found, deltas, weights, strict=True)
        ]


def _merged_piece(
    work: TensorMerge, deltas: TaskVectors, start: int, findings: Findings | None = None
) -> OutputChunk:
    row, prepared = work._row, work._prepared
    with merging_of(row.name, deltas.names):
        merged = merge_deltas(row, prepared, deltas, output=work._dtype, findings=findings)
        return _piece(deltas, merged, start)


def _piece(deltas: TaskVectors, merged: Merged, start: int) -> OutputChunk:
    exact = torch.linalg.vector_norm(merged.delta, dtype=torch.float64)
    values, norm = deltas.restored(deltas.base.add_(merged.delta), exact)
    if not math.isfinite(norm) or (norm > HARMLESS_NORM and not is_finite(values)):
        raise MethodError(
            "The merged task vector leaves the range of its numbers; lower the experts' weights or "
            "the method's scale, or average this tensor."
        )
    return OutputChunk(
        start=start,
        values=values.reshape(-1),
        squared_norm=norm * norm,
        diagnostics=merged.diagnostics,
        vote=merged.vote,
    )


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
    ``deltas`` are a part of it; None: those of the model.
    """
    weights = prepared.weights_of(row)
    if row.disposition == Disposition.AVERAGED:
        return linear(deltas, weights, LinearParameters())
    random_key = random_key_of(row, prepared, deltas.names, deltas.part)
    parameters = prepared.parameters_of(row)
    context = Context(
        keep_preliminary=keep_preliminary,
        random_key=random_key,
        findings=prepared.findings_of(row) if findings is None else findings,
        own=prepared.own_of(row),
        base=deltas.base,
        tolerance=deltas.tolerance(weights, output) if prepared.is_whole(row) else STRICT,
    )
    need = need_of(row, prepared)
    if need is not None:
        context["measured"] = measured_of(row, prepared, deltas, need)
        if context["measured"] is None:
            mean = averaged(linear(deltas, weights, LinearParameters()))
            return _after(row, mean, deltas, weights)
    method = prepared.method_of(row)
    with merging_of(row.name, deltas.names):
        merged = merged_by(method, deltas, weights, parameters, deltas.base, context)
    return _after(row, merged, deltas, weights)


def _after(row: PlanRow, merged: Merged, deltas: TaskVectors, weights: Sequence[float]) -> Merged:
    """The merged task vector after the recipe's later steps for this row."""
    if row.after == NOTHING_AFTER:
        return merged
    return changed_after(merged, deltas, weights, deltas.base, **asdict(row.after))


def report_of(row: PlanRow, names: tuple[str, ...], found: Diagnostics, norm: float) -> LayerReport:
    """The diagnostics of a method as a plain value, with the names of the experts."""
    regime = None
    if found.heterogeneous is not None:
        regime = Regime.HETEROGENEOUS if found.heterogeneous else Regime.HOMOGENEOUS
    return LayerReport(
        name=row.name,
        gamma=found.gamma,
        log_variance=found.log_variance,
        regime=regime,
        ridge_mass=found.ridge_mass,
        condition=found.condition,
        refinement_cosine=found.refinement_cosine,
        refinement_ratio=found.refinement_ratio,
        energies=dict(zip(names, found.energies, strict=True)) if found.energies else None,
        delta_norm=norm,
        cap_factor=found.cap_factor,
        effective_ranks=_effective_ranks(found),
        precision=found.precision,
        notes=found.notes,
        warnings=found.warnings,
    )


def _effective_ranks(found: Diagnostics) -> tuple[float, float] | None:
    if found.reshaped is None:
        return None
    before, after = (effective_rank(np.array(sigma)) for sigma in found.reshaped)
    return before, after


def rounded(tensor: Tensor, dtype: torch.dtype, name: str) -> Tensor:
    """The tensor in the output's dtype, rounded once.

    Raises OutputError if finite values exceed the range of the dtype.
    """
    if not tensor.is_floating_point() or tensor.dtype == dtype:
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
