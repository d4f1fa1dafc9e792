"""What the engine can be asked to do: one frozen value an operation. ``runner`` does them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.contract.scored.tuned import ParameterRange
from ace_gui.recipe import Recipe
from ace_gui.recipe.tasks import Task

STORE_COMPLETE: Final = "complete"
"""Name of the file in a merge store that says: every tensor is here."""


@dataclass(frozen=True, kw_only=True)
class ConfigureJob:
    """How the engine computes from now on. Yields EngineReady, as it is then.

    ``threads`` None: as torch chooses. ``scratch``: below which merges wait, None: the cache.
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
    """Look for models at and below ``paths``, and which fit another. Yields ModelsFound.

    ``base``: one that is open already, to which the others shall be experts.
    """

    paths: tuple[Path, ...]
    base: Path | None = None


@dataclass(frozen=True, kw_only=True)
class ConvertJob:
    """Convert a PyTorch pickle, with the person's consent. Yields ConversionProgress.

    ``path`` is that of the PickleConsentError. Planning then finds the converted model by itself.
    """

    path: Path


@dataclass(frozen=True, kw_only=True)
class AnalyseJob:
    """Read every merged or averaged tensor once. Yields LayerAnalysed a tensor."""

    recipe: Recipe


@dataclass(frozen=True, kw_only=True)
class MergeJob:
    """Merge into a store. Yields MergeStarted, TensorFinished a tensor, MergeFinished.

    ``store`` is a folder of the merge's own. ``threads`` None: as torch chooses. ``memory_bytes``:
    what the merge may use, None: what is free. ``cluster``: whose workers merge
    (``cluster.address``); empty: the engine's process.
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
    """Look into the stores of finished merges. Yields StoreRead for each that is whole."""

    stores: tuple[Path, ...]


@dataclass(frozen=True, kw_only=True)
class SpectrumJob:
    """Spectra of one matrix under the recipe. Yields ExpertSpectra, then LayerSpectrum.

    The former only where the latter is not remembered. ``store``: of a finished merge, which need
    not be done again where it was of just this recipe and rounding hides nothing.
    """

    recipe: Recipe
    row: PlanRow
    device: str = "auto"
    store: Path | None = None


@dataclass(frozen=True, kw_only=True)
class SampleMergesJob:
    """Merge as many matrices as a few seconds allow. Yields MatrixSampled a matrix."""

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
    """ACE's covariances beside those of the inputs that the experts have with their tasks'
    calibration data, matrix by matrix, beginning with the one called ``first``.

    Yields PassProgress while inputs are measured, then CovariancesCompared a matrix.
    """

    recipe: Recipe
    first: str = ""
    device: str = "auto"


@dataclass(frozen=True, kw_only=True)
class LayerCovariancesJob:
    """The same of one matrix. Yields LayerCovariances; nothing where no inputs were measured."""

    recipe: Recipe
    row: PlanRow
    device: str = "auto"


@dataclass(frozen=True, kw_only=True)
class DifferenceJob:
    """Two finished merges of one base, tensor by tensor. Yields LayerDifference a tensor.

    ``row`` None: every tensor that either changed, without spectra; else that one, with spectra if
    it is a matrix.
    """

    first: Path
    second: Path
    row: PlanRow | None = None


@dataclass(frozen=True, kw_only=True)
class ReportJob:
    """Write what a finished merge did as one HTML file. Yields ReportProgress, then Reported.

    ``store``: of the finished merge. A ``file`` that exists is replaced.
    """

    store: Path
    file: Path
    device: str = "auto"


@dataclass(frozen=True, kw_only=True)
class ExportJob:
    """Write a finished store as a model folder. Yields ExportProgress, then Exported.

    ``dtype`` None: the recipe's, else the base's. ``shard_bytes``: largest size of one file.
    ``complete_heads``: also a whole model for each expert with a head of its own.
    """

    store: Path
    folder: Path
    dtype: str | None = None
    shard_bytes: int = 5_000_000_000
    complete_heads: bool = False


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One merge of several that are compared; ``store`` is a folder of its own."""

    recipe: Recipe
    store: Path


@dataclass(frozen=True, kw_only=True)
class CompareJob:
    """Merge several recipes one after another and measure each.

    Yields CompareProgress while it works, and MethodCompared a variant, also where one fails.
    ``memory_bytes``, ``cluster``: as of a MergeJob.
    """

    variants: tuple[Variant, ...]
    device: str = "auto"
    memory_bytes: int | None = None
    cluster: str = ""


@dataclass(frozen=True, kw_only=True)
class EvaluateJob:
    """Try the recipe's base and experts, finished merges, and folders, on the recipe's tasks.

    Yields EvaluationProgress while it works, a TaskScore each as it is known, then Evaluated.
    ``folders``: of models, and ``stores``: of finished merges; their scores are called by these
    paths. ``limit``: so many examples of each task at most. ``cluster``: as of a MergeJob.
    """

    recipe: Recipe
    folders: tuple[Path, ...] = ()
    stores: tuple[Path, ...] = ()
    limit: int | None = None
    device: str = "auto"
    cluster: str = ""


@dataclass(frozen=True, kw_only=True)
class DescribeTasksJob:
    """Read tasks and check them, as scoring would. Yields a TaskDescribed each.

    ``tasks``: of the recipe's those that are asked for.
    """

    recipe: Recipe
    tasks: tuple[Task, ...]


@dataclass(frozen=True, kw_only=True)
class CompareExamplesJob:
    """Look at the examples that a finished merge lost and gained. Yields an ExamplesCompared for
    each of the recipe's tasks, and EvaluationProgress where answers are not known yet.

    ``with_base``: against the base, not against the expert whose task it is.
    """

    recipe: Recipe
    store: Path
    with_base: bool = False
    device: str = "auto"


@dataclass(frozen=True, kw_only=True)
class RoutesJob:
    """See which expert a finished merge with a router takes for which examples of the recipe's
    tasks. Yields EvaluationProgress while it works, then RoutesFound.
    """

    recipe: Recipe
    store: Path
    limit: int | None = None
    device: str = "auto"


@dataclass(frozen=True, kw_only=True)
class TryJob:
    """Ask base, expert and merges about one text or picture. Yields, for each of them, TriedBegun,
    TriedText while it writes, then Tried.

    ``task``: with whose head, and what kind of answer; its data are read only where ``row`` names
    one of its examples. Else ``text`` (``pair``: the second of two) or ``picture`` is given. Text
    is written with the same ``seed`` by all; ``temperature`` 0: always the likeliest token.
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
    """Try values of parameters of the recipe's method on its tasks, as ``tune`` says.

    Yields a TunePoint for each merge, then Tuned. ``cluster``: as of a MergeJob.
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
    | CompareExamplesJob
    | RoutesJob
    | TryJob
    | TuneJob
    | CompareJob
)
