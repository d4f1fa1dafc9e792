"""Every job of the engine: its fields are the arguments, ``steps`` carries it out.

The owner creates a job and sends it to the engine's process; ``steps`` and the imports in it are
executed only there. It yields progress and results as plain values, and None after steps
without one, so that other jobs can run in between. It raises WorkbenchError.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ace_gui.engine.contract.events import (
    Job,
    JobProgress,
    PlanReady,
    ScoringJob,
    StoreRead,
    Variant,
)
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.contract.scored import ParameterRange, TryInput
from ace_gui.errors import WorkbenchError
from ace_gui.recipe import ModelEntry, Recipe
from ace_gui.recipe.recommended import with_recommended
from ace_gui.recipe.values import Task

if TYPE_CHECKING:
    from ace_gui.engine.service import Runner

Events = Iterator[object]


class ConfigureJob(Job):
    """Set how the engine computes from now on. Yields EngineReady with the new state.

    ``threads`` None: torch's default. ``scratch``: folder for unfinished merges, None: the cache.
    """

    threads: int | None = None
    scratch: Path | None = None

    def steps(self, engine: Runner) -> Events:
        from ace_gui.engine.capabilities import engine_ready, use_threads
        from ace_gui.paths import use_scratch

        engine.chosen_threads = self.threads
        use_threads(self.threads or engine.threads)
        use_scratch(self.scratch)
        engine.forget()  # plans' checks concern another disk
        yield replace(engine_ready(), scratch=self.scratch)


class PlanJob(Job, state="planning"):
    """Read headers, check, decide. Yields PlanReady."""

    recipe: Recipe

    def steps(self, engine: Runner) -> Events:
        # A new plan for each request, as free memory and disk space may have changed.
        prepared = yield from engine.prepare(self.recipe)
        yield PlanReady(plan=prepared.plan)


class LoadRecipeJob(Job, state="planning"):
    """Read a recipe file, or take model folders (base first), and plan. Yields PlanReady.

    ``chosen``: a recipe with the settings for folders, None: the recommended ones.
    """

    paths: tuple[Path, ...]
    chosen: Recipe | None = None

    def steps(self, engine: Runner) -> Events:
        from ace_gui.recipe.recipe_file import load_recipe

        if len(self.paths) == 1 and self.paths[0].suffix in {".yaml", ".yml"}:
            recipe = load_recipe(self.paths[0])
        else:
            base, *experts = (Path(os.path.abspath(path)) for path in self.paths)  # noqa: PTH100
            models = tuple(ModelEntry(model=path) for path in experts)
            chosen = self.chosen or with_recommended(Recipe(base_model=base, models=()))
            recipe = replace(chosen, base_model=base, models=models)
        yield from PlanJob(recipe=recipe).steps(engine)


class ScanJob(Job):
    """Search ``paths`` and below for models, and find which fit together. Yields ModelsFound.

    ``base``: an open model for which experts are searched.
    """

    paths: tuple[Path, ...]
    base: Path | None = None

    def steps(self, _: Runner) -> Events:
        from ace_gui.engine.planning.scan import scan

        yield from scan(self.paths, self.base)


class ConvertJob(Job, state="planning"):
    """Convert a PyTorch pickle with the user's consent. Yields JobProgress.

    ``path`` is that of the PickleConsentError. Planning then finds the converted model by itself.
    """

    path: Path

    def steps(self, _: Runner) -> Events:
        from ace_gui.checkpoints.pickle_conversion import converting
        from ace_gui.paths import conversions_folder

        for done, total in converting(self.path, conversions_folder()):
            yield JobProgress(done=done, total=total)


class AnalyseJob(Job, state="analysing"):
    """Read every merged or averaged tensor once. Yields a LayerAnalysed for each tensor."""

    recipe: Recipe

    def steps(self, engine: Runner) -> Events:
        from ace_gui.engine.inspecting.statistics import analyse

        yield from analyse((yield from engine.prepared(self.recipe)))


class MergeJob(Job, state="merging"):
    """Merge into a store. Yields MergeStarted, a TensorFinished for each tensor, MergeFinished.

    ``store``: a folder only for this merge. ``memory_bytes``: memory limit of the merge, None: all
    free memory. ``cluster``: address of the cluster that merges (``cluster.ray_workers``); empty:
    the engine's process.
    """

    recipe: Recipe
    store: Path
    device: str = "auto"
    cluster: str = ""
    resume: bool = False
    memory_bytes: int | None = None

    def steps(self, engine: Runner) -> Events:
        from ace_gui.engine.cluster.ray_workers import workers_at
        from ace_gui.engine.merging.merge import merge

        prepared = yield from engine.prepared(self.recipe)
        with workers_at(self.cluster, self.device, engine.chosen_threads) as workers:
            yield from merge(
                prepared,
                self.store,
                device=self.device,
                resume=self.resume,
                memory_bytes=self.memory_bytes,
                workers=workers,
            )


class ReadStoresJob(Job):
    """Read the stores of finished merges. Yields a StoreRead for each complete one."""

    stores: tuple[Path, ...]

    def steps(self, _: Runner) -> Events:
        from ace_gui.engine.merging.store import is_outdated, read_finished, reports

        for store in self.stores:
            try:
                manifest, rows = read_finished(store), tuple(reports(store).values())
            except WorkbenchError:  # removed or damaged meanwhile: not usable
                yield None
            else:
                yield StoreRead(store=store, reports=rows, outdated=is_outdated(manifest))


class RowJob(Job):
    """Inspects one tensor under the recipe."""

    recipe: Recipe
    row: PlanRow
    device: str = "auto"


class SpectrumJob(RowJob):
    """Spectra of one matrix under the recipe. Yields ExpertSpectra, then LayerSpectrum.

    ExpertSpectra is left out if the result is cached. ``store``: a finished merge, whose result is
    used instead of merging again if it was made with this recipe and rounding hides nothing.
    """

    store: Path | None = None

    def steps(self, engine: Runner) -> Events:
        from ace_gui.engine.inspecting.layer_spectra import spectrum

        matrix = yield from engine.matrix(self.recipe, self.row, self.device)
        yield from spectrum(*matrix, engine.cache, self.store)


class SampleMergesJob(Job):
    """Merge as many matrices as a few seconds allow. Yields the LayerReport of each, and a
    MatrixTimed for each that was not known."""

    recipe: Recipe
    device: str = "auto"

    def steps(self, engine: Runner) -> Events:
        from ace_gui.engine.capabilities import resolve_device
        from ace_gui.engine.inspecting.statistics import sampled

        prepared = yield from engine.prepared(self.recipe)
        yield from sampled(prepared, resolve_device(self.device), engine.cache)


class SubspacesJob(RowJob):
    """Leading directions of one matrix under the recipe. Yields LayerSubspaces."""

    def steps(self, engine: Runner) -> Events:
        from ace_gui.engine.inspecting.layer_spectra import subspaces

        matrix = yield from engine.matrix(self.recipe, self.row, self.device)
        yield from subspaces(*matrix, engine.cache)


class DistributionJob(RowJob):
    """Histograms of the experts' changes of one tensor. Yields LayerDistribution."""

    def steps(self, engine: Runner) -> Events:
        from ace_gui.engine.inspecting.layer_spectra import distribution

        prepared = yield from engine.prepared(self.recipe)
        yield from distribution(prepared, self.row, engine.cache)


class CovariancesJob(Job, state="comparing"):
    """Compare ACE's covariances with those of the experts' inputs on their tasks' calibration data.

    Goes matrix by matrix, starting with the one called ``first``. Yields PassProgress while inputs
    are measured, then a CovariancesCompared for each matrix.
    """

    recipe: Recipe
    first: str = ""
    device: str = "auto"

    def steps(self, engine: Runner) -> Events:
        from ace_gui.engine.capabilities import resolve_device
        from ace_gui.engine.inspecting.compare_covariances import as_ace_merges, compare_covariances

        prepared = yield from engine.prepared(as_ace_merges(self.recipe))
        device = resolve_device(self.device)
        yield from compare_covariances(prepared, device, engine.cache, self.first)


class LayerCovariancesJob(RowJob):
    """Compare the covariances of a matrix. Yields LayerCovariances if there are inputs."""

    def steps(self, engine: Runner) -> Events:
        from ace_gui.engine.inspecting.compare_covariances import as_ace_merges, layer_covariances

        recipe = as_ace_merges(self.recipe)
        matrix = yield from engine.matrix(recipe, self.row, self.device)
        yield from layer_covariances(*matrix, engine.cache)


class DifferenceJob(Job):
    """Compare two finished merges of one base. Yields a LayerDifference for each tensor.

    ``row`` None: every tensor that either merge changed, without spectra; else that one, with
    spectra if it is a matrix.
    """

    first: Path
    second: Path
    row: PlanRow | None = None

    def steps(self, _: Runner) -> Events:
        from ace_gui.engine.inspecting.model_diff import difference

        yield from difference(self.first, self.second, self.row)


class DiffJob(Job):
    """Compare any two models on disk. Yields JobProgress, then a ModelDiff."""

    first: Path
    second: Path

    def steps(self, _: Runner) -> Events:
        from ace_gui.engine.inspecting.model_diff import diff_models

        yield from diff_models(self.first, self.second)


class ReportJob(Job, state="reporting"):
    """Write a report on a finished merge as one HTML file. Yields JobProgress, then Reported.

    ``store``: of the finished merge. An existing ``file`` is replaced.
    """

    store: Path
    file: Path
    device: str = "auto"

    def steps(self, engine: Runner) -> Events:
        from ace_gui.engine.capabilities import resolve_device
        from ace_gui.engine.merging.store import read_finished
        from ace_gui.engine.report.page import report, require_inputs

        manifest = read_finished(self.store)
        prepared = yield from engine.prepared(manifest.recipe)
        require_inputs(prepared, manifest)
        device = resolve_device(self.device)
        yield from report(prepared, self.file, device, engine.cache, self.store)


class ExportJob(Job, state="exporting"):
    """Write a finished store as a model folder. Yields JobProgress, then Exported.

    ``dtype`` None: the recipe's, else the base's. ``shard_bytes``: largest size of one file.
    ``complete_heads``: also write a whole model for each expert with a head of its own.
    ``rank`` or ``energy``: write the merged change as an adapter of this rank, or of the ranks
    that keep this share of the energy.
    """

    store: Path
    folder: Path
    dtype: str | None = None
    shard_bytes: int = 5_000_000_000
    complete_heads: bool = False
    rank: int | None = None
    energy: float | None = None

    def steps(self, _: Runner) -> Events:
        from ace_gui.engine.output.exporting import export, export_adapter

        store, folder, dtype = self.store, self.folder, self.dtype
        if self.rank is not None or self.energy is not None:
            return export_adapter(store, folder, dtype=dtype, rank=self.rank, energy=self.energy)
        size, heads = self.shard_bytes, self.complete_heads
        return export(store, folder, dtype=dtype, shard_bytes=size, complete_heads=heads)


class EnergyByRankJob(Job):
    """Find how much of a merge's change each rank keeps. Yields JobProgress, then EnergyByRank."""

    store: Path

    def steps(self, _: Runner) -> Events:
        from ace_gui.engine.output.exporting import energy_by_rank

        return energy_by_rank(self.store)


class CompareJob(Job, state="merging"):
    """Merge several recipes one after another and measure each result.

    Yields CompareProgress, and a MethodCompared for each variant, failed ones included.
    ``memory_bytes``, ``cluster``: as in a MergeJob.
    """

    variants: tuple[Variant, ...]
    device: str = "auto"
    memory_bytes: int | None = None
    cluster: str = ""

    def steps(self, _: Runner) -> Events:
        from ace_gui.engine.cluster.ray_workers import workers_at
        from ace_gui.engine.inspecting.compare_recipes import compare

        with workers_at(self.cluster, self.device) as workers:
            yield from compare(self.variants, self.device, self.memory_bytes, workers)


class EvaluateJob(ScoringJob, state="scoring"):
    """Score the models on the tasks.

    Yields EvaluationProgress, a TaskScore for each result, then Evaluated. ``cluster``: as in a
    MergeJob; ``threads``: of each of its workers.
    """

    cluster: str = ""
    threads: int | None = None

    def steps(self, engine: Runner) -> Events:
        from ace_gui.engine.cluster.ray_workers import workers_at
        from ace_gui.engine.evaluating.evaluate import evaluate

        models, tasks = yield from engine.asked(self)
        with workers_at(self.cluster, self.device, self.threads) as workers:
            yield from evaluate(models, tasks, device=self.device, workers=workers)


class KnownScoresJob(ScoringJob):
    """Look up scores of earlier evaluations. Yields a TaskScore for each; loads no model."""

    def steps(self, engine: Runner) -> Events:
        from ace_gui.engine.evaluating.evaluate import known_scores

        yield from known_scores(*(yield from engine.asked(self)), device=self.device)


class RoutesJob(ScoringJob, state="scoring"):
    """Find which expert the models with a router choose for examples of the tasks.

    Yields EvaluationProgress, then RoutesFound.
    """

    def steps(self, engine: Runner) -> Events:
        from ace_gui.engine.evaluating.shown_answers import routed

        yield from routed(*(yield from engine.asked(self)), device=self.device)


class DescribeTasksJob(Job):
    """Read tasks and check them as scoring would. Yields a TaskDescribed for each.

    ``tasks``: the tasks of the recipe to describe.
    """

    recipe: Recipe
    tasks: tuple[Task, ...]

    def steps(self, engine: Runner) -> Events:
        from ace_gui.engine.evaluating.shown_answers import described

        yield from described((yield from engine.prepared(self.recipe)), self.tasks)


class CompareExamplesJob(Job, state="scoring"):
    """List the examples that a finished merge lost and gained.

    Yields an ExamplesCompared for each of the recipe's tasks, and EvaluationProgress while answers
    are computed. ``with_base``: compare with the base instead of the expert of the task.
    """

    recipe: Recipe
    store: Path
    with_base: bool = False
    device: str = "auto"

    def steps(self, engine: Runner) -> Events:
        from ace_gui.engine.evaluating.shown_answers import compared_examples
        from ace_gui.engine.merging.store import MODEL

        prepared = yield from engine.prepared(self.recipe)
        yield from compared_examples(
            prepared, self.store / MODEL, with_base=self.with_base, device=self.device
        )


class TryJob(TryInput, Job):
    """Let base, the task's expert and merges answer for one text or picture.

    Yields for each of them TriedBegun, TriedText while it writes, then Tried.
    """

    recipe: Recipe
    stores: tuple[Path, ...] = ()
    device: str = "auto"

    def steps(self, engine: Runner) -> Events:
        from ace_gui.engine.capabilities import resolve_device
        from ace_gui.engine.evaluating.shown_answers import tried

        models = yield from engine.models(self.recipe, self.stores)
        yield from tried(models, self, resolve_device(self.device))


class TuneJob(Job, state="tuning"):
    """Search values of parameters of the recipe's method by scores on its tasks. See ``tune``.

    Yields a TunePoint for each merge, then Tuned. ``cluster``, ``threads``: as in an EvaluateJob.
    """

    recipe: Recipe
    ranges: tuple[ParameterRange, ...]
    merges: int | None = None
    limit: int | None = None
    device: str = "auto"
    cluster: str = ""
    threads: int | None = None

    def steps(self, _: Runner) -> Events:
        from ace_gui.engine.cluster.ray_workers import workers_at
        from ace_gui.engine.inspecting.tune_parameters import tune

        with workers_at(self.cluster, self.device, self.threads) as workers:
            yield from tune(
                self.recipe,
                self.ranges,
                merges=self.merges,
                limit=self.limit,
                device=self.device,
                workers=workers,
            )
