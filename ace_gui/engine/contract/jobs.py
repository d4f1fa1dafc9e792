"""Every job of the engine: its fields are the arguments.

The owner creates a job and sends it to the engine's process, where ``engine.job_steps`` carries it
out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from ace_gui.engine.contract.events import Job, ScoringJob, Variant
from ace_gui.engine.contract.findings import LayerReport, LayerStatistics
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.contract.scored import ParameterRange, TaskScore
from ace_gui.engine.contract.tried import TryInput
from ace_gui.figures.charts import PanelKind
from ace_gui.figures.sheet import Sheet
from ace_gui.recipe import Recipe
from ace_gui.recipe.output_forms import ModelExport, Output
from ace_gui.recipe.values import Task


class ConfigureJob(Job):
    """Set how the engine computes from now on. Yields EngineReady with the new state.

    ``threads`` None: torch's default. ``scratch``: folder for unfinished merges, None: the cache.
    """

    threads: int | None = None
    scratch: Path | None = None


class PlanJob(Job, state="planning"):
    """Read headers, check, decide. Yields PlanReady."""

    recipe: Recipe


class LoadRecipeJob(Job, state="planning"):
    """Read a recipe file, or take model folders (base first), and plan. Yields PlanReady.

    A file that describes a mixture of experts is planned as one: MixturePlanned.

    ``chosen``: a recipe with the settings for folders, None: the recommended ones.
    """

    paths: tuple[Path, ...]
    chosen: Recipe | None = None


class ScanJob(Job):
    """Search ``paths`` and below for models, and find which fit together. Yields ModelsFound.

    ``base``: an open model for which experts are searched.
    """

    paths: tuple[Path, ...]
    base: Path | None = None


class ConvertJob(Job, state="planning"):
    """Convert a PyTorch pickle with the user's consent. Yields JobProgress.

    ``path`` is that of the PickleConsentError. Planning then finds the converted model by itself.
    """

    path: Path


class AnalyseJob(Job, state="analysing"):
    """Read every merged or averaged tensor once. Yields a LayerAnalysed for each tensor."""

    recipe: Recipe


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


class ReadStoresJob(Job):
    """Read the stores of finished merges. Yields a StoreRead for each complete one."""

    stores: tuple[Path, ...]


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


class SampleMergesJob(Job):
    """Merge as many matrices as a few seconds allow. Yields the LayerReport of each."""

    recipe: Recipe
    device: str = "auto"


class EstimateJob(Job):
    """Estimate how long a merge takes, by trials as in a dry run. Yields MergeEstimated.

    Yields nothing if trials say nothing about the method.
    """

    recipe: Recipe
    device: str = "auto"


class SubspacesJob(RowJob):
    """Leading directions of one matrix under the recipe. Yields LayerSubspaces."""


class DistributionJob(RowJob):
    """Histograms of the experts' changes of one tensor. Yields LayerDistribution."""


class CovariancesJob(Job, state="comparing"):
    """Compare ACE's covariances with those of the experts' inputs on their tasks' calibration data.

    Goes matrix by matrix, starting with the one called ``first``. Yields PassProgress while inputs
    are measured, then a CovariancesCompared for each matrix.
    """

    recipe: Recipe
    first: str = ""
    device: str = "auto"


class LayerCovariancesJob(RowJob):
    """Compare the covariances of a matrix. Yields LayerCovariances if there are inputs."""


class DifferenceJob(Job):
    """Compare two finished merges of one base. Yields a LayerDifference for each tensor.

    ``row`` None: every tensor that either merge changed, without spectra; else that one, with
    spectra if it is a matrix.
    """

    first: Path
    second: Path
    row: PlanRow | None = None


class DiffJob(Job):
    """Compare any two models on disk. Yields JobProgress, then a ModelDiff."""

    first: Path
    second: Path


class VerifyJob(Job):
    """Find what a merged model contains. Yields JobProgress, then ModelContents."""

    base: str
    """As written in a recipe, like the others."""

    experts: tuple[str, ...]
    merged: str

    convert: bool = False
    """Whether PyTorch pickles are converted first."""


class ReportJob(Job, state="reporting"):
    """Write a report on a finished merge as one HTML file. Yields JobProgress, then Reported.

    ``store``: of the finished merge. An existing ``file`` is replaced.
    """

    store: Path
    file: Path
    device: str = "auto"


class FigureJob(Job):
    """Draw a figure about a recipe's merge. Yields JobProgress, then FigureMade."""

    recipe: Recipe

    kinds: tuple[PanelKind, ...]
    """Of the panels, in order."""

    sheet: Sheet

    matrices: tuple[str, ...] = ()
    """Names or patterns of those whose spectra or subspaces are shown; empty: the most, the median
    and the least heterogeneous one."""

    statistics: Mapping[str, LayerStatistics] | None = None
    """By the rows' names; None: the models are read."""

    reports: Mapping[str, LayerReport] = field(default_factory=dict)
    """Of a finished merge, by the rows' names."""

    scores: tuple[TaskScore, ...] = ()

    store: Path | None = None
    """A finished merge, for spectra; as in a SpectrumJob."""

    file: Path | None = None
    """Where it is written, with its data as a table beside it; None: it is only shown."""

    replaces: tuple[Path, ...] = ()
    """Existing files that may be replaced, even if others made them."""

    dots_per_inch: float = 100.0
    """Of the picture for the screen."""

    device: str = "auto"


class ExportJob(Job, state="exporting"):
    """Write a finished store as a folder in some form. Yields JobProgress, then Exported.

    ``chosen``: the form's options, ``output.traits.export``.
    """

    store: Path
    folder: Path
    output: Output = Output.MODEL
    chosen: Any = ModelExport()


class MixtureJob(Job, state="exporting"):
    """Build a mixture of experts from its file. Yields JobProgress, then Exported."""

    file: Path
    """What describes it."""

    folder: Path
    """The output."""

    device: str = "auto"
    """What computes its routers, and its merge if it has one."""

    resume: bool = False
    """Continue what was stopped."""


class GgufJob(Job, state="exporting"):
    """Make a GGUF file by the person's llama.cpp. Yields JobProgress, then GgufWritten."""

    folder: Path
    """Of a model or an adapter."""

    file: Path | None = None
    """None: beside the folder, with its name."""

    kind: str = "auto"
    """Such as q8_0; auto: the 16 bits of the model."""

    llama_cpp: Path | None = None
    """Its source folder; None: the one of last time."""

    base: Path | None = None
    """Of an adapter, if its config names no folder."""

    overwrite: bool = False
    """Whether an existing file is replaced."""


class EnergyByRankJob(Job):
    """Find how much of a merge's change each rank keeps. Yields JobProgress, then EnergyByRank."""

    store: Path


class CompareJob(Job, state="merging"):
    """Merge several recipes one after another and measure each result.

    Yields CompareProgress, and a MethodCompared for each variant, failed ones included.
    ``memory_bytes``, ``cluster``: as in a MergeJob.
    """

    variants: tuple[Variant, ...]
    device: str = "auto"
    memory_bytes: int | None = None
    cluster: str = ""


class MeasureJob(Job):
    """Measure a finished merge beside its experts, without scoring it. Yields MethodCompared."""

    variant: Variant
    device: str = "auto"


class EvaluateJob(ScoringJob, state="scoring"):
    """Score the models on the tasks.

    Yields EvaluationProgress, a TaskScore for each result, then Evaluated. ``cluster``: as in a
    MergeJob; ``threads``: of each of its workers.
    """

    cluster: str = ""
    threads: int | None = None


class KnownScoresJob(ScoringJob):
    """Look up scores of earlier evaluations. Yields a TaskScore for each; loads no model."""


class RoutesJob(ScoringJob, state="scoring"):
    """Find which expert the models with a router choose for examples of the tasks.

    Yields EvaluationProgress, then RoutesFound.
    """


class DescribeTasksJob(Job):
    """Read tasks and check them as scoring would. Yields a TaskDescribed for each.

    ``tasks``: the tasks of the recipe to describe.
    """

    recipe: Recipe
    tasks: tuple[Task, ...]


class CompareExamplesJob(Job, state="scoring"):
    """List the examples that a finished merge lost and gained.

    Yields an ExamplesCompared for each of the recipe's tasks, and EvaluationProgress while answers
    are computed. ``with_base``: compare with the base instead of the expert of the task.
    """

    recipe: Recipe
    store: Path
    with_base: bool = False
    device: str = "auto"


class TryJob(TryInput, Job):
    """Let merges, base and experts answer for one text or picture, in this order.

    Yields for each of them TriedBegun, TriedText while it writes, then Tried.
    """

    recipe: Recipe
    stores: tuple[Path, ...] = ()
    device: str = "auto"


class MakeReadyJob(TryInput, Job):
    """Load the models that a TryJob with these fields runs, so that their answers begin at once.

    Yields nothing. Models that do not fit into memory together are loaded when they are asked.
    """

    recipe: Recipe
    stores: tuple[Path, ...] = ()
    device: str = "auto"


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
