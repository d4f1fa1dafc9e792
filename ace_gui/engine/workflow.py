"""The complete workflow of a merge: prepare, check, merge, then publish or report."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ace_gui.checkpoints.pickle_conversion import with_consent
from ace_gui.checkpoints.staging import claimed_output
from ace_gui.engine.calibrating.calibrate import calibration_files
from ace_gui.engine.capabilities import memory_of, resolve_device, use_threads
from ace_gui.engine.cluster.ray_cluster import Address
from ace_gui.engine.cluster.ray_workers import workers_at
from ace_gui.engine.contract.events import Event, Exported
from ace_gui.engine.contract.findings import LayerReport, LayerStatistics
from ace_gui.engine.contract.model_figures import Forecast, fit_checks, forecast, plan_changes
from ace_gui.engine.contract.plan import Check, worst_first
from ace_gui.engine.contract.scored import TaskScore
from ace_gui.engine.evaluating.evaluate import check_tasks, merged_scores, require_tasks
from ace_gui.engine.inspecting.layer_context import InspectionCache
from ace_gui.engine.inspecting.statistics import Layer, analyse, layers_of, sampled
from ace_gui.engine.merging.merge import input_paths, merge
from ace_gui.engine.merging.merge_manifest import AdapterOptions
from ace_gui.engine.merging.store import MODEL
from ace_gui.engine.merging.surveying import plan_ready
from ace_gui.engine.output.adapter_writing import write_adapter
from ace_gui.engine.output.exporters import (
    Straight,
    ThroughModel,
    exporter_of,
    with_output_checks,
)
from ace_gui.engine.planning.adapter_plan import is_chosen
from ace_gui.engine.planning.dispositions import LeftOut
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.requirements import output_checks, refuse_errors, store_checks
from ace_gui.engine.planning.stages import (
    accept_result,
    forget_result,
    inputs_of,
    problem_of,
    record_beside,
)
from ace_gui.engine.report.page import MARK, report
from ace_gui.errors import RecipeError
from ace_gui.formatting import plain
from ace_gui.output_files import check_file, check_output_folder, staging_folder, there
from ace_gui.paths import conversions_folder, inspections_folder
from ace_gui.recipe import Recipe
from ace_gui.recipe.output_forms import Output
from ace_gui.steps import result_of

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a merge is carried out. No option changes what is merged, except for rounding."""

    device: str = "auto"
    """Its name, or "auto"."""
    threads: int | None = None
    """Of matrix products; None: torch's default."""
    memory_bytes: int | None = None
    """Memory limit of the merge; None: all free memory."""
    resume: bool = False
    """Continue an earlier unfinished merge."""
    convert: bool = False
    """Convert PyTorch pickles among the models."""
    complete_heads: bool = False
    """Also write a whole model for each expert with a head of its own."""
    evaluate: bool = False
    """Score the result on the recipe's tasks, for its model card."""
    cluster: str = ""
    """Address of the cluster that merges (``cluster.ray_workers``); empty: this process."""


def prepared_with_consent(
    recipe: Recipe, *, convert: bool, left_out: LeftOut | None = None
) -> Prepared:
    """The prepared recipe, also with the checks of its output.

    Converts PyTorch pickles among its models only with ``convert``.

    ``left_out``: whether a tensor is not extracted; None if nothing is extracted.
    Raises the errors of ``prepare``, including PickleConsentError.
    """
    prepared = with_consent(
        lambda: prepare(recipe, left_out), conversions_folder(), convert=convert
    )
    return with_output_checks(prepared)


def merge_to_folder(recipe: Recipe, out: Path, options: Options) -> Iterator[Event]:
    """Merge and publish; ``out`` appears only when it is complete.

    Yields PlanReady with the checks for this output, then the events of the merge, then Exported.
    Closing the generator cancels and keeps the unfinished merge in ``staging_folder``, where it can
    be resumed. Stages of the recipe come first, unless their results can be used. Raises
    ResourceError for a failed check, and the errors of preparing, merging and publishing.
    """
    if options.cluster:
        Address.of(options.cluster)
    for folder, stage in recipe.stages.items():
        yield from stage_to_folder(stage, folder, options)
    yield from _to_folder(_prepared_to_write(recipe, options), out, options)


def _prepared_to_write(recipe: Recipe, options: Options) -> Prepared:
    """The prepared recipe of a merge. Raises first what can be found without the models."""
    require_options(recipe, options)
    use_threads(options.threads)
    resolve_device("cpu" if options.cluster else options.device)
    return prepared_with_consent(recipe, convert=options.convert)


def _to_folder(prepared: Prepared, out: Path, options: Options) -> Iterator[Event]:
    """As ``merge_to_folder``, for a recipe whose stages are merged."""
    exporter = exporter_of(prepared.recipe)
    if isinstance(exporter, ThroughModel):
        yield from _through_model(exporter, prepared, out, options)
        return
    assert isinstance(exporter, Straight)
    yield from exporter.merge(
        prepared, out, device=options.device, threads=options.threads, resume=options.resume
    )


def stage_to_folder(stage: Recipe, folder: Path, options: Options) -> Iterator[Event]:
    """Merge a stage, unless its result can be used. An unfinished one goes on with ``resume``."""
    if there(folder) or there(record_beside(folder)):
        problem = problem_of(folder, stage)
        if problem is None:
            return
        name = plain(stage.stage_name)
        _log.warning("The stage %r is merged again: %s.", name, problem)
        forget_result(folder)
    options = replace(options, evaluate=False)
    prepared = _prepared_to_write(stage, options)
    before = inputs_of(prepared, calibration_files(prepared))
    for event in _to_folder(prepared, folder, options):
        if not isinstance(event, Exported):
            yield event
    accept_result(folder, before)


def _through_model(
    exporter: ThroughModel, prepared: Prepared, out: Path, options: Options
) -> Iterator[Event]:
    """As ``_to_folder``, for a form for which a whole model is merged first."""
    device = resolve_device("cpu" if options.cluster else options.device)
    exporter.require(prepared)
    with claimed_output(out, prepared.plan.input_folders) as target:
        store = staging_folder(target)
        checks = output_checks(
            prepared.plan,
            target,
            memory_bytes=options.memory_bytes,
            gpu_memory=memory_of(device),
            complete_heads=options.complete_heads,
            resumes=options.resume and store.exists(),
        )
        ready = plan_ready(prepared, checks)
        yield ready
        refuse_errors(ready.plan.checks)
        if options.evaluate:  # errors in the data show before the merge
            result_of(check_tasks(prepared))
            result_of(require_tasks(prepared, options.device, with_base=True))
        with workers_at(options.cluster, options.device, options.threads) as workers:
            events = merge(
                prepared,
                store,
                device=options.device,
                resume=options.resume,
                as_output=True,
                memory_bytes=options.memory_bytes,
                workers=workers,
                check=True,
            )
            yield from (event for event in events if event is not None)
        scores: tuple[TaskScore, ...] = ()
        if options.evaluate:
            scores = result_of(merged_scores(prepared, store / MODEL, options.device))
        yield from exporter.publish(
            store, target, complete_heads=options.complete_heads, scores=scores
        )


def refuse_merge(
    prepared: Prepared, out: Path | None, options: Options, checks: Iterable[Check]
) -> None:
    """Raise the error with which ``merge_to_folder`` would stop before it loads a model.

    ``checks``: ``output_checks`` for this folder. ``out`` None: no folder is checked.
    """
    exporter = exporter_of(prepared.recipe)
    require_options(prepared.recipe, options)
    exporter.require(prepared)
    if out is not None:
        target = check_output_folder(out, prepared.plan.input_folders)
        if isinstance(exporter, Straight):
            exporter.require_room(prepared, target)
    if isinstance(exporter, ThroughModel):
        refuse_errors(checks)
    if options.evaluate:
        result_of(check_tasks(prepared))


def require_options(recipe: Recipe, options: Options) -> None:
    """Raise RecipeError for an option that the form of the output does not have."""
    output = Output(recipe.output)
    traits = output.traits
    refused = {
        "--cluster": options.cluster and not traits.through_model,
        "--evaluate": options.evaluate and not traits.has_scores,
        "--complete-heads": options.complete_heads and not output.has("complete_heads"),
    }
    for name, is_refused in refused.items():
        if is_refused:
            raise RecipeError(f"{name} needs a whole model, not {traits.noun}.", key="output")


def extract_adapter(
    recipe: Recipe,
    out: Path,
    options: Options,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> Iterator[Event]:
    """Write the change of a ``recipe_for_extraction``; the events of ``write_adapter``.

    Raises its errors and those of preparing.
    """

    def left_out(name: str) -> bool:
        return not is_chosen(name, include, exclude)

    yield from write_adapter(
        prepared_with_consent(recipe, convert=options.convert, left_out=left_out),
        out,
        device=options.device,
        threads=options.threads,
        resume=options.resume,
        options=AdapterOptions(include=tuple(include), exclude=tuple(exclude), balanced=True),
    )


def report_to_file(
    recipe: Recipe, file: Path, options: Options, *, inputs: tuple[Path, ...], overwrite: bool
) -> Iterator[Event]:
    """Merge, write a report on the merge as one HTML file, and delete the merged model.

    If the recipe has tasks, the merged model is written to a temporary folder and scored. Yields
    PlanReady, then the events of ``report``. ``inputs``: more files that ``file`` must not
    overwrite. Raises OutputError if ``file`` was not made by this program and ``overwrite`` is not
    set, and the errors of preparing and reporting.
    """
    use_threads(options.threads)
    device = resolve_device(options.device)
    prepared = prepared_with_consent(recipe, convert=options.convert)
    has_tasks = bool(prepared.recipe.tasks)
    check_file(file, (*inputs, *input_paths(prepared)), mark=MARK, overwrite=overwrite)
    checks = store_checks(
        prepared.plan,
        memory_bytes=options.memory_bytes,
        gpu_memory=memory_of(device),
        store=Path(tempfile.gettempdir()) if has_tasks else None,
    )
    ready = plan_ready(prepared, checks)
    yield ready
    refuse_errors(ready.plan.checks if has_tasks else ())
    cache = InspectionCache(inspections_folder())
    with tempfile.TemporaryDirectory(prefix="ace-report-") as folder:
        if has_tasks:
            store = Path(folder) / "store"
        else:
            store = None
        if store is not None:
            result_of(check_tasks(prepared))
            result_of(require_tasks(prepared, options.device, with_base=True))
            for _ in merge(prepared, store, device=options.device):
                pass
        events = report(prepared, file, device, cache, store)
        yield from (event for event in events if event is not None)


@dataclass(frozen=True, kw_only=True)
class Inspected:
    """The result of an inspection: every tensor, and every check, worst first."""

    prepared: Prepared
    layers: tuple[Layer, ...]
    checks: tuple[Check, ...]
    statistics: Mapping[str, LayerStatistics]


def inspect(recipe: Recipe, *, convert: bool = False, threads: int | None = None) -> Inspected:
    """Read every expert once: γ, energies and regime of each tensor, and whether the experts fit.

    Raises the errors of ``prepare``, and NonFiniteError if NaN or Inf would stop the merge.
    """
    use_threads(threads)
    prepared = prepared_with_consent(recipe, convert=convert)
    statistics = {event.statistics.name: event.statistics for event in analyse(prepared)}
    return Inspected(
        prepared=prepared,
        layers=layers_of(prepared.plan, statistics),
        checks=worst_first(
            (*prepared.plan.checks, *fit_checks(plan_changes(prepared.plan, statistics)))
        ),
        statistics=statistics,
    )


def expected_of(inspected: Inspected) -> Forecast | None:
    """How far the merge would move the model, from as many matrices as a few seconds allow."""
    cache = InspectionCache(inspections_folder())
    events = sampled(inspected.prepared, resolve_device("cpu"), cache)
    reports = {event.name: event for event in events if isinstance(event, LayerReport)}
    return forecast(inspected.prepared.plan, inspected.statistics, reports)
