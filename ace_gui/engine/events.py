"""What the engine says while it works: plain values and NumPy arrays, nothing of torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ace_gui.engine.jobs import Variant
from ace_gui.engine.plan import Plan
from ace_gui.errors import WorkbenchError
from ace_gui.recipe.values import ParameterValue


class Regime(StrEnum):
    """ACE's two branches."""

    HOMOGENEOUS = "homogeneous"
    HETEROGENEOUS = "heterogeneous"


@dataclass(frozen=True, kw_only=True)
class FieldInfo:
    """One parameter of a method, as a form shows it. ``kind``: float, int, bool or str."""

    name: str
    kind: str
    default: ParameterValue
    label: str
    help: str
    low: float | None
    high: float | None
    low_open: bool
    logarithmic: bool
    choices: tuple[str, ...]
    presets: tuple[tuple[str, float], ...]


@dataclass(frozen=True, kw_only=True)
class MethodInfo:
    """One merge method, as a chooser shows it. ``seeded``: it draws random numbers."""

    name: str
    title: str
    summary: str
    formula: str
    citation: str
    fields: tuple[FieldInfo, ...]
    seeded: bool = False


@dataclass(frozen=True, kw_only=True)
class DeviceInfo:
    """One device: ``name`` for the recipe's sake ("cpu", "cuda:0"), ``title`` for people's."""

    name: str
    title: str


@dataclass(frozen=True, kw_only=True)
class EngineReady:
    """The engine process has started and imported what it needs."""

    methods: tuple[MethodInfo, ...]
    devices: tuple[DeviceInfo, ...]
    scopes: tuple[tuple[str, str], ...]  # name, what it does
    threads: int
    memory_bytes: int = 0  # of the machine


@dataclass(frozen=True, kw_only=True)
class CachedModelInfo:
    """One revision of a model in the local Hugging Face cache; ``bytes`` of all its files."""

    name: str
    revision: str
    folder: Path
    bytes: int


@dataclass(frozen=True, kw_only=True)
class CachedModelsFound:
    """The models in the local Hugging Face cache, which is ``folder``."""

    folder: Path
    models: tuple[CachedModelInfo, ...]


@dataclass(frozen=True, kw_only=True)
class PlanReady:
    """The plan of a recipe."""

    plan: Plan


@dataclass(frozen=True, kw_only=True)
class LayerStatistics:
    """What the experts' task vectors say of one tensor.

    ``energies``: ‖ΔW_t‖²_F by expert. ``gamma``: heterogeneity, None where the method has none or
    fewer than two experts changed the tensor; ``left_out``: experts with numerically no change.
    ``base_energy``: ‖W₀‖²_F, None where only the merge's own report is known. ``cosines``: T × T,
    of the task vectors with one another in the order of ``energies``; NaN for one without change.
    """

    name: str
    energies: Mapping[str, float]
    base_energy: float | None = None
    gamma: float | None = None
    mean_log_energy: float | None = None
    left_out: tuple[str, ...] = ()
    cosines: NDArray[np.float64] | None = None


@dataclass(frozen=True, kw_only=True)
class LayerAnalysed:
    """Statistics of one tensor; ``done`` of ``total`` tensors are known now."""

    statistics: LayerStatistics
    done: int
    total: int


@dataclass(frozen=True, kw_only=True)
class MergeStarted:
    """The merge begins: ``done`` of ``total`` tensors were already finished by an earlier run."""

    total: int
    done: int
    bytes_total: int
    peak_bytes: int


@dataclass(frozen=True, kw_only=True)
class LayerReport:
    """What the merge did to one tensor.

    The figures are those of ``Diagnostics``, None where the method has none. ``notes``: departures
    from the published procedure that were taken here; ``warnings``: what may be wrong with the
    result, and what one can do. A sentence each. ``non_finite``: the experts with NaN or Inf here.
    """

    name: str
    gamma: float | None = None
    regime: Regime | None = None
    ridge_mass: float | None = None
    condition: float | None = None
    refinement_cosine: float | None = None
    refinement_ratio: float | None = None
    energies: Mapping[str, float] | None = None
    delta_norm: float | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    non_finite: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PassProgress:
    """Before or after the merge itself, ``done`` of ``total`` tensors of a pass over the model."""

    title: str
    done: int
    total: int


@dataclass(frozen=True, kw_only=True)
class TensorFinished:
    """One tensor is merged and on disk. ``bytes_done`` counts output bytes."""

    report: LayerReport
    done: int
    total: int
    bytes_done: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class MergeFinished:
    """Every tensor is in the merge store at ``store``."""

    store: Path
    seconds: float
    peak_bytes: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LayerSpectrum:
    """Singular values of one matrix, largest first.

    ``experts``: of every expert's ΔW. ``preliminary``: of W_pre, before refinement (None for
    methods without one). ``merged``: of the merged delta, after refinement.
    """

    name: str
    experts: Mapping[str, NDArray[np.float64]]
    preliminary: NDArray[np.float64] | None
    merged: NDArray[np.float64]
    report: LayerReport


@dataclass(frozen=True, kw_only=True)
class LayerSubspaces:
    """Directions of one matrix, before and after, and between the experts.

    ``alignment``: |cosine| of the i-th left singular vectors of W_pre and of the merged delta, and
    ``alignment_right`` of the right ones, leading first (ACE, Fig. 2 right); None for methods
    without a preliminary solution. ``overlap``: T × T in the order of ``experts``, the share
    ‖U_aᵀU_b‖²_F / ``rank`` of two experts' leading left subspaces of ``rank`` directions each.
    """

    name: str
    experts: tuple[str, ...]
    alignment: NDArray[np.float64] | None
    alignment_right: NDArray[np.float64] | None
    overlap: NDArray[np.float64]
    rank: int


@dataclass(frozen=True, kw_only=True)
class LayerDistribution:
    """Histograms of the entries of one tensor's ΔW by expert, over common bins.

    ``edges``: B + 1 bin edges, symmetric around zero; ``counts``: B by expert, entries beyond the
    edges in ``outside``. ``means``, ``deviations`` and ``excess``, the excess kurtosis (0 for a
    Gaussian, NaN without change): of all the entries.
    """

    name: str
    edges: NDArray[np.float64]
    counts: Mapping[str, NDArray[np.int64]]
    outside: Mapping[str, int]
    means: Mapping[str, float]
    deviations: Mapping[str, float]
    excess: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class LayerDifference:
    """One tensor in two finished merges of the same base.

    ``first_norm``, ``second_norm``: ‖W − W₀‖_F in each; ``difference_norm``: ‖W₁ − W₂‖_F;
    ``cosine``: of the two changes, NaN where one merge left the tensor alone. ``first``,
    ``second``: singular values of the changes, largest first; None where they were not asked for,
    or for no matrix.
    """

    name: str
    first_norm: float
    second_norm: float
    difference_norm: float
    cosine: float
    first: NDArray[np.float64] | None = None
    second: NDArray[np.float64] | None = None


@dataclass(frozen=True, kw_only=True)
class ReportProgress:
    """``done`` of ``total`` tensors are looked at for the report."""

    done: int
    total: int


@dataclass(frozen=True, kw_only=True)
class Reported:
    """The report is written."""

    file: Path
    bytes: int


@dataclass(frozen=True, kw_only=True)
class ExportProgress:
    """``done`` of ``total`` bytes are written."""

    done: int
    total: int


@dataclass(frozen=True, kw_only=True)
class ConversionProgress:
    """``done`` of ``total`` bytes of a pickle are converted."""

    done: int
    total: int


@dataclass(frozen=True, kw_only=True)
class Exported:
    """The output folder is complete."""

    folder: Path
    files: tuple[str, ...]
    bytes: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SampleAccuracy:
    """Held-out accuracy of one model on the sample's tasks, each in [0, 1]."""

    model: str
    by_task: Mapping[str, float]

    @property
    def mean(self) -> float:
        """Unweighted mean over the tasks."""
        return sum(self.by_task.values()) / len(self.by_task)


@dataclass(frozen=True, kw_only=True)
class CompareProgress:
    """The merge at ``place`` (from 0) ``of`` several: ``done`` of ``total`` tensors, 0 unknown."""

    title: str
    place: int
    of: int
    done: int
    total: int


@dataclass(frozen=True, kw_only=True)
class MethodCompared:
    """One merge of several: what came of it, or the ``error`` that kept it from being made.

    ``place``: among those compared, from 0. ``seconds`` of planning and merging; ``peak_bytes`` of
    the process meanwhile. ``norm``: ‖Δ‖_F of the merged task vector Δ over every tensor that was
    merged or averaged. By expert: ``expert_norms`` ‖ΔW_t‖_F, ``distances`` ‖Δ − ΔW_t‖_F by that (1
    is as far as the base), ``cosines`` of Δ and ΔW_t; NaN for an expert without change. ``warned``
    and ``noted``: tensors with a warning or a departure from the published procedure; ``refined``:
    heterogeneous ones. ``accuracies``: by task, only of the sample. ``reports``: a tensor each.
    """

    title: str
    variant: Variant
    place: int
    error: str = ""
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    seconds: float = 0.0
    peak_bytes: int = 0
    norm: float = 0.0
    expert_norms: Mapping[str, float] = field(default_factory=dict)
    distances: Mapping[str, float] = field(default_factory=dict)
    cosines: Mapping[str, float] = field(default_factory=dict)
    warned: int = 0
    noted: int = 0
    refined: int = 0
    accuracies: Mapping[str, float] = field(default_factory=dict)
    reports: tuple[LayerReport, ...] = ()

    @property
    def relative_norm(self) -> float:
        """‖Δ‖ by the experts' mean ‖ΔW_t‖; 0 where nothing is known."""
        norms = [norm for norm in self.expert_norms.values() if norm > 0]
        return self.norm * len(norms) / sum(norms) if norms else 0.0

    @property
    def mean_distance(self) -> float | None:
        """Unweighted mean over the experts."""
        return sum(self.distances.values()) / len(self.distances) if self.distances else None

    @property
    def mean_accuracy(self) -> float | None:
        """Unweighted mean over the tasks."""
        return sum(self.accuracies.values()) / len(self.accuracies) if self.accuracies else None


@dataclass(frozen=True, kw_only=True)
class JobDone:
    """The job ended well; nothing more will come of it."""


@dataclass(frozen=True, kw_only=True)
class JobFailed:
    """The job ended with an error; nothing more will come of it."""

    error: WorkbenchError


@dataclass(frozen=True, kw_only=True)
class JobCancelled:
    """The job was cancelled; nothing more will come of it."""


Event = (
    EngineReady
    | CachedModelsFound
    | PlanReady
    | LayerAnalysed
    | MergeStarted
    | PassProgress
    | TensorFinished
    | MergeFinished
    | LayerSpectrum
    | LayerSubspaces
    | LayerDistribution
    | LayerDifference
    | ReportProgress
    | Reported
    | ExportProgress
    | ConversionProgress
    | Exported
    | SampleAccuracy
    | CompareProgress
    | MethodCompared
    | JobDone
    | JobFailed
    | JobCancelled
)
