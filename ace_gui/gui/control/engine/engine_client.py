"""The window's only connection to the engine: it submits jobs and dispatches their events."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from PySide6.QtCore import QObject, QTimer, Signal

from ace_gui.engine.contract.events import (
    EngineReady,
    Event,
    JobCancelled,
    JobDone,
    JobFailed,
    JobProgress,
)
from ace_gui.engine.contract.jobs import Job, MergeJob
from ace_gui.errors import EngineError
from ace_gui.formatting import counted, duration
from ace_gui.gui.control.engine.engine_thread import EngineThread
from ace_gui.gui.state.activity import State
from ace_gui.gui.state.log import Level, Source
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import error_details

_GOES_ON: Final = {
    True: "Merge again to resume from the last finished tensor.",
    False: "It was restarted, and finished work is kept.",
}
"""Advice to the user after the engine was lost, by whether it was merging."""


End = JobDone | JobFailed | JobCancelled


def _ignore(_: Event | End) -> None:
    pass


@dataclass(frozen=True)
class RunningJob:
    """A running job. ``on_event`` receives its events, ``on_end`` its result."""

    _client: EngineClient
    _number: int
    job: Job
    on_event: Callable[[Event], object]
    on_end: Callable[[End], object]
    quiet: bool
    began: float = field(default_factory=time.monotonic)

    @property
    def title(self) -> str:
        """Its name in the log."""
        return job_title(type(self.job))

    @property
    def state(self) -> State | None:
        """What the window shows while it runs; None for a quick job."""
        return State[self.job.state.upper()] if self.job.state else None

    def cancel(self) -> None:
        """Stop the job. ``on_end`` is called when it has stopped."""
        self._client.cancel(self._number)

    def drop(self, *, enforced: bool = False) -> None:
        """Ask the job to stop, and ignore all its further events, including its end.

        ``enforced``: replace an engine that does not stop the job in time.
        """
        self._client.drop(self._number, enforced=enforced)


def job_title(kind: type[Job]) -> str:
    """The title of a kind of job: ``Load recipe``."""
    words = re.findall("[A-Z][a-z]+", kind.__name__.removesuffix("Job"))
    return " ".join(words).capitalize()


class EngineClient(QObject):
    """Runs jobs and keeps the session's activity in step with them, in the GUI thread.

    A lost engine ends every job with JobFailed and is reported once. ``ended`` carries a job that
    is done or cancelled. ``idle`` follows when no job is running and no delayed action is due.
    """

    ended = Signal(object)
    idle = Signal()

    def __init__(
        self, session: Session, worker: EngineThread, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._session = session
        self._worker = worker
        self._running: dict[int, RunningJob] = {}
        self._timers: list[QTimer] = []
        worker.reported.connect(self._receive)
        worker.engine_lost.connect(self._fail_all)

    def run(
        self,
        job: Job,
        on_event: Callable[[Event], object] = _ignore,
        on_end: Callable[[End], object] = _ignore,
        *,
        quiet: bool = False,
    ) -> RunningJob:
        """Run a job. The session reports an error unless ``quiet``."""
        number = self._worker.submit(job)
        self._running[number] = entry = RunningJob(self, number, job, on_event, on_end, quiet)
        self._session.log.add(Level.DETAIL, Source.ENGINE, f"{entry.title}: begun.")
        if entry.state is not None:
            self._session.activity.begin(entry.state)
        return entry

    def running(self, *kinds: type) -> list[RunningJob]:
        """The running jobs that are of these kinds."""
        return [known for known in self._running.values() if isinstance(known.job, kinds)]

    def delayed(self, milliseconds: int, action: Callable[[], object]) -> QTimer:
        """A timer that acts after this many ms without a restart."""
        timer = QTimer(self, singleShot=True, interval=milliseconds)
        timer.timeout.connect(action)
        timer.timeout.connect(self._check_idle)
        self._timers.append(timer)
        return timer

    @property
    def is_busy(self) -> bool:
        """Whether a job is running or about to run."""
        return bool(self._running) or any(timer.isActive() for timer in self._timers)

    def cancel(self, number: int) -> None:
        """Stop a job."""
        if number in self._running:
            self._worker.cancel(number)

    def drop(self, number: int, *, enforced: bool = False) -> None:
        """Stop a job when it can, and ignore it from now on."""
        if number in self._running:
            (self._worker.cancel if enforced else self._worker.withdraw)(number)
            self._forget(number)

    def _forget(self, number: int) -> RunningJob:
        entry = self._running.pop(number)
        others = {other.state for other in self._running.values()}
        if entry.state is not None and entry.state not in others:
            self._session.activity.end(entry.state)
        return entry

    def _receive(self, number: int, event: Event) -> None:
        if isinstance(event, EngineReady):
            devices = ", ".join(device.title for device in event.devices)
            threads = counted(event.threads, "thread", "threads")
            text = f"The engine is ready: {devices}, {threads}."
            self._session.log.add(Level.INFO, Source.ENGINE, text)
            self._session.set_engine(event)
        elif number not in self._running:
            pass  # dropped
        elif isinstance(event, JobDone | JobFailed | JobCancelled):
            entry = self._forget(number)
            self._log(entry, event)
            entry.on_end(event)
            if not isinstance(event, JobFailed):
                self.ended.emit(entry.job)
            elif not entry.quiet:
                self._session.fail(event.error)
            self._check_idle()
        else:
            entry = self._running[number]
            if isinstance(event, JobProgress) and entry.state is not None:
                self._session.activity.advance(entry.state, event)
            entry.on_event(event)

    def _log(self, entry: RunningJob, end: End) -> None:
        """Log how a job ended and how long it took, with all details of an error."""
        took = duration(time.monotonic() - entry.began)
        if isinstance(end, JobFailed):
            level = Level.WARNING if entry.quiet else Level.ERROR
            self._session.log.add(
                level, Source.ENGINE, end.error.sentence, error_details(end.error)
            )
            return
        level = Level.INFO if entry.state is not None else Level.DETAIL
        ended = "cancelled" if isinstance(end, JobCancelled) else "done"
        self._session.log.add(level, Source.ENGINE, f"{entry.title}: {ended} after {took}.")

    def _fail_all(self, error: EngineError) -> None:
        merging = bool(self.running(MergeJob))
        for number in tuple(self._running):
            self._forget(number).on_end(JobFailed(error=error))
        self._session.fail(
            EngineError(f"{error.sentence} {_GOES_ON[merging]}", details=error.details)
        )
        self._check_idle()

    def _check_idle(self) -> None:
        if not self.is_busy:
            self.idle.emit()
