"""The steps to a merged task vector: its surveys, its method, and what the recipe does after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

import torch

from ace_gui.engine.contract.plan import NOTHING_AFTER, Disposition, PlanRow
from ace_gui.engine.merging.low_rank_merge import merged_in_coordinates
from ace_gui.engine.merging.task_vectors import TaskVectors, averaged, measured_of, merging_of
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.streaming import Part
from ace_gui.methods.calling import merged_by
from ace_gui.methods.linear import LinearParameters, linear
from ace_gui.methods.method import Kind
from ace_gui.methods.shared.after import SHARE_BEFORE, changed_after
from ace_gui.methods.shared.experts import Computed, Context, Merged, vectors_for
from ace_gui.methods.shared.survey import (
    Findings,
    RandomKey,
    Range,
    Survey,
    SurveyContext,
    context_after,
    findings_of_one_tensor,
)
from ace_gui.methods.shared.tolerance import STRICT, Tolerance


def method_tolerance(row: PlanRow, tolerance: Tolerance) -> Tolerance:
    """What the method may use of the tolerance, beside steps that use some."""
    if row.after.reshapes:
        return tolerance.part(SHARE_BEFORE)
    return tolerance


def tensor_findings(
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
    measured = None
    if need is not None:
        measured = measured_of(row, prepared, deltas, need)
        if measured is None:  # the method cannot merge without them
            mean = averaged(linear(deltas, weights, LinearParameters()))
            return after_later_steps(row, mean, deltas, weights, deltas.tolerance(weights, output))
    random_key = random_key_of(row, prepared, deltas.names, deltas.part)
    if findings is None:
        findings = _findings_of_whole(row, prepared, deltas, random_key)
    tolerance = deltas.tolerance(weights, output) if prepared.is_whole(row) else STRICT
    context = Context(
        keep_preliminary=keep_preliminary,
        random_key=random_key,
        findings=findings,
        expert_parameters=prepared.expert_parameters_of(row),
        base=deltas.base,
        tolerance=method_tolerance(row, tolerance),
        measured=measured,
    )
    in_coordinates = merged_in_coordinates(row, prepared, deltas, context)
    if in_coordinates is not None:
        return in_coordinates.whole()
    parameters = prepared.parameters_of(row)
    method = prepared.method_of(row)
    with merging_of(row.name, deltas.names):
        merged = merged_by(method, deltas, weights, parameters, deltas.base, context)
    return after_later_steps(row, merged, deltas, weights, tolerance)


def _findings_of_whole(
    row: PlanRow, prepared: Prepared, deltas: TaskVectors, random_key: RandomKey
) -> Findings | None:
    """``tensor_findings`` of a tensor that is whole in memory."""

    def carry_out(survey: Survey) -> Findings:
        return findings_of_one_tensor(survey, vectors_for(survey, deltas, deltas.base))

    with merging_of(row.name, deltas.names):
        return tensor_findings(row, prepared, random_key, carry_out)


def after_later_steps(
    row: PlanRow,
    merged: Merged,
    deltas: TaskVectors,
    weights: Sequence[float],
    tolerance: Tolerance,
) -> Merged:
    """The merged task vector, after the steps that the recipe has for this row after any method."""
    if row.after == NOTHING_AFTER:
        return merged
    matrix = replace(merged, delta=merged.delta.flatten(1))  # of a convolution; others have 2 axes
    matrices = Computed(len(deltas), lambda t: deltas[t].flatten(1))
    base_OI = deltas.base.flatten(1)
    steps = asdict(row.after)
    changed = changed_after(matrix, matrices, weights, base_OI, **steps, tolerance=tolerance)
    return replace(changed, delta=changed.delta.view(merged.delta.shape))


def random_key_of(
    row: PlanRow, prepared: Prepared, experts: Sequence[str], part: Part | None
) -> RandomKey:
    """The key of the random numbers for the task vectors of a row, or of a part of it.

    A tied tensor uses the key of the tensor it is tied to, so that both stay equal.
    """
    by_entries = prepared.method_of(row).kind is Kind.ENTRY
    start = 0
    if part is not None:
        start, _ = part
    return RandomKey(
        tensor=row.tied_to or row.name,
        experts=tuple(experts),
        seed=prepared.recipe.seed,
        role=row.role,
        start=start,
        transposed=by_entries and row.transposed and part is None,
    )
