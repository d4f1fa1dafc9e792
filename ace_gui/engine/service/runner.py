"""Runs the jobs: the engine process's loop, and one generator per job."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import torch

from ace_gui.checkpoints import converting
from ace_gui.engine.capabilities import cached_models_found, engine_ready
from ace_gui.engine.cluster.ray_cluster import workers_at
from ace_gui.engine.contract.events import (
    ConversionProgress,
    EngineReady,
    Event,
    JobCancelled,
    JobDone,
    JobFailed,
    PlanReady,
    StoreRead,
)
from ace_gui.engine.contract.jobs import (
    AnalyseJob,
    CachedModelsJob,
    CompareExamplesJob,
    CompareJob,
    ConfigureJob,
    ConvertJob,
    CovariancesJob,
    DescribeTasksJob,
    DifferenceJob,
    DistributionJob,
    EvaluateJob,
    ExportJob,
    Job,
    KnownScoresJob,
    LayerCovariancesJob,
    LoadRecipeJob,
    MergeJob,
    PlanJob,
    ReadStoresJob,
    ReportJob,
    RoutesJob,
    SampleMergesJob,
    ScanJob,
    SpectrumJob,
    SubspacesJob,
    TryJob,
    TuneJob,
)
from ace_gui.engine.contract.messages import Cancel, Quit, Submit
from ace_gui.engine.contract.plan import Plan, PlanRow
from ace_gui.engine.devices import resolve_device, use_threads
from ace_gui.engine.evaluating.compared_examples import compared_examples
from ace_gui.engine.evaluating.described_tasks import described
from ace_gui.engine.evaluating.evaluate import evaluate, known_scores, known_tasks
from ace_gui.engine.evaluating.routing import routed
from ace_gui.engine.evaluating.subjects import models_of
from ace_gui.engine.evaluating.trying import tried
from ace_gui.engine.inspecting.compare_covariances import (
    as_ace_merges,
    compare_covariances,
    layer_covariances,
)
from ace_gui.engine.inspecting.compare_recipes import compare
from ace_gui.engine.inspecting.inspection_cache import InspectionCache
from ace_gui.engine.inspecting.layer_distribution import distribution
from ace_gui.engine.inspecting.layer_spectrum import spectrum
from ace_gui.engine.inspecting.layer_subspaces import subspaces
from ace_gui.engine.inspecting.merge_difference import difference
from ace_gui.engine.inspecting.sampled_merges import sampled
from ace_gui.engine.inspecting.statistics import analyse
from ace_gui.engine.inspecting.tune_parameters import tune
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.merging.store import MODEL, is_outdated, read_finished, reports
from ace_gui.engine.output.exporting import export
from ace_gui.engine.planning.prepare import Prepared, preparing
from ace_gui.engine.planning.scan import scan
from ace_gui.engine.report.gather import report, require_inputs
from ace_gui.engine.service.scheduling import JobScheduler
from ace_gui.errors import EngineError, WorkbenchError, is_out_of_memory
from ace_gui.paths import conversions_folder, inspections_folder, use_scratch
from ace_gui.recipe import ModelEntry, Recipe
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.steps import Steps

PLANS_KEPT: Final = 2
"""The loaded recipe, and one that is tried out next to it."""


class Runner:
    """Turns jobs into events. It caches the last plans, as most jobs refer to one of them."""

    def __init__(self) -> None:
        self._recent: list[Prepared] = []
        self._threads = torch.get_num_threads()
        self._cache = InspectionCache(inspections_folder())

    def run(self, job: Job) -> Iterator[Event | None]:
        """The steps of a job; None: a step without an event. Raises WorkbenchError."""
        match job:
            case ConfigureJob():
                yield self._configured(job)
            case PlanJob(recipe=recipe):
                yield from self._plan(recipe)
            case LoadRecipeJob(paths=paths):
                yield from self._plan(recipe_of(paths))
            case CachedModelsJob():
                yield cached_models_found()
            case ScanJob(paths=paths, base=base):
                yield from scan(paths, base)
            case ConvertJob(path=path):
                yield from _convert(path)
            case AnalyseJob(recipe=recipe):
                yield from analyse((yield from self._prepared(recipe)))
            case MergeJob():
                yield from self._merge(job)
            case ReadStoresJob(stores=stores):
                yield from _read(stores)
            case SpectrumJob():
                matrix = yield from self._matrix(job)
                yield from spectrum(*matrix, self._cache, job.store)
            case SampleMergesJob(recipe=recipe, device=device):
                prepared = yield from self._prepared(recipe)
                yield from sampled(prepared, resolve_device(device), self._cache)
            case SubspacesJob():
                yield from subspaces(*(yield from self._matrix(job)), self._cache)
            case DistributionJob():
                prepared = yield from self._prepared(job.recipe)
                yield from distribution(prepared, job.row, self._cache)
            case CovariancesJob():
                prepared = yield from self._prepared(as_ace_merges(job.recipe))
                index = resolve_device(job.device)
                yield from compare_covariances(prepared, index, self._cache, job.first)
            case LayerCovariancesJob(recipe=recipe):
                same = replace(job, recipe=as_ace_merges(recipe))
                yield from layer_covariances(*(yield from self._matrix(same)), self._cache)
            case DifferenceJob():
                yield from difference(job.first, job.second, job.row)
            case ReportJob():
                yield from self._report(job)
            case ExportJob():
                yield from _export(job)
            case CompareJob():
                with workers_at(job.cluster, job.device) as workers:
                    yield from compare(job, workers)
            case DescribeTasksJob():
                yield from described((yield from self._prepared(job.recipe)), job.tasks)
            case EvaluateJob():
                yield from self._evaluate(job)
            case KnownScoresJob():
                prepared = yield from self._prepared(job.recipe)
                folders = [store / MODEL for store in job.stores]
                models = models_of(prepared, folders, [str(store) for store in job.stores])
                yield from known_scores(models, known_tasks(prepared), device=job.device)
            case CompareExamplesJob():
                prepared = yield from self._prepared(job.recipe)
                yield from compared_examples(
                    prepared, job.store / MODEL, with_base=job.with_base, device=job.device
                )
            case RoutesJob():
                yield from self._routes(job)
            case TryJob():
                yield from self._try(job)
            case TuneJob():
                yield from _tune(job)

    def _configured(self, job: ConfigureJob) -> EngineReady:
        use_threads(job.threads or self._threads)
        use_scratch(job.scratch)
        self._recent = []  # their checks concern another disk
        return replace(engine_ready(), scratch=job.scratch)

    def _plan(self, recipe: Recipe) -> Iterator[PlanReady | None]:
        """A plan of its own for each request, as free memory and disk space may have changed."""
        prepared = yield from self._prepare(recipe)
        yield PlanReady(plan=prepared.plan)

    def _merge(self, job: MergeJob) -> Iterator[Event | None]:
        if job.threads is not None:
            torch.set_num_threads(job.threads)
        prepared = yield from self._prepared(job.recipe)
        with workers_at(job.cluster, job.device, job.threads) as workers:
            yield from merge(
                prepared,
                job.store,
                device=job.device,
                resume=job.resume,
                memory_bytes=job.memory_bytes,
                workers=workers,
            )

    def _routes(self, job: RoutesJob) -> Iterator[Event | None]:
        prepared = yield from self._prepared(job.recipe)
        models = models_of(prepared, [job.store / MODEL], [str(job.store)])
        yield from routed(models, known_tasks(prepared), limit=job.limit, device=job.device)

    def _try(self, job: TryJob) -> Iterator[Event | None]:
        prepared = yield from self._prepared(job.recipe)
        folders = [store / MODEL for store in job.stores]
        yield from tried(models_of(prepared, folders, [str(path) for path in job.stores]), job)

    def _evaluate(self, job: EvaluateJob) -> Iterator[Event | None]:
        prepared = yield from self._prepared(job.recipe)
        folders = (*job.folders, *(store / MODEL for store in job.stores))
        models = models_of(prepared, folders, [str(path) for path in (*job.folders, *job.stores)])
        tasks = known_tasks(prepared)
        with workers_at(job.cluster, job.device) as workers:
            yield from evaluate(models, tasks, limit=job.limit, device=job.device, workers=workers)

    def _matrix(
        self, job: SpectrumJob | SubspacesJob | LayerCovariancesJob
    ) -> Steps[tuple[Prepared, PlanRow, torch.device]]:
        """The context for inspecting a matrix.

        The row is looked up again, as another scope may change it.
        """
        prepared, device = (yield from self._prepared(job.recipe)), resolve_device(job.device)
        return prepared, row_of(prepared.plan, job.row.name), device

    def _report(self, job: ReportJob) -> Iterator[Event | None]:
        manifest = read_finished(job.store)
        prepared = yield from self._prepared(manifest.recipe)
        require_inputs(prepared, manifest)
        device = resolve_device(job.device)
        yield from report(prepared, job.file, device, self._cache, job.store)

    def _prepared(self, recipe: Recipe) -> Steps[Prepared]:
        for known in self._recent:
            same = known.plan.recipe == recipe and known.plan.recipe.tasks == recipe.tasks
            if same and known.is_current():
                return known
        return (yield from self._prepare(recipe))

    def _prepare(self, recipe: Recipe) -> Steps[Prepared]:
        prepared = yield from preparing(recipe)
        others = [known for known in self._recent if known.plan.recipe != recipe]
        self._recent = [prepared, *others][:PLANS_KEPT]
        return prepared


def _convert(path: Path) -> Iterator[ConversionProgress]:
    for done, total in converting(path, conversions_folder()):
        yield ConversionProgress(done=done, total=total)


def _read(stores: tuple[Path, ...]) -> Iterator[StoreRead | None]:
    for store in stores:
        try:
            manifest, found = read_finished(store), tuple(reports(store).values())
        except WorkbenchError:  # removed or damaged meanwhile: not usable
            yield None
            continue
        yield StoreRead(store=store, reports=found, outdated=is_outdated(manifest))


def _tune(job: TuneJob) -> Iterator[Event | None]:
    with workers_at(job.cluster, job.device) as workers:
        yield from tune(
            job.recipe,
            job.ranges,
            merges=job.merges,
            limit=job.limit,
            device=job.device,
            workers=workers,
        )


def _export(job: ExportJob) -> Iterator[Event]:
    return export(
        job.store,
        job.folder,
        dtype=job.dtype,
        shard_bytes=job.shard_bytes,
        complete_heads=job.complete_heads,
    )


def row_of(plan: Plan, name: str) -> PlanRow:
    """The row of a tensor in a plan. Raises EngineError if the plan has none."""
    for row in plan.rows:
        if row.name == name:
            return row
    raise EngineError(f"The plan has no tensor `{name}`; open the models again.", tensor=name)


def recipe_of(paths: tuple[Path, ...]) -> Recipe:
    """The recipe in a YAML file, or for model folders: the base first, then the experts."""
    if len(paths) == 1 and paths[0].suffix in {".yaml", ".yml"}:
        return load_recipe(paths[0])
    base, *experts = (Path(os.path.abspath(path)) for path in paths)  # noqa: PTH100
    return Recipe(base_model=base, models=tuple(ModelEntry(model=path) for path in experts))


def safe_steps(job: Job, runner: Runner) -> Iterator[Event | None]:
    """A job's steps, followed by JobDone or JobFailed; nothing is raised."""
    try:
        yield from runner.run(job)
    except WorkbenchError as error:
        error.details = f"{error.details}\n\n{traceback.format_exc()}".strip()
        yield JobFailed(error=error)
    except Exception as error:  # the window must be informed of any error
        sentence = f"Something unexpected went wrong: {type(error).__name__}: {error}."
        if is_out_of_memory(error):
            sentence = (
                "There was not enough memory for this step; close other programs and try again."
            )
        yield JobFailed(error=EngineError(sentence, details=traceback.format_exc()))
    else:
        yield JobDone()


def serve(pipe: Connection) -> None:
    """Answer the owner until it sends Quit or goes away."""
    use_threads(None)
    runner = Runner()
    pipe.send((0, engine_ready()))
    active: dict[int, Iterator[Event | None]] = {}
    scheduler = JobScheduler()
    while True:
        try:
            while not active or pipe.poll():
                if not _obey(pipe, active, runner):
                    return
            number, started = scheduler.next(active), time.monotonic()
            jobs = tuple(active)
            _step(pipe, number, active)
            scheduler.took(number, time.monotonic() - started, jobs)
        except (EOFError, OSError):  # the owner is gone
            return


def _obey(pipe: Connection, active: dict[int, Iterator[Event | None]], runner: Runner) -> bool:
    """Handle one message; False ends the process."""
    match pipe.recv():
        case Submit(number=number, job=job):
            active[number] = safe_steps(job, runner)
        case Cancel(number=number):
            steps = active.pop(number, None)
            if steps is not None:
                steps.close()  # type: ignore[attr-defined]
                pipe.send((number, JobCancelled()))
        case Quit():
            for steps in active.values():
                steps.close()  # type: ignore[attr-defined]
            return False
    return True


def _step(pipe: Connection, number: int, active: dict[int, Iterator[Event | None]]) -> None:
    event = next(active[number])
    if event is not None:
        pipe.send((number, event))
    if isinstance(event, JobDone | JobFailed):
        del active[number]
