"""A worker without an engine, and plans and methods made up for tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QMessageBox

from ace_gui.engine.contract.events import (
    DeviceInfo,
    EngineReady,
    Event,
    Job,
    JobDone,
    LayerAnalysed,
    MergeFinished,
    MergeStarted,
    MethodInfo,
    PlanReady,
    TensorFinished,
)
from ace_gui.engine.contract.findings import (
    ExpertSpectra,
    LayerReport,
    LayerSpectrum,
    LayerStatistics,
    Regime,
)
from ace_gui.engine.contract.jobs import MergeJob
from ace_gui.engine.contract.plan import Disposition, ExpertSummary, Plan, PlanRow
from ace_gui.engine.contract.scored import TaskScore
from ace_gui.field_info import FieldInfo
from ace_gui.gui.control.merge_stores import write_record
from ace_gui.gui.models.layer_figures import LayerFigures
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.draft import Inputs
from ace_gui.gui.state.session import Session
from ace_gui.output_files import MARK, MARK_TEXT, STORE_COMPLETE
from ace_gui.recipe import ModelEntry, Recipe

BASE = Path("/models/base")
COLA = Path("/models/cola")
SST2 = Path("/models/sst2")
_Job = TypeVar("_Job")
TWO = Inputs(base=BASE).with_experts([COLA, SST2])


class FakeWorker(QObject):
    """Notes jobs and cancellations; the test says what the engine would."""

    reported = Signal(int, object)
    engine_starting = Signal()
    engine_lost = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.jobs: dict[int, Job] = {}
        self.cancelled: list[int] = []
        self.withdrawn: list[int] = []

    def submit(self, job: Job) -> int:
        self.jobs[len(self.jobs) + 1] = job
        return len(self.jobs)

    def cancel(self, number: int, *, enforced: bool = True) -> None:
        (self.cancelled if enforced else self.withdrawn).append(number)

    def say(self, *events: Event, job: int | None = None) -> None:
        """Events of one job, the newest unless told."""
        for event in events:
            self.reported.emit(len(self.jobs) if job is None else job, event)

    def jobs_of(self, kind: type[_Job]) -> list[_Job]:
        """The jobs of a kind, oldest first."""
        return [job for job in self.jobs.values() if isinstance(job, kind)]

    def newest(self, kind: type) -> int:
        """Number of the newest job of a kind."""
        return max(number for number, job in self.jobs.items() if isinstance(job, kind))


class Clock:
    """Stands still until it is told."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def field(name: str, **changes: object) -> FieldInfo:
    """A parameter's field."""
    values = {
        "kind": "float",
        "default": 0.3,
        "label": name,
        "help": f"What {name} does.",
        "low": 0.0,
    }
    return FieldInfo(name=name, **{**values, **changes})


EPSILON = field(
    "epsilon", default=1e-5, logarithmic=True, low_open=True, presets=(("GPT-2", 4e-2),)
)
TAU = field("tau", default=0.3)
FRACTION = field("k_frac", default=0.3, high=1.0)
ACE = MethodInfo(
    name="ace",
    title="ACE-Merging",
    family="Least interference",
    summary="Closed form.",
    formula="W = …",
    citation="A paper.",
    fields=(EPSILON, TAU, FRACTION),
)
LINEAR = MethodInfo(
    name="linear",
    title="Weight averaging",
    family="Means and arcs",
    summary="Mean.",
    formula="W = mean",
    citation="Another.",
    fields=(field("normalize", kind="bool", default=True, low=None),),
)
ENGINE = EngineReady(
    methods=(ACE, LINEAR),
    devices=(DeviceInfo(name="cpu", title="CPU"),),
    scopes=(("default", "As usual."), ("authors-vit", "As the authors did.")),
    threads=2,
)


def row(name: str, **changes: object) -> PlanRow:
    """A plan row of a merged 4 × 3 matrix."""
    values = {
        "role": "query",
        "shape": (4, 3),
        "dtype": "F32",
        "disposition": Disposition.MERGED,
        "reason": "matrix of a linear layer",
        "experts": (0, 1),
    }
    return PlanRow(name=name, **{**values, **changes})


ROWS = (
    row("head", role="head", disposition=Disposition.PER_EXPERT),
    row("layer.0.q", block=0),
    row("layer.0.q.bias", block=0, role="bias", shape=(4,), disposition=Disposition.AVERAGED),
    row("layer.10.q", block=10, role="key", shape=(8, 3)),
    row("layer.2.q", block=2),
)


def summary(path: Path) -> ExpertSummary:
    """A model of one megabyte."""
    return ExpertSummary(
        name=path.name, path=str(path), bytes=1_000_000, dtype="F32", architecture="Toy"
    )


def recipe(*experts: Path, **changes: object) -> Recipe:
    """A recipe over the base."""
    models = tuple(ModelEntry(model=path) for path in experts)
    return Recipe(base_model=BASE, models=models, **changes)


def plan(of: Recipe, rows: tuple[PlanRow, ...] = ROWS, **changes: object) -> Plan:
    """The plan of a recipe."""
    values = {
        "recipe": of,
        "base": summary(of.base_model),
        "experts": tuple(summary(entry.model) for entry in of.models),
        "rows": rows,
        "parameters": {"epsilon": 1e-5, "tau": 0.3, "k_frac": 0.3, **of.parameters},
        "parameter_notes": {"epsilon": "default for this family"},
        "heterogeneity": of.merge_method == "ace",
        "peak_bytes": 2_000_000,
    }
    return Plan(**{**values, **changes})


def answer(box: QMessageBox | None, words: str) -> None:
    """Click the button of a question that has these words."""
    assert box is not None
    (button,) = [button for button in box.buttons() if words in button.text().replace("&", "")]
    button.click()


def adopt_two(session: Session) -> None:
    """Load the base with two experts, planned and not compared yet."""
    session.adopt(TWO, plan(recipe(COLA, SST2)))


def record_gammas(session: Session, gammas: dict[str, float]) -> None:
    """Make these γ known, while the analysis goes on."""
    for event in analysed(gammas)[:-1]:
        session.layers.record_statistics(event.statistics)


def analysed(gammas: dict[str, float]) -> list[Event]:
    """An analysis that finds these γ."""
    events: list[Event] = []
    for done, (name, gamma) in enumerate(gammas.items(), start=1):
        statistics = LayerStatistics(name=name, energies={"cola": 1.0, "sst2": 2.0}, gamma=gamma)
        events.append(LayerAnalysed(statistics=statistics, done=done, total=len(gammas)))
    return [*events, JobDone()]


GAMMAS = {"layer.0.q": 0.1, "layer.10.q": 0.9, "layer.2.q": 0.5}


def started(total: int = 2) -> MergeStarted:
    """A merge of so many tensors."""
    return MergeStarted(total=total, done=0, bytes_total=100 * total, peak_bytes=1)


def finished_tensor(name: str, done: int = 1, total: int = 2) -> TensorFinished:
    """One tensor merged."""
    report = LayerReport(name=name, notes=("a note",))
    return TensorFinished(report=report, done=done, total=total, bytes_done=100 * done, seconds=0.1)


def make_store(store: Path, *, complete: bool = False) -> Path:
    """The folder of a merge as the engine makes it."""
    store.mkdir(parents=True, exist_ok=True)
    (store / MARK).write_bytes(MARK_TEXT)
    (store / "model.safetensors").write_bytes(b"x")
    if complete:
        (store / STORE_COMPLETE).touch()
    return store


def recorded(store: Path, recipe: Recipe) -> Path:
    """A finished merge with its record."""
    write_record(MergeRun(recipe=recipe, store=make_store(store, complete=True)))
    return store


def finished_merge(store: Path = Path("/cache/store"), seconds: float = 1.0) -> MergeFinished:
    """The end of a merge."""
    return MergeFinished(store=store, seconds=seconds, peak_bytes=1)


def merged(
    window: MainWindow, worker: FakeWorker, *tensors: TensorFinished, seconds: float = 1.0
) -> Path:
    """Merge in the window, with what the engine says of these tensors; the merge's store."""
    window.actions_.merge.trigger()
    number = worker.newest(MergeJob)
    store: Path = worker.jobs[number].store
    worker.say(started(), *tensors, finished_merge(store, seconds), JobDone(), job=number)
    return store


def spectrum(name: str) -> LayerSpectrum:
    """A spectrum of three values."""
    values = np.array([3.0, 2.0, 1.0])
    report = LayerReport(name=name, gamma=0.9, regime=Regime.HETEROGENEOUS)
    experts = {"cola": values, "sst2": values / 2}
    return LayerSpectrum(
        name=name, experts=experts, preliminary=values, merged=values, report=report
    )


def expert_spectra(name: str) -> ExpertSpectra:
    """The experts of ``spectrum`` alone."""
    return ExpertSpectra(name=name, experts=spectrum(name).experts)


def load(worker: FakeWorker, *experts: Path) -> None:
    """Answer the newest planning job, whatever it was, with a plan over these experts."""
    worker.say(PlanReady(plan=plan(recipe(*experts))), JobDone())


def task_score(
    model: str,
    task: str,
    score: float,
    *,
    normalised: float | None = None,
    on_own_task: bool = False,
    metric: str = "accuracy",
) -> TaskScore:
    """A score of four examples, the first so many of which are right."""
    each_N = (np.arange(4) < round(4 * score)).astype(float)
    return TaskScore(
        model=model,
        task=task,
        metric=metric,
        score=score,
        n=4,
        standard_error=0.1,
        normalised=1.0 if on_own_task else normalised,
        own=on_own_task,
        each_N=each_N,
    )


def layer_figures(
    names: Sequence[str],
    roles: Sequence[str],
    blocks: Sequence[int | None],
    *,
    gamma: Any = np.nan,
    energies: Any = np.nan,
) -> LayerFigures:
    """Layers with a figure for each or one for all; their mean logs are far from γ's pole."""
    count = len(names)
    return LayerFigures(
        names=tuple(names),
        roles=tuple(roles),
        blocks=tuple(blocks),
        gamma_L=np.full(count, gamma),
        mean_log_L=np.full(count, -5.0),
        energies_LT=np.full((count, 2), energies),
    )
