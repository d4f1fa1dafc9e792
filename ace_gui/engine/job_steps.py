"""What each job does: a generator of plain values, run in the engine's process.

It yields progress and results, and None after steps without one, so that other jobs can run in
between. It raises WorkbenchErrors. The jobs are in ``contract.jobs``, which the window imports.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import singledispatch
from pathlib import Path

from ace_gui.checkpoints.pickle_conversion import converting
from ace_gui.engine.capabilities import engine_ready, resolve_device, use_threads
from ace_gui.engine.cluster.merge_time import estimated
from ace_gui.engine.cluster.ray_workers import workers_at
from ace_gui.engine.contract import jobs
from ace_gui.engine.contract.events import (
    Event,
    Job,
    JobProgress,
    PlanReady,
    StoreRead,
)
from ace_gui.engine.evaluating.evaluate import evaluate, known_scores
from ace_gui.engine.evaluating.shown_answers import compared_examples, described, routed
from ace_gui.engine.evaluating.tried_models import made_ready, tried
from ace_gui.engine.inspecting.compare_covariances import (
    as_ace_merges,
    compare_covariances,
    layer_covariances,
)
from ace_gui.engine.inspecting.compare_recipes import compare
from ace_gui.engine.inspecting.layer_spectra import distribution, spectrum, subspaces
from ace_gui.engine.inspecting.model_contents import model_contents
from ace_gui.engine.inspecting.model_diff import diff_models, difference
from ace_gui.engine.inspecting.statistics import analyse, sampled
from ace_gui.engine.inspecting.tune_parameters import tune
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.merging.store import MODEL, is_outdated, read_finished, reports
from ace_gui.engine.mixture_workflow import mixture_planned, mixture_to_folder
from ace_gui.engine.output.exporters import EXPORTERS
from ace_gui.engine.output.exporting import energy_by_rank
from ace_gui.engine.output.gguf_file import file_for, llama_cpp, written_gguf
from ace_gui.engine.planning.scan import scan
from ace_gui.engine.report.figure import figure
from ace_gui.engine.report.page import report, require_inputs
from ace_gui.engine.runner import Runner
from ace_gui.engine.workflow import Options
from ace_gui.errors import RecipeError, WorkbenchError
from ace_gui.paths import conversions_folder, use_scratch
from ace_gui.recipe import ModelEntry, Recipe
from ace_gui.recipe.mixture_file import mixture_from
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.recipe.recommended import with_recommended

Events = Iterator[Event | None]


@singledispatch
def steps_of(job: Job, _engine: Runner) -> Events:
    """The steps of a job: an event or None for each. ``_engine``: what the jobs of a process share.

    Raises TypeError for a job without steps.
    """
    raise TypeError(f"{type(job).__name__} has no steps")


@steps_of.register(jobs.ConfigureJob)
def configure(job: jobs.ConfigureJob, engine: Runner) -> Events:
    """Steps of a ``ConfigureJob``."""
    engine.chosen_threads = job.threads
    use_threads(job.threads or engine.threads)
    use_scratch(job.scratch)
    engine.forget()  # plans' checks concern another disk
    yield replace(engine_ready(), scratch=job.scratch)


@steps_of.register(jobs.PlanJob)
def plan(job: jobs.PlanJob, engine: Runner) -> Events:
    """Steps of a ``PlanJob``."""
    # A new plan for each request, as free memory and disk space may have changed.
    prepared = yield from engine.prepare(job.recipe)
    yield PlanReady(plan=prepared.plan)


@steps_of.register(jobs.LoadRecipeJob)
def load_recipe_or_folders(job: jobs.LoadRecipeJob, engine: Runner) -> Events:
    """Steps of a ``LoadRecipeJob``."""
    if len(job.paths) == 1 and job.paths[0].suffix in {".yaml", ".yml"}:
        mixture = mixture_from(job.paths[0])
        if mixture is not None:
            yield mixture_planned(job.paths[0], mixture)
            return
        recipe = load_recipe(job.paths[0])
    else:
        base, *experts = (Path(os.path.abspath(path)) for path in job.paths)  # noqa: PTH100
        models = tuple(ModelEntry(model=path) for path in experts)
        chosen = job.chosen or with_recommended(Recipe(base_model=base, models=()))
        recipe = replace(chosen, base_model=base, models=models)
    yield from plan(jobs.PlanJob(recipe=recipe), engine)


@steps_of.register(jobs.ScanJob)
def scan_folders(job: jobs.ScanJob, _: Runner) -> Events:
    """Steps of a ``ScanJob``."""
    yield from scan(job.paths, job.base)


@steps_of.register(jobs.ConvertJob)
def convert(job: jobs.ConvertJob, _: Runner) -> Events:
    """Steps of a ``ConvertJob``."""
    for done, total in converting(job.path, conversions_folder()):
        yield JobProgress(done=done, total=total)


@steps_of.register(jobs.AnalyseJob)
def analyse_layers(job: jobs.AnalyseJob, engine: Runner) -> Events:
    """Steps of a ``AnalyseJob``."""
    yield from analyse((yield from engine.prepared(job.recipe)))


@steps_of.register(jobs.MergeJob)
def merge_into_store(job: jobs.MergeJob, engine: Runner) -> Events:
    """Steps of a ``MergeJob``."""
    prepared = yield from engine.prepared(job.recipe)
    with workers_at(job.cluster, job.device, engine.chosen_threads) as workers:
        yield from merge(
            prepared,
            job.store,
            device=job.device,
            resume=job.resume,
            memory_bytes=job.memory_bytes,
            workers=workers,
            check=True,
        )


@steps_of.register(jobs.ReadStoresJob)
def read_stores(job: jobs.ReadStoresJob, _: Runner) -> Events:
    """Steps of a ``ReadStoresJob``."""
    for store in job.stores:
        try:
            manifest = read_finished(store)
            rows = tuple(reports(store).values())
        except WorkbenchError:  # removed or damaged meanwhile: not usable
            yield None
        else:
            yield StoreRead(store=store, reports=rows, outdated=is_outdated(manifest))


@steps_of.register(jobs.SpectrumJob)
def compute_spectrum(job: jobs.SpectrumJob, engine: Runner) -> Events:
    """Steps of a ``SpectrumJob``."""
    matrix = yield from engine.matrix(job.recipe, job.row, job.device)
    yield from spectrum(*matrix, engine.cache, job.store)


@steps_of.register(jobs.SampleMergesJob)
def sample_merges(job: jobs.SampleMergesJob, engine: Runner) -> Events:
    """Steps of a ``SampleMergesJob``."""
    prepared = yield from engine.prepared(job.recipe)
    yield from sampled(prepared, resolve_device(job.device), engine.cache)


@steps_of.register(jobs.EstimateJob)
def estimate_merge(job: jobs.EstimateJob, engine: Runner) -> Events:
    """Steps of an ``EstimateJob``."""
    prepared = yield from engine.prepared(job.recipe)
    yield from estimated(prepared, resolve_device(job.device), engine.cache)


@steps_of.register(jobs.SubspacesJob)
def compute_subspaces(job: jobs.SubspacesJob, engine: Runner) -> Events:
    """Steps of a ``SubspacesJob``."""
    matrix = yield from engine.matrix(job.recipe, job.row, job.device)
    yield from subspaces(*matrix, engine.cache)


@steps_of.register(jobs.DistributionJob)
def compute_distribution(job: jobs.DistributionJob, engine: Runner) -> Events:
    """Steps of a ``DistributionJob``."""
    prepared = yield from engine.prepared(job.recipe)
    yield from distribution(prepared, job.row, engine.cache)


@steps_of.register(jobs.CovariancesJob)
def compare_all_covariances(job: jobs.CovariancesJob, engine: Runner) -> Events:
    """Steps of a ``CovariancesJob``."""
    prepared = yield from engine.prepared(as_ace_merges(job.recipe))
    device = resolve_device(job.device)
    yield from compare_covariances(prepared, device, engine.cache, job.first)


@steps_of.register(jobs.LayerCovariancesJob)
def compare_layer_covariances(job: jobs.LayerCovariancesJob, engine: Runner) -> Events:
    """Steps of a ``LayerCovariancesJob``."""
    recipe = as_ace_merges(job.recipe)
    matrix = yield from engine.matrix(recipe, job.row, job.device)
    yield from layer_covariances(*matrix, engine.cache)


@steps_of.register(jobs.DifferenceJob)
def compare_stores(job: jobs.DifferenceJob, _: Runner) -> Events:
    """Steps of a ``DifferenceJob``."""
    yield from difference(job.first, job.second, job.row)


@steps_of.register(jobs.DiffJob)
def compare_models(job: jobs.DiffJob, _: Runner) -> Events:
    """Steps of a ``DiffJob``."""
    yield from diff_models(job.first, job.second)


@steps_of.register(jobs.VerifyJob)
def find_contents(job: jobs.VerifyJob, _: Runner) -> Events:
    """Steps of a ``VerifyJob``."""
    yield from model_contents(job.base, job.experts, job.merged, convert=job.convert)


@steps_of.register(jobs.ReportJob)
def write_report(job: jobs.ReportJob, engine: Runner) -> Events:
    """Steps of a ``ReportJob``."""
    manifest = read_finished(job.store)
    prepared = yield from engine.prepared(manifest.recipe)
    require_inputs(prepared, manifest)
    device = resolve_device(job.device)
    yield from report(prepared, job.file, device, engine.cache, job.store)


@steps_of.register(jobs.FigureJob)
def draw_figure(job: jobs.FigureJob, engine: Runner) -> Events:
    """Steps of a ``FigureJob``."""
    prepared = yield from engine.prepared(job.recipe)
    yield from figure(prepared, job, resolve_device(job.device), engine.cache)


@steps_of.register(jobs.ExportJob)
def export_store(job: jobs.ExportJob, _: Runner) -> Events:
    """Steps of a ``ExportJob``."""
    return EXPORTERS[job.output].write(job.store, job.folder, job.chosen)


@steps_of.register(jobs.MixtureJob)
def build_mixture(job: jobs.MixtureJob, engine: Runner) -> Events:
    """Steps of a ``MixtureJob``."""
    recipe = mixture_from(job.file)
    if recipe is None:
        raise RecipeError(f"{job.file} describes no mixture of experts any more; open it again.")
    options = Options(device=job.device, threads=engine.chosen_threads, resume=job.resume)
    yield from mixture_to_folder(recipe, job.folder, options)


@steps_of.register(jobs.GgufJob)
def make_gguf(job: jobs.GgufJob, _: Runner) -> Events:
    """Steps of a ``GgufJob``."""
    file = job.file or file_for(job.folder, job.kind)
    llama = llama_cpp(job.llama_cpp)
    yield from written_gguf(
        job.folder, file, job.kind, llama, base=job.base, overwrite=job.overwrite
    )


@steps_of.register(jobs.EnergyByRankJob)
def find_energy_by_rank(job: jobs.EnergyByRankJob, _: Runner) -> Events:
    """Steps of a ``EnergyByRankJob``."""
    return energy_by_rank(job.store)


@steps_of.register(jobs.CompareJob)
def compare_variants(job: jobs.CompareJob, _: Runner) -> Events:
    """Steps of a ``CompareJob``."""
    with workers_at(job.cluster, job.device) as workers:
        yield from compare(job.variants, job.device, job.memory_bytes, workers)


@steps_of.register(jobs.MeasureJob)
def measure_variant(job: jobs.MeasureJob, _: Runner) -> Events:
    """Steps of a ``MeasureJob``."""
    unscored = replace(job.variant.recipe, tasks=())
    yield from compare([replace(job.variant, recipe=unscored)], job.device)


@steps_of.register(jobs.EvaluateJob)
def score(job: jobs.EvaluateJob, engine: Runner) -> Events:
    """Steps of a ``EvaluateJob``."""
    models, tasks = yield from engine.asked(job)
    with workers_at(job.cluster, job.device, job.threads) as workers:
        yield from evaluate(models, tasks, device=job.device, workers=workers)


@steps_of.register(jobs.KnownScoresJob)
def look_up_scores(job: jobs.KnownScoresJob, engine: Runner) -> Events:
    """Steps of a ``KnownScoresJob``."""
    yield from known_scores(*(yield from engine.asked(job)), device=job.device)


@steps_of.register(jobs.RoutesJob)
def find_routes(job: jobs.RoutesJob, engine: Runner) -> Events:
    """Steps of a ``RoutesJob``."""
    yield from routed(*(yield from engine.asked(job)), device=job.device)


@steps_of.register(jobs.DescribeTasksJob)
def describe_tasks(job: jobs.DescribeTasksJob, engine: Runner) -> Events:
    """Steps of a ``DescribeTasksJob``."""
    yield from described((yield from engine.opened(job.recipe)), job.tasks)


@steps_of.register(jobs.CompareExamplesJob)
def compare_answers(job: jobs.CompareExamplesJob, engine: Runner) -> Events:
    """Steps of a ``CompareExamplesJob``."""
    opened = yield from engine.opened(job.recipe)
    yield from compared_examples(
        opened, job.store / MODEL, with_base=job.with_base, device=job.device
    )


@steps_of.register(jobs.TryJob)
def try_example(job: jobs.TryJob, engine: Runner) -> Events:
    """Steps of a ``TryJob``."""
    models = yield from engine.models(job.recipe, job.stores)
    yield from tried(models, job, resolve_device(job.device), engine.asked_models)


@steps_of.register(jobs.MakeReadyJob)
def make_models_ready(job: jobs.MakeReadyJob, engine: Runner) -> Events:
    """Steps of a ``MakeReadyJob``."""
    models = yield from engine.models(job.recipe, job.stores)
    yield from made_ready(models, job, resolve_device(job.device), engine.asked_models)


@steps_of.register(jobs.TuneJob)
def search_values(job: jobs.TuneJob, _: Runner) -> Events:
    """Steps of a ``TuneJob``."""
    with workers_at(job.cluster, job.device, job.threads) as workers:
        yield from tune(
            job.recipe,
            job.ranges,
            merges=job.merges,
            limit=job.limit,
            device=job.device,
            workers=workers,
        )
