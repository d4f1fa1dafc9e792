"""Surveys: what must be known of the whole model before its first tensor is merged.

For a survey that a method needs, the whole model is every tensor that it merges with the same
parameters; tied tensors count once. Findings are stored with the unfinished merge, so that resuming
needs no second survey. A second survey would find the same: counts do not depend on the order, and
sums follow the plan's order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from ace_gui.engine.contract.events import PassProgress, PlanReady
from ace_gui.engine.contract.findings import LayerStatistics
from ace_gui.engine.contract.model_figures import (
    estimate_checks,
    far_experts,
    fit_checks,
    relative_changes,
)
from ace_gui.engine.contract.plan import Check, CheckVerdict, PlanRow, worst_first
from ace_gui.engine.kept_files import is_there, keep_json, open_json, warn_recomputed
from ace_gui.engine.merging.method_steps import merge_deltas
from ace_gui.engine.merging.readers import Readers, finding
from ace_gui.engine.merging.store import SURVEY
from ace_gui.engine.merging.task_vectors import CPU, TaskVectors, gram, merging_of
from ace_gui.engine.merging.units import Scan, Workers
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.streaming import PASS_ELEMENTS, Part, ordered, single_threads
from ace_gui.errors import CheckpointError, NonFiniteError
from ace_gui.linalg.passes import energy
from ace_gui.methods.method import MergeMethod
from ace_gui.methods.shared.survey import Findings, MethodSurvey, Range, Survey, SurveyContext

TITLE: Final = "looking at the whole model"


Scanning = Callable[[Scan, Sequence[PlanRow]], Iterator[Sequence[Any] | None]]
"""A function from a survey pass and rows to the rows' findings, in order. None: no result yet."""


def of_deltas(survey: Survey, row: PlanRow, readers: Readers, part: Part | None) -> Tensor:
    """The survey's figures of the task vectors of a row, or of a part of it."""
    return survey.measure(row.experts, TaskVectors(row, readers, CPU, part))


@dataclass(frozen=True, kw_only=True)
class SurveyGroup:
    """The rows of one survey."""

    method: MergeMethod[Any]
    """The method of the rows."""
    parameters: Any
    """The method's parameters for the rows."""
    rows: tuple[PlanRow, ...]
    """Every row that it merges with these parameters."""


def surveyed(
    readers: Readers,
    *,
    store: Path | None = None,
    only: PlanRow | None = None,
    workers: Workers | None = None,
) -> Iterator[PassProgress | None]:
    """Add the missing findings that the methods of the rows need to ``Groundwork.findings``.

    ``store``: an unfinished merge that keeps findings. ``only``: restrict to the needs of this
    row's method. ``workers``: the processes that survey; None: this process. This process combines
    the findings in plan order, so that they are the same either way. Raises the errors of reading
    and merging.
    """
    prepared = readers.prepared
    saved = _saved(store)
    findings = prepared.groundwork.findings
    only_parameters = None
    if only is not None:
        only_parameters = prepared.parameters_of(only)
    scan = scanned_here(readers)
    if workers is not None:
        scan = partial(_scanned_by, workers, readers)
    for group in groups(prepared):
        if only is not None and group.parameters != only_parameters:
            continue
        key = (group.method.name, group.parameters)
        label = _label(group)
        if key not in findings and saved.get(label) is not None:
            findings[key] = saved[label]
        if key not in findings:
            if _wants_norms(group.method, group.parameters):
                findings[key] = yield from _norms(group, len(prepared.experts), scan)
            else:
                findings[key] = yield from _findings_of(group, prepared, scan)
        saved[label] = findings[key]
    if saved and store is not None:
        keep_json(store / SURVEY, saved)


def _findings_of(
    group: SurveyGroup, prepared: Prepared, scan: Scanning
) -> Generator[PassProgress | None, None, Findings]:
    """The findings of the method's surveys of the model, or of earlier ones that are the same."""
    context = SurveyContext.of_model(group.parameters, len(prepared.experts))
    surveys = prepared.groundwork.surveys
    for method_survey in group.method.surveys_over(Range.MODEL, group.parameters):
        survey = method_survey.due(context)
        if survey is None:
            continue
        key = _survey_key(group, method_survey)
        if key not in surveys:
            yield from passes(survey, group.rows, scan, TITLE)
            surveys[key] = survey.findings
        context = method_survey.context_with(context, surveys[key])
    return context.findings


def _survey_key(group: SurveyGroup, method_survey: MethodSurvey) -> Hashable:
    """Equal for surveys with the same findings: of the same rows, with the same parameters used."""
    values = asdict(group.parameters)
    if method_survey.uses is None:
        names = tuple(values)
    else:
        names = method_survey.uses
    used = tuple(values[name] for name in names)
    return (group.method.name, method_survey.finds, used, tuple(row.name for row in group.rows))


def waits(row: PlanRow, prepared: Prepared) -> bool:
    """Whether the row's method needs a survey or data before it merges."""
    method = prepared.method_of(row)
    parameters = prepared.parameters_of(row)
    surveys = method.needs_model(parameters, len(prepared.experts))
    return surveys or prepared.need_of(row) is not None


def groups(prepared: Prepared) -> list[SurveyGroup]:
    """The groups that need a survey, in plan order."""
    by_key: dict[tuple[str, Any], list[PlanRow]] = {}
    for row in prepared.plan.rows:
        if row.in_base and row.is_merged and row.tied_to is None:
            key = (prepared.method_of(row).name, prepared.parameters_of(row))
            by_key.setdefault(key, []).append(row)
    surveyed = []
    for (_, parameters), rows in by_key.items():
        method = prepared.method_of(rows[0])
        needs_model = method.needs_model(parameters, len(prepared.experts))
        if needs_model or _wants_norms(method, parameters):
            surveyed.append(SurveyGroup(method=method, parameters=parameters, rows=tuple(rows)))
    return surveyed


def _wants_norms(method: MergeMethod[Any], parameters: Any) -> bool:
    return method.layer_norms is not None and method.layer_norms(parameters)


def scanned_here(readers: Readers) -> Scanning:
    """Scan in this process."""

    def scanned(scan: Scan, rows: Sequence[PlanRow]) -> Iterator[Sequence[Any]]:
        with single_threads() as pool:
            for row in rows:
                yield (scan(row, readers, pool),)

    return scanned


def _scanned_by(
    workers: Workers, readers: Readers, scan: Scan, rows: Sequence[PlanRow]
) -> Iterator[Sequence[Any] | None]:
    """Scan by workers."""
    for scanned in workers.scanned(scan, rows):
        if scanned is None:
            yield None
            continue
        readers.checksums.merge(scanned.readings)
        yield scanned.contributions


def _norms(
    group: SurveyGroup, experts: int, scan: Scanning
) -> Generator[PassProgress | None, None, Findings]:
    """For each role, the mean norm of the method's results without findings."""
    norms: list[float | None] = []
    for next_norms in scan(_norm, group.rows):
        if not next_norms:
            yield None
            continue
        norms += next_norms
        yield PassProgress(title=TITLE, done=len(norms), total=len(group.rows))
    by_role: dict[str, list[float]] = {}
    for row, norm in zip(group.rows, norms, strict=True):
        if norm is not None:
            by_role.setdefault(row.role, []).append(norm)
    means: dict[str, tuple[float, ...]] = {}
    for role, norms_of_role in by_role.items():
        mean = math.fsum(norms_of_role) / len(norms_of_role)
        means[role] = (mean,) * experts  # a finding has a number for each expert
    return means


def _norm(row: PlanRow, readers: Readers, _: ThreadPoolExecutor) -> float | None:
    """The norm of the method's result for a row without findings; None if it has no experts."""
    if not row.experts:
        return None

    def norm(resolved: PlanRow) -> float:
        task_vectors = TaskVectors(resolved, readers, CPU)
        merged = merge_deltas(resolved, readers.prepared, task_vectors)
        return math.sqrt(energy(merged.delta))

    with merging_of(row.name, readers.names_of(row)):
        return finding(norm, row, readers)


def parts_of_pass(elements: int) -> Iterator[Part]:
    """Consecutive parts of a flattened tensor; no parts for an empty one."""
    for start in range(0, elements, PASS_ELEMENTS):
        yield start, min(start + PASS_ELEMENTS, elements)


def passes(
    survey: Survey,
    rows: Sequence[PlanRow],
    scan: Scanning,
    title: str,
    measure: Callable[..., Tensor] = of_deltas,
) -> Iterator[PassProgress | None]:
    """Carry out a survey over rows, in as many passes as it needs.

    ``measure``: the survey's figures of a row, or of a part of it.
    """
    scan_row = partial(row_contribution, survey=survey, measure=measure)
    needs_pass = True
    while needs_pass:
        done = 0
        for contributions in scan(scan_row, rows):
            if not contributions:
                yield None
                continue
            for contribution in contributions:
                if contribution is not None:
                    survey.add(contribution)
                done += 1
            yield PassProgress(title=title, done=done, total=len(rows))
        needs_pass = survey.finish_pass()


def row_contribution(
    row: PlanRow,
    readers: Readers,
    pool: ThreadPoolExecutor,
    survey: Survey,
    measure: Callable[..., Tensor],
) -> Tensor | None:
    """The contribution of one row; None if it has none."""

    def measured(resolved: PlanRow) -> Tensor | None:
        if not resolved.experts:
            return None
        if survey.whole_tensor:
            return measure(survey, resolved, readers, None)
        measure_part = partial(measure, survey, resolved, readers)
        total = None
        for contribution in ordered(pool, measure_part, parts_of_pass(prod(resolved.shape))):
            if total is None:
                total = contribution
            else:
                total = total.add_(contribution)
        return total

    # Experts with NaN or Inf in the row are excluded if the recipe says so.
    with merging_of(row.name, readers.names_of(row)):
        return finding(measured, row, readers)


def _label(group: SurveyGroup) -> str:
    """The key of a group's findings in the file."""
    return json.dumps([group.method.name, asdict(group.parameters)], sort_keys=True)


def _saved(store: Path | None) -> dict[str, Findings]:
    """The findings of an earlier run of this merge; nothing if the file is damaged."""
    if store is None or not is_there(store / SURVEY):
        return {}
    try:
        saved: dict[str, Findings] = {}
        for label, findings in open_json(store / SURVEY).items():
            saved[label] = {name: tuple(map(float, values)) for name, values in findings.items()}
        return saved
    except CheckpointError as error:
        warn_recomputed(store / SURVEY, error)
        return {}


MATRICES: Final = 32
"""Matrices of which some elements are read, about."""

BLOCK: Final = 1 << 14
"""Elements read from the middle of each matrix."""


def distance_checks(prepared: Prepared) -> tuple[Check, ...]:
    """A warning for each expert too far from the base, or much farther than the other experts.

    Without such an expert one check that says what was read. An estimate from some blocks says
    whether to look closer. Warnings are about all tensors, by the distances of ``plan_changes``.
    Does nothing if the check was made before. Raises CheckpointError or FileChangedError.
    """
    distances = prepared.groundwork.distances
    if not distances:
        recipe = prepared.recipe
        pairs = zip(recipe.expert_names, recipe.weights, strict=True)
        weights = {name: float(weight != 0) for name, weight in pairs}  # 1, or 0 if it has no part
        matrices = [row for row in _compared(prepared) if len(row.shape) > 1]
        sample = matrices[:: max(1, len(matrices) // MATRICES)]
        changes = relative_changes(_energies(prepared, sample, BLOCK), weights)
        checks = estimate_checks(changes, len(sample), len(matrices))
        if far_experts(changes):
            changes = relative_changes(_energies(prepared, _compared(prepared)), weights)
            checks = far_experts(changes) or fit_checks(changes)
        distances.extend(checks)
    return tuple(distances)


def plan_ready(prepared: Prepared, checks: Iterable[Check]) -> PlanReady:
    """The plan with these checks and with those of distances, which read some weights."""
    sorted_checks = worst_first((*checks, *distance_checks(prepared)))
    return PlanReady(plan=replace(prepared.plan, checks=sorted_checks))


def far_lines(prepared: Prepared) -> tuple[str, ...]:
    """The warnings of ``distance_checks``."""
    checks = distance_checks(prepared)
    return tuple(check.line for check in checks if check.verdict is CheckVerdict.WARNING)


def distance_notes(prepared: Prepared) -> tuple[str, ...]:
    """What ``distance_checks`` found where nothing is to be warned of."""
    checks = distance_checks(prepared)
    return tuple(check.line for check in checks if check.verdict is CheckVerdict.OK)


def _compared(prepared: Prepared) -> list[PlanRow]:
    """The rows in which the experts have the recipe's weights."""
    weights = prepared.recipe.weights
    compared = []
    for row in prepared.plan.rows:
        has_weights = row.override is None or row.override.weights == weights
        if has_weights and row.in_base and row.is_combined and row.experts:
            compared.append(row)
    return compared


def _energies(
    prepared: Prepared, rows: Sequence[PlanRow], block: int | None = None
) -> Iterator[LayerStatistics]:
    """Energies of rows, or of so many elements from the middle of each, without weights."""
    readers = Readers(prepared)

    def statistics(row: PlanRow) -> LayerStatistics | None:
        elements = math.prod(row.shape)
        parts = None
        if block is not None:
            start = max(0, (elements - block) // 2)
            parts = [(start, min(elements, start + block))]
        try:
            gram_TT, base_energy = gram(row, readers, parts)
        except NonFiniteError:  # the merge handles these
            return None
        names = readers.names_of(row)
        energies = dict(zip(names, map(float, gram_TT.diagonal()), strict=True))
        return LayerStatistics(name=row.name, energies=energies, base_energy=base_energy)

    with single_threads() as pool:
        layers = ordered(pool, statistics, rows)
        yield from (layer for layer in layers if layer is not None)
