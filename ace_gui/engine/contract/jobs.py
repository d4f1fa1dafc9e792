"""The operations of the engine, one frozen value each; ``runner`` carries them out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.contract.scored.tuned import ParameterRange
from ace_gui.recipe import Recipe
from ace_gui.recipe.tasks import Task

STORE_COMPLETE: Final = "complete"
"""Name of the file that marks a merge store as complete."""


@dataclass(frozen=True, kw_only=True)
class ConfigureJob:
    """Set how the engine computes from now on. Yields EngineReady with the new state.

    ``threads`` None: torch's default. ``scratch``: folder for unfinished merges, None: the cache.
    """

    threads: int | None = None
    scratch: Path | None = None


@dataclass(frozen=True, kw_only=True)
class PlanJob:
    """Read headers, check, decide. Yields PlanReady."""

    recipe: Recipe


@dataclass(frozen=True, kw_only=True)
class LoadRecipeJob:
    """Read a recipe file, or take model folders (base first), and plan. Yields PlanReady."""

    paths: tuple[Path, ...]


@dataclass(frozen=True, kw_only=True)
class CachedModelsJob:
    """List the local Hugging Face cache, without the network. Yields CachedModelsFound."""


@dataclass(frozen=True, kw_only=True)
class ScanJob:
    """Look for models at and below ``paths``, and which fit each other. Yields ModelsFound.

    ``base``: an open model for which experts are searched.
    """

    paths: tuple[Path, ...]
    base: Path | None = None


@dataclass(frozen=True, kw_only=True)
class ConvertJob:
    """Convert a PyTorch pickle with the user's consent. Yields ConversionProgress.

    ``path`` is that of the PickleConsentError. Planning then finds the converted model by itself.
    """

    path: Path


@dataclass(frozen=True, kw_only=True)
class AnalyseJob:
    """Read every merged or averaged tensor once. Yields a LayerAnalysed for each tensor."""

    recipe: Recipe


@dataclass(frozen=True, kw_only=True)
class MergeJob:
    """Merge into a store. Yields MergeStarted, a TensorFinished for each tensor, MergeFinished.

    ``store``: a folder for this merge alone. ``threads`` None: torch's default. ``memory_bytes``:
    memory limit of the merge, None: all free memory. ``cluster``: address of the cluster that
    merges (``cluster.address``); empty: the engine's process.
    """

    recipe: Recipe
    store: Path
    device: str = "auto"
    cluster: str = ""
    threads: int | None = None
    resume: bool = False
    memory_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class ReadStoresJob:
    """Read the stores of finished merges. Yields a StoreRead for each complete one."""

    stores: tuple[Path, ...]


@dataclass(frozen=True, kw_only=True)
class SpectrumJob:
    """Spectra of one matrix under the recipe. Yields ExpertSpectra, then LayerSpectrum.

    ExpertSpectra is left out if the result is cached. ``store``: a finished merge, whose result is
    used instead of merging again if it was made with this recipe and rounding hides nothing.
    """

    recipe: Recipe
    row: PlanRow
    device: str = "auto"
    store: Path | None = None


@dataclass(frozen=True, kw_only=True)
class SampleMergesJob:
    """Merge as many matrices as a few seconds allow. Yields a MatrixSampled for each."""

    recipe: Recipe
    device: str = "auto"


@dataclass(frozen=True, kw_only=True)
class SubspacesJob:
    """Leading directions of one matrix under the recipe. Yields LayerSubspaces."""

    recipe: Recipe
    row: PlanRow
    device: str = "auto"


@dataclass(frozen=True, kw_only=True)
class DistributionJob:
    """Histograms of the experts' changes of one tensor. Yields LayerDistribution."""

    recipe: Recipe
    row: PlanRow


@dataclass(frozen=True, kw_only=True)
class CovariancesJob:
    """Compare ACE's covariances with those of the experts' inputs on their tasks' calibration data.

    Goes matrix by matrix, starting with the one called ``first``.

    Yields PassProgress while inputs are measured, then a CovariancesCompared for each matrix.
    """

    recipe: Recipe
    first: str = ""
    device: str = "auto"


@dataclass(frozen=True, kw_only=True)
class LayerCovariancesJob:
    """Compare the covariances of one matrix.

    Yields LayerCovariances, or nothing if no inputs were measured.
    """

    recipe: Recipe
    row: PlanRow
    device: str = "auto"


@dataclass(frozen=True, kw_only=True)
class DifferenceJob:
    """Compare two finished merges of one base. Yields a LayerDifference for each tensor.

    ``row`` None: every tensor that either merge changed, without spectra; else that one, with
    spectra if it is a matrix.
    """

    first: Path
    second: Path
    row: PlanRow | None = None


@dataclass(frozen=True, kw_only=True)
class ReportJob:
    """Write a report on a finished merge as one HTML file. Yields ReportProgress, then Reported.

    ``store``: of the finished merge. An existing ``file`` is replaced.
    """

    store: Path
    file: Path
    device: str = "auto"


@dataclass(frozen=True, kw_only=True)
class ExportJob:
    """Write a finished store as a model folder. Yields ExportProgress, then Exported.

    ``dtype`` None: the recipe's, else the base's. ``shard_bytes``: largest size of one file.
    ``complete_heads``: also write a whole model for each expert with a head of its own.
    """

    store: Path
    folder: Path
    dtype: str | None = None
    shard_bytes: int = 5_000_000_000
    complete_heads: bool = False


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One of several compared merges; ``store``: a folder for it alone."""

    recipe: Recipe
    store: Path


@dataclass(frozen=True, kw_only=True)
class CompareJob:
    """Merge several recipes one after another and measure each result.

    Yields CompareProgress, and a MethodCompared for each variant, failed ones included.
    ``memory_bytes``, ``cluster``: as in a MergeJob.
    """

    variants: tuple[Variant, ...]
    device: str = "auto"
    memory_bytes: int | None = None
    cluster: str = ""


@dataclass(frozen=True, kw_only=True)
class EvaluateJob:
    """Score the recipe's base and experts, finished merges, and folders on the recipe's tasks.

    Yields EvaluationProgress, a TaskScore for each result, then Evaluated. ``folders``: of models,
    and ``stores``: of finished merges; their scores are named by these paths. ``limit``: most
    examples of each task. ``cluster``: as in a MergeJob.
    """

    recipe: Recipe
    folders: tuple[Path, ...] = ()
    stores: tuple[Path, ...] = ()
    limit: int | None = None
    device: str = "auto"
    cluster: str = ""


@dataclass(frozen=True, kw_only=True)
class KnownScoresJob:
    """Look up what earlier evaluations found. Yields a TaskScore each; no model is loaded.

    ``stores``, ``device``: as of an EvaluateJob.
    """

    recipe: Recipe
    stores: tuple[Path, ...] = ()
    device: str = "auto"


@dataclass(frozen=True, kw_only=True)
class DescribeTasksJob:
    """Read tasks and check them as scoring would. Yields a TaskDescribed for each.

    ``tasks``: the tasks of the recipe to describe.
    """

    recipe: Recipe
    tasks: tuple[Task, ...]


@dataclass(frozen=True, kw_only=True)
class CompareExamplesJob:
    """List the examples that a finished merge lost and gained.

    Yields an ExamplesCompared for each of the recipe's tasks, and EvaluationProgress while answers
    are computed.

    ``with_base``: compare with the base instead of the expert of the task.
    """

    recipe: Recipe
    store: Path
    with_base: bool = False
    device: str = "auto"


@dataclass(frozen=True, kw_only=True)
class RoutesJob:
    """Find which expert a merge with a router chooses for examples of the recipe's tasks.

    Yields EvaluationProgress, then RoutesFound.
    """

    recipe: Recipe
    store: Path
    limit: int | None = None
    device: str = "auto"


@dataclass(frozen=True, kw_only=True)
class TryJob:
    """Let base, expert and merges answer for one text or picture.

    Yields for each of them TriedBegun, TriedText while it writes, then Tried.

    ``task``: determines the head and the kind of answer; its data are read only if ``row`` names
    one of its examples. Otherwise ``text`` (``pair``: the second of two) or ``picture`` is given.
    All models write text with the same ``seed``; ``temperature`` 0: always the likeliest token.
    """

    recipe: Recipe
    task: Task
    stores: tuple[Path, ...] = ()
    row: str = ""
    text: str = ""
    pair: str = ""
    picture: Path | None = None
    seed: int = 0
    temperature: float = 0.0
    most_tokens: int = 120
    device: str = "auto"


@dataclass(frozen=True, kw_only=True)
class TuneJob:
    """Search values of parameters of the recipe's method by scores on its tasks. See ``tune``.

    Yields a TunePoint for each merge, then Tuned. ``cluster``: as in a MergeJob.
    """

    recipe: Recipe
    ranges: tuple[ParameterRange, ...]
    merges: int | None = None
    limit: int | None = None
    device: str = "auto"
    cluster: str = ""


Job = (
    ConfigureJob
    | PlanJob
    | LoadRecipeJob
    | CachedModelsJob
    | ScanJob
    | ConvertJob
    | AnalyseJob
    | MergeJob
    | ReadStoresJob
    | SpectrumJob
    | SampleMergesJob
    | SubspacesJob
    | DistributionJob
    | CovariancesJob
    | LayerCovariancesJob
    | DifferenceJob
    | ReportJob
    | ExportJob
    | DescribeTasksJob
    | EvaluateJob
    | KnownScoresJob
    | CompareExamplesJob
    | RoutesJob
    | TryJob
    | TuneJob
    | CompareJob
)
