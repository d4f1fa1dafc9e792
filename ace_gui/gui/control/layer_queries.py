"""Asks the engine about the selected layer what the panel in view shows, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from PySide6.QtCore import QObject, QTimer, Signal, SignalInstance

from ace_gui.engine.contract.events import Event, JobCancelled, JobDone, JobFailed
from ace_gui.engine.contract.findings import LayerDifference, LayerDistribution, LayerSubspaces
from ace_gui.engine.contract.jobs import DifferenceJob, DistributionJob, Job, SubspacesJob
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.gui.state.activity import RecipeKey, State
from ace_gui.gui.state.session import Session

DELAY: Final = 80  # ms; a selection that only passes by asks nothing

Kind = type[LayerSubspaces] | type[LayerDistribution] | type[LayerDifference]


class Worker(Protocol):
    """What inquiries need of a worker."""

    said: SignalInstance
    engine_lost: SignalInstance

    def submit(self, job: Job) -> int:
        """Queue a job; its events carry the returned number."""
        ...

    def withdraw(self, number: int) -> None:
        """Ask a job to stop when it can."""
        ...


@dataclass(frozen=True)
class _Question:
    """What is asked: of a layer (None: of every one), under ``key``."""

    kind: Kind
    name: str | None
    key: RecipeKey
    job: Job


class Inquiries(QObject):
    """At most one question of each kind about a layer, and one about all layers, are under way.

    ``awaited`` says of a kind of finding whether its answer is on the way.
    """

    awaited = Signal(object, bool)

    def __init__(self, session: Session, worker: Worker, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._worker = worker
        self._kinds: set[Kind] = set()
        self._asked: dict[int, _Question] = {}
        self._timer = QTimer(self, singleShot=True, interval=DELAY)
        self._timer.timeout.connect(self._ask)
        worker.said.connect(self._hear)
        worker.engine_lost.connect(self._forget_all)
        for signal in (session.selection_changed, session.inputs_changed, session.plan_changed):
            signal.connect(self._timer.start)
        session.state_changed.connect(self._ask_after_planning)
        session.comparison.wanted.connect(self._compare)

    def want(self, kind: Kind, wanted: bool) -> None:
        """A panel in view shows findings of this kind, or none does any more."""
        (self._kinds.add if wanted else self._kinds.discard)(kind)
        self._timer.start()

    # Questions

    def _ask(self) -> None:
        """Ask what is wanted and not known, in the place of what was asked before."""
        wanted = self._wanted()
        for number, question in tuple(self._asked.items()):
            if question.name is not None and question not in wanted:
                self._withdraw(number)
        for question in wanted:
            if question not in self._asked.values():
                self._submit(question)

    def _wanted(self) -> list[_Question]:
        session = self._session
        row = session.row(session.selection) if session.selection else None
        # While a plan is under way the recipe may yet be rejected; its end asks again.
        if row is None or session.is_running(State.PLANNING):
            return []
        questions = (ask(session, row) for kind, ask in _QUESTIONS.items() if kind in self._kinds)
        return [question for question in questions if question is not None]

    def _ask_after_planning(self) -> None:
        if self._kinds and not self._session.is_running(State.PLANNING):
            self._timer.start()

    def _compare(self) -> None:
        for number in tuple(self._asked):
            if self._asked[number].kind is LayerDifference:
                self._withdraw(number)
        pair = self._session.comparison.pair
        if pair is not None:
            first, second = (run.store for run in pair)
            job = DifferenceJob(first=first, second=second)
            self._submit(_Question(LayerDifference, None, (first, second), job))
            self._timer.start()

    def _submit(self, question: _Question) -> None:
        self._asked[self._worker.submit(question.job)] = question
        self.awaited.emit(question.kind, True)

    def _withdraw(self, number: int) -> None:
        self._worker.withdraw(number)
        self._forget(number)

    def _forget(self, number: int) -> None:
        kind = self._asked.pop(number).kind
        if not any(question.kind is kind for question in self._asked.values()):
            self.awaited.emit(kind, False)

    def _forget_all(self) -> None:
        for number in tuple(self._asked):
            self._forget(number)

    # Answers

    def _hear(self, number: int, event: Event) -> None:
        question = self._asked.get(number)
        match event:
            case _ if question is None:  # another's, or withdrawn
                return
            case LayerSubspaces() | LayerDistribution():
                self._session.findings.record(question.key, event)
            case LayerDifference():
                self._session.comparison.record(event)
            case JobFailed(error=error):
                self._forget(number)
                self._session.fail(error)
            case JobDone() | JobCancelled():
                self._forget(number)


def _subspaces(session: Session, row: PlanRow) -> _Question | None:
    key = session.recipe_key()
    known = session.findings.get(LayerSubspaces, row.name, key)
    if known is not None or not session.has_spectrum(row):
        return None
    job = SubspacesJob(recipe=session.inputs.recipe(), row=row, device=session.device)
    return _Question(LayerSubspaces, row.name, key, job)


def _distribution(session: Session, row: PlanRow) -> _Question | None:
    key = session.models_key()
    known = session.findings.get(LayerDistribution, row.name, key)
    if known is not None or not row.experts:
        return None
    job = DistributionJob(recipe=session.inputs.recipe(), row=row)
    return _Question(LayerDistribution, row.name, key, job)


def _difference(session: Session, row: PlanRow) -> _Question | None:
    pair = session.comparison.pair
    if pair is None or row.name in session.comparison.spectra or len(row.shape) != 2:
        return None
    first, second = (run.store for run in pair)
    job = DifferenceJob(first=first, second=second, row=row)
    return _Question(LayerDifference, row.name, (first, second), job)


_QUESTIONS: Final[dict[Kind, Callable[[Session, PlanRow], _Question | None]]] = {
    LayerSubspaces: _subspaces,
    LayerDistribution: _distribution,
    LayerDifference: _difference,
}
