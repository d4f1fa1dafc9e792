"""The jobs under way: who asked what of the engine, until it has answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from PySide6.QtCore import QObject, Signal, SignalInstance

from ace_gui.engine.contract.jobs import (
    AnalyseJob,
    ConvertJob,
    ExportJob,
    Job,
    LoadRecipeJob,
    MergeJob,
    PlanJob,
    ReportJob,
)
from ace_gui.gui.state.activity import RecipeKey, State
from ace_gui.gui.state.inputs import Inputs
from ace_gui.gui.state.session import Session

_STATES: Final[dict[type, State]] = {
    PlanJob: State.PLANNING,
    LoadRecipeJob: State.PLANNING,
    ConvertJob: State.PLANNING,
    AnalyseJob: State.ANALYSING,
    MergeJob: State.MERGING,
    ExportJob: State.EXPORTING,
    ReportJob: State.REPORTING,
}


class Worker(Protocol):
    """What the conductor needs of a worker."""

    said: SignalInstance
    engine_lost: SignalInstance

    def submit(self, job: Job) -> int:
        """Queue a job; its events carry the returned number."""
        ...

    def cancel(self, number: int) -> None:
        """Ask a job to stop, and see to it that it does."""
        ...

    def withdraw(self, number: int) -> None:
        """Ask a job to stop when it can."""
        ...


@dataclass(frozen=True)
class Running:
    """A job under way. ``inputs``: what it plans; ``keys``: by kind, what a finding belongs to."""

    job: Job
    inputs: Inputs | None = None
    keys: Mapping[type, RecipeKey] = field(default_factory=dict)


class JobBook(QObject):
    """Submits jobs and keeps the session's states in step with them.

    ``ended`` carries a Running that is over, whether it came to its end or was withdrawn.
    """

    ended = Signal(object)

    def __init__(self, session: Session, worker: Worker, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._worker = worker
        self._jobs: dict[int, Running] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no job is under way."""
        return not self._jobs

    def get(self, number: int) -> Running | None:
        """A job by its number; None where it is none of ours, or over."""
        return self._jobs.get(number)

    def has(self, *kinds: type) -> bool:
        """Whether a job of one of these kinds is under way."""
        return any(isinstance(running.job, kinds) for running in self._jobs.values())

    def submit(
        self,
        job: Job,
        inputs: Inputs | None = None,
        keys: Mapping[type, RecipeKey] | None = None,
    ) -> None:
        """Ask the engine."""
        number = self._worker.submit(job)
        self._jobs[number] = Running(job, inputs, keys or {})
        if type(job) in _STATES:
            self._session.begin(_STATES[type(job)])

    def cancel(self, *kinds: type) -> None:
        """See to it that jobs of these kinds stop; they say so when they do."""
        for number, running in self._jobs.items():
            if isinstance(running.job, kinds):
                self._worker.cancel(number)

    def withdraw(self, *kinds: type, enforced: bool = False) -> None:
        """Forget jobs that something newer takes the place of.

        ``enforced``: an engine that does not let go of them in time is replaced.
        """
        for number, running in tuple(self._jobs.items()):
            if isinstance(running.job, kinds):
                (self._worker.cancel if enforced else self._worker.withdraw)(number)
                self.finish(number)

    def finish(self, number: int) -> None:
        """A job is over."""
        running = self._jobs.pop(number)
        state = _STATES.get(type(running.job))
        if state is not None and not any(
            _STATES.get(type(other.job)) is state for other in self._jobs.values()
        ):
            self._session.end(state)
        self.ended.emit(running)

    def finish_all(self) -> None:
        """No job is under way any more."""
        for number in tuple(self._jobs):
            self.finish(number)
