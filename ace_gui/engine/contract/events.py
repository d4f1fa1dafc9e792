"""What a job is, and the engine's events: plain values, without torch.

Each job names the events that it yields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, dataclass_transform

from ace_gui.engine.contract.distilled import Distilled
from ace_gui.engine.contract.findings import LayerCovariances, LayerReport, LayerStatistics
from ace_gui.engine.contract.plan import Plan
from ace_gui.engine.contract.sanity import SanityResult
from ace_gui.engine.contract.scored import MeanScore, TaskScore, means
from ace_gui.errors import WorkbenchError
from ace_gui.field_info import FieldInfo
from ace_gui.method_names import method_label
from ace_gui.recipe import Recipe, recommended
from ace_gui.recipe.values import ParameterValue, Task

Event = object
"""What a job yields: progress, a part of its result, or its end."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Job:
    """One kind of work: a frozen value of arguments; subclasses are dataclasses.

    ``state``: what the window shows while it runs, an ``ActivityState``; empty for quick jobs.
    """

    state: ClassVar[str] = ""

    def __init_subclass__(cls, state: str = "") -> None:
        cls.state = state
        dataclass(frozen=True, kw_only=True)(cls)


class ScoringJob(Job):
    """Runs models on tasks: the recipe's base and experts, finished merges, and folders.

    ``recipe`` None: only the folders. ``folders``: of models, or transformers models in memory;
    ``names``: of these; if empty, their paths. ``stores``: finished merges, named by their paths.
    ``tasks`` None: the recipe's. ``limit``: most examples of each task.
    """

    recipe: Recipe | None
    folders: tuple[Any, ...] = ()
    names: tuple[str, ...] = ()
    stores: tuple[Path, ...] = ()
    tasks: tuple[Task, ...] | None = None
    limit: int | None = None
    device: str = "auto"


@dataclass(frozen=True, kw_only=True)
class MethodInfo:
    """One merge method, for a list of methods."""

    name: str
    """Its id in recipes."""
    title: str
    """Its name for people."""
    family: str
    """Its heading in the list."""
    summary: str
    """One sentence."""
    formula: str
    """The name of its picture, or empty."""
    citation: str
    """The paper."""
    fields: tuple[FieldInfo, ...]
    """Its parameters."""
    least: int = 1
    """The fewest experts that it can merge."""
    most: int | None = None
    """The most experts that it can merge; None: unlimited."""
    seeded: bool = False
    """Whether it draws random numbers."""
    needs: str = ""
    """The data it needs, as a sentence; empty for none."""
    leaves: str = ""
    """What it stores next to the merged weights, as a sentence; empty for nothing."""
    routes: bool = False
    """Whether what it stores includes a router."""
    learns: bool = False
    """Whether its weights are learned from data, so that no preview of a merge is possible."""

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants of the method, the default first; none if it has only one."""
        field = next((field for field in self.fields if field.name == "variant"), None)
        if field is None:
            return ()
        return tuple(dict.fromkeys((str(field.default), *field.choices)))

    def label(self, variant: object = None) -> str:
        """What it is called in lists, by variant; None: the default one."""
        if self.name == recommended.NAME:
            return self.title
        return method_label(self.title, variant or next(iter(self.variants), None))


@dataclass(frozen=True, kw_only=True)
class DeviceInfo:
    """One device: ``name`` as in the recipe ("cpu", "cuda:0"), ``title`` for display.

    ``memory_bytes``: its own memory; 0 for the CPU, and if unknown.
    """

    name: str
    title: str
    memory_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class EngineReady:
    """The engine process has started and imported its libraries, or was configured again."""

    methods: tuple[MethodInfo, ...]
    """All methods, also from outside."""
    devices: tuple[DeviceInfo, ...]
    """The devices that can merge."""
    scopes: tuple[tuple[str, str], ...]
    """Name, and what it does."""
    threads: int
    """Of matrix products."""
    memory_bytes: int = 0
    """Of the machine."""
    problems: tuple[str, ...] = ()
    """External methods that could not be loaded, one sentence each."""
    devices_not_used: tuple[str, ...] = ()
    """Why there is no GPU, or why one is not used."""
    scratch: Path | None = None
    """The folder for temporary files, as set by a ConfigureJob."""


@dataclass(frozen=True, kw_only=True)
class FoundModel:
    """A model on disk, described by its headers.

    ``problem``: why it cannot be opened, a sentence.
    """

    path: Path
    architecture: str = ""
    dtype: str = ""
    bytes: int = 0
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class ModelsFound:
    """The models of a scan. ``alike``: by model, indices of those that may share its base.

    ``base``: index of the probable base, None if unknown.
    """

    models: tuple[FoundModel, ...]
    base: int | None
    alike: tuple[frozenset[int], ...]


@dataclass(frozen=True, kw_only=True)
class PlanReady:
    """The plan of a recipe."""

    plan: Plan


@dataclass(frozen=True, kw_only=True)
class MixturePlanned:
    """A file that describes a mixture of experts, whose models fit together."""

    file: Path
    """What was opened."""
    model_class: str
    """What transformers calls it."""
    attention: str
    """Where attention, norms and embeddings come from, in words."""
    routers: str
    """How they are made, and how many experts compute a token, in words."""
    experts: tuple[tuple[str, str], ...]
    """The name of each, and its prompts in one line."""
    bytes: int
    """About its size on disk."""
    models: tuple[Path, ...]
    """Folders and files of its models, where no output may go."""
    notes: tuple[str, ...] = ()
    """What to know before, a sentence each."""


@dataclass(frozen=True, kw_only=True)
class JobProgress:
    """``done`` of ``total`` steps of a job. ``title``: the stage; empty if there is only one."""

    done: int
    total: int
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class LayerAnalysed(JobProgress):
    """Statistics of one tensor; ``done`` of ``total`` tensors are known now."""

    statistics: LayerStatistics


@dataclass(frozen=True, kw_only=True)
class CovariancesCompared(JobProgress):
    """``done`` of ``total`` matrices are compared. ``layer``: the latest comparison.

    None if the matrix had no inputs in one of the experts, or if no expert changes it.
    """

    layer: LayerCovariances | None


@dataclass(frozen=True, kw_only=True)
class MergeEstimated:
    """A merge is expected to take ``seconds``, by trials of its kinds of tensor."""

    seconds: float


@dataclass(frozen=True, kw_only=True)
class MergeStarted(JobProgress):
    """The merge starts: ``done`` of ``total`` tensors were finished by an earlier run.

    ``reports``: of these tensors.
    """

    bytes_total: int
    peak_bytes: int
    reports: tuple[LayerReport, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PassProgress(JobProgress):
    """Progress of a pass before or after the merge, in tensors."""


@dataclass(frozen=True, kw_only=True)
class LearningProgress(JobProgress):
    """A method learns from data: ``done`` of ``total`` steps.

    New values since the last event, from step ``first`` (from 0) on: ``losses`` by task, one per
    step, and ``figures`` by expert, named ``curve``. ``warnings``: at the end, possible problems
    with the result.
    """

    first: int
    losses: Mapping[str, tuple[float, ...]]
    figures: Mapping[str, tuple[float, ...]]
    curve: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TensorFinished(JobProgress):
    """One tensor is merged and on disk. ``bytes_done`` counts output bytes."""

    report: LayerReport
    bytes_done: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class GpuPeak:
    """Peak GPU memory in bytes: ``allocated`` to tensors, and ``reserved`` by torch for them."""

    allocated: int
    reserved: int


@dataclass(frozen=True, kw_only=True)
class MergeFinished:
    """Every tensor is in the merge store."""

    store: Path
    """Its folder."""
    seconds: float
    """The time of merging."""
    peak_bytes: int
    """Peak memory of the process."""
    warnings: tuple[str, ...] = ()
    """One sentence each."""
    notes: tuple[str, ...] = ()
    """On the workers of a cluster."""
    gpu_peak: GpuPeak | None = None
    """Set if a GPU merged."""
    distilled: Distilled | None = None
    """What aligning it with its experts gave; None if it was not aligned."""
    sanity: SanityResult | None = None
    """What the sanity check gave; None if none was made."""


@dataclass(frozen=True, kw_only=True)
class StoreRead:
    """A finished merge, by tensor. ``outdated``: the files of its models have changed."""

    store: Path
    reports: tuple[LayerReport, ...]
    outdated: bool


@dataclass(frozen=True, kw_only=True)
class Reported:
    """The report is written."""

    file: Path
    bytes: int


@dataclass(frozen=True, kw_only=True)
class GgufWritten:
    """A GGUF file is complete."""

    files: tuple[Path, ...]
    """The file; for a model also Ollama's description of it."""

    bytes: int

    commands: tuple[str, ...] = ()
    """To run the model, each to copy."""


@dataclass(frozen=True, kw_only=True)
class FigureMade:
    """A figure is drawn, and written if a file was named."""

    picture: bytes
    """PNG for the screen; empty if the figure was written."""

    caption: str

    width: float
    """In mm."""

    height: float
    """In mm."""

    files: tuple[Path, ...] = ()
    """The figure, and the table of its data."""


@dataclass(frozen=True, kw_only=True)
class Exported:
    """The output folder is complete."""

    folder: Path
    files: tuple[str, ...]
    bytes: int
    notes: tuple[str, ...] = ()


def exported(folder: Path) -> Exported:
    """The contents of a finished folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return Exported(
        folder=folder,
        files=tuple(path.relative_to(folder).as_posix() for path in files),
        bytes=sum(path.stat().st_size for path in files),
    )


@dataclass(frozen=True, kw_only=True)
class EnergyByRank:
    """Share of the squared norm of a merge's change that is kept at rank 1, 2, 3, …

    ``shares``: the means over the ``matrices`` that change.
    """

    shares: tuple[float, ...]
    matrices: int


@dataclass(frozen=True, kw_only=True)
class EvaluationProgress(JobProgress):
    """Progress of scoring, in examples over all models and tasks.

    ``tokens_per_second``: of generated text; 0 if none is generated.
    """

    model: str
    task: str
    tokens_per_second: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """Every model was scored: the base, the experts and the folders, each on every task."""

    scores: tuple[TaskScore, ...]


@dataclass(frozen=True, kw_only=True)
class CompareProgress(JobProgress):
    """Progress of merge ``index`` (from 0) ``of`` several, in tensors; 0 of 0 if unknown."""

    index: int
    of: int


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One of several compared merges. ``store``: a folder only for it.

    ``finished``: the merge that is already in the store; None: it is not merged yet.
    """

    recipe: Recipe
    store: Path
    finished: MergeFinished | None = None


@dataclass(frozen=True, kw_only=True)
class MethodCompared:
    """The result of one of several compared merges, or the error that stopped it."""

    title: str
    """Of the method and its variant."""
    variant: Variant
    """What was merged."""
    index: int
    """Among the compared merges, from 0."""
    error: str = ""
    """Why there is no result; empty if there is one."""
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    """The method's, all resolved."""
    seconds: float = 0.0
    """The time of merging."""
    peak_bytes: int = 0
    """Peak memory of the process meanwhile."""
    norm: float = 0.0
    """‖Δ‖_F of the merged task vector Δ over every tensor that was merged or averaged."""
    expert_norms: Mapping[str, float] = field(default_factory=dict)
    """‖ΔW_t‖_F by expert."""
    distances: Mapping[str, float] = field(default_factory=dict)
    """‖Δ − ΔW_t‖_F / ‖ΔW_t‖_F by expert, which is 1 at the base; NaN for an expert without change.
    """
    cosines: Mapping[str, float] = field(default_factory=dict)
    """Of Δ and ΔW_t, by expert; NaN for an expert without change."""
    warned: int = 0
    """Number of tensors with a warning."""
    noted: int = 0
    """Number of tensors with a departure from the published procedure."""
    refined: int = 0
    """Number of heterogeneous tensors."""
    scores: tuple[TaskScore, ...] = ()
    """On the recipe's tasks, if it has any."""
    reports: tuple[LayerReport, ...] = ()
    """One per tensor."""
    warnings: tuple[str, ...] = ()
    """On the merge as a whole."""

    @property
    def relative_norm(self) -> float:
        """‖Δ‖ divided by the mean ‖ΔW_t‖ of the experts; 0 if unknown."""
        norms = [norm for norm in self.expert_norms.values() if norm > 0]
        if norms:
            return self.norm * len(norms) / sum(norms)
        return 0.0

    @property
    def mean_distance(self) -> float | None:
        """Unweighted mean over the experts."""
        if self.distances:
            return sum(self.distances.values()) / len(self.distances)
        return None

    @property
    def by_task(self) -> Mapping[str, float]:
        """The scores by task, without other figures."""
        return {score.task: score.score for score in self.scores}

    @property
    def mean(self) -> MeanScore:
        """Unweighted means over the tasks."""
        computed = means(self.scores)
        if computed:
            return computed[0]
        return MeanScore(model=self.title, score=None, normalised=None)


@dataclass(frozen=True, kw_only=True)
class JobDone:
    """The job succeeded; it sends no more events."""


@dataclass(frozen=True, kw_only=True)
class JobFailed:
    """The job failed with an error; it sends no more events."""

    error: WorkbenchError


@dataclass(frozen=True, kw_only=True)
class JobCancelled:
    """The job was cancelled; it sends no more events."""
