"""The window's only connection to the engine. It submits jobs and passes on their events, which an
operation collects. Small file tasks run in a thread of their own."""

from __future__ import annotations

import re
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import wait
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from PySide6.QtCore import QObject, QThread, QTimer, Signal

from ace_gui.engine.contract.engine_process import COOPERATIVE_SECONDS, EngineProcess
from ace_gui.engine.contract.events import (
    EngineReady,
    Event,
    Job,
    JobCancelled,
    JobDone,
    JobFailed,
    JobProgress,
)
from ace_gui.engine.contract.jobs import ExportJob, LoadRecipeJob, MergeJob, PlanJob
from ace_gui.errors import EngineError
from ace_gui.formatting import counted, duration
from ace_gui.gui.state.activity import ActivityState, Level, LogSource, Progress
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import error_details

End = JobDone | JobFailed | JobCancelled


def _ignore(_: Event | End) -> None:
    pass


@dataclass(frozen=True)
class RunningJob:
    """A running job."""

    _client: EngineClient
    """Where it runs."""
    _number: int
    """Its number among all jobs."""
    job: Job
    """What was asked for."""
    on_event: Callable[[Event], object]
    """Receives its events."""
    on_end: Callable[[End], object]
    """Receives its result."""
    quiet: bool
    """Whether an error is not shown to the person."""
    began: float = field(default_factory=time.monotonic)
    """Its start, by the monotonic clock, in seconds."""

    @property
    def title(self) -> str:
        """The job's name in the log: ``Load recipe``."""
        words = re.findall("[A-Z][a-z]+", type(self.job).__name__.removesuffix("Job"))
        return " ".join(words).capitalize()

    @property
    def state(self) -> ActivityState | None:
        """What the window shows while it runs; None for a quick job."""
        if self.job.state:
            return ActivityState[self.job.state.upper()]
        return None

    def cancel(self) -> None:
        """Stop the job. ``on_end`` is called when it has stopped."""
        self._client.stop(self._number)

    def drop(self, *, enforced: bool = False) -> None:
        """Ask the job to stop, and ignore all its further events, including its end.

        ``enforced``: replace an engine that does not stop the job in time.
        """
        self._client.stop(self._number, enforced=enforced, forgets=True)


class EngineClient(QObject):
    """Runs jobs and keeps the session's activity in step with them, in the GUI thread.

    If the engine is lost, every job ends with JobFailed, and the loss is reported once. ``ended``
    carries a job and how it ended: done, cancelled or failed. ``idle``: no job is running, no
    delayed action is due.
    """

    ended = Signal(object, object)
    idle = Signal()

    def __init__(self, session: Session, worker: EngineThread) -> None:
        super().__init__(session)
        self.session = session
        self._worker = worker
        self._running: dict[int, RunningJob] = {}
        self._timers: list[QTimer] = []
        worker.engine_starting.connect(self._note_starting)
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
        self.session.log.add(Level.DETAIL, LogSource.ENGINE, f"{entry.title}: begun.")
        if entry.state is not None:
            self.session.activity.begin(entry.state)
        return entry

    def running(self, *kinds: type) -> list[RunningJob]:
        """The running jobs of these kinds."""
        return [entry for entry in self._running.values() if isinstance(entry.job, kinds)]

    def delayed(self, milliseconds: int, action: Callable[[], object]) -> QTimer:
        """A timer that calls ``action`` after so many ms; each new start begins the wait again."""
        timer = QTimer(self, singleShot=True, interval=milliseconds)
        timer.timeout.connect(action)
        timer.timeout.connect(self._check_idle)
        self._timers.append(timer)
        return timer

    @property
    def is_busy(self) -> bool:
        """Whether a job is running or about to run."""
        return bool(self._running) or any(timer.isActive() for timer in self._timers)

    def cancel(self, *kinds: type) -> None:
        for entry in self.running(*kinds):
            entry.cancel()

    def drop(self, *kinds: type, enforced: bool = False) -> None:
        """Ask the running jobs of these kinds to stop, and ignore them from now on."""
        for entry in self.running(*kinds):
            entry.drop(enforced=enforced)

    def stop(self, number: int, *, enforced: bool = True, forgets: bool = False) -> None:
        """Stop a job if it is running. ``forgets``: ignore it from now on."""
        if number in self._running:
            self._worker.cancel(number, enforced=enforced)
            if forgets:
                self._forget(number)

    def _forget(self, number: int) -> RunningJob:
        entry = self._running.pop(number)
        states = {entry.state for entry in self._running.values()}
        if entry.state is not None and entry.state not in states:
            self.session.activity.end(entry.state)
        return entry

    def _note_starting(self) -> None:
        self.session.activity.set_engine_starting(True)

    def _receive(self, number: int, event: Event) -> None:
        if isinstance(event, EngineReady):
            devices = ", ".join(device.title for device in event.devices)
            threads = counted(event.threads, "thread", "threads")
            text = f"The engine is ready: {devices}, {threads}."
            self.session.log.add(Level.INFO, LogSource.ENGINE, text)
            self.session.activity.set_engine_starting(False)
            self.session.set_engine(event)
        elif number not in self._running:
            pass  # dropped
        elif isinstance(event, End):
            self._finish(self._forget(number), event)
            self._check_idle()
        else:
            entry = self._running[number]
            if isinstance(event, JobProgress) and entry.state is not None:
                counts = {"done": event.done, "total": event.total}
                progress = Progress(state=entry.state, title=event.title, **counts)
                self.session.activity.set_progress(progress)
            entry.on_event(event)

    def _finish(self, entry: RunningJob, end: End) -> None:
        """Log how a job ended and how long it took, with all details of an error, and report it."""
        log = self.session.log
        if isinstance(end, JobFailed):
            level = Level.WARNING if entry.quiet else Level.ERROR
            log.add(level, LogSource.ENGINE, end.error.sentence, error_details(end.error))
            entry.on_end(end)
            if not entry.quiet:
                self.session.fail(end.error)
            self.ended.emit(entry.job, end)
            return
        level = Level.DETAIL if entry.state is None else Level.INFO
        ended = "cancelled" if isinstance(end, JobCancelled) else "done"
        took = duration(time.monotonic() - entry.began)
        log.add(level, LogSource.ENGINE, f"{entry.title}: {ended} after {took}.")
        entry.on_end(end)
        self.ended.emit(entry.job, end)

    def _fail_all(self, error: EngineError) -> None:
        advice = "It was restarted, and finished work is kept."
        if self.running(MergeJob):
            advice = "Merge again to resume from the last finished tensor."
        lost = list(self._running.values())
        end = JobFailed(error=error)
        for number in tuple(self._running):
            self._forget(number).on_end(end)
        self.session.fail(EngineError(f"{error.sentence} {advice}", details=error.details))
        for entry in lost:
            self.ended.emit(entry.job, end)
        self._check_idle()

    def _check_idle(self) -> None:
        if not self.is_busy:
            self.idle.emit()


_E = TypeVar("_E")


class Operation(QObject):
    """Runs one job at a time and collects its events.

    ``job``: the latest job, ``error``: its failure. ``changed`` is emitted at the start, at each
    event and at the end.
    """

    changed = Signal()

    def __init__(self, engine: EngineClient) -> None:
        super().__init__(engine)
        self._session = engine.session
        self._engine = engine
        self._running: RunningJob | None = None
        self._events: list[Event] = []
        self.job: Any = None
        self.error = ""

    @property
    def is_running(self) -> bool:
        return self._running is not None

    def all(self, kind: type[_E]) -> tuple[_E, ...]:
        """The job's events of this kind so far."""
        return tuple(event for event in self._events if isinstance(event, kind))

    def last(self, kind: type[_E]) -> _E | None:
        """The latest event of this kind, if there is one."""
        return next((e for e in reversed(self._events) if isinstance(e, kind)), None)

    def progress(self, kind: type[_E]) -> _E | None:
        """The latest event of this kind while the job runs."""
        if self.is_running:
            return self.last(kind)
        return None

    def stop(self) -> None:
        """Stop at the next step and keep the results so far."""
        if self._running is not None:
            self._running.cancel()

    def drop(self) -> None:
        """Stop, and ignore all further events."""
        if self._running is not None:
            self._running.drop()
            self._running = None
            self.changed.emit()

    def take(self, event: Event) -> None:
        """Handle an event of the job, which is already collected."""

    def end(self) -> None:
        """Handle the end of the job, however it ended."""

    def run(self, job: Job, *, quiet: bool = True) -> None:
        """Run the job, and drop the results of an earlier one. ``quiet``: the session does not
        report a failure, because the view shows ``error``."""
        if self._running is not None:
            self._running.drop()
        self.job = job
        self.error = ""
        self._events = []

        def receive(event: Event) -> None:
            self._events.append(event)
            self.take(event)
            self.changed.emit()

        def finish(end: End) -> None:
            self._running = None
            self.error = end.error.sentence if isinstance(end, JobFailed) else ""
            self.end()
            self.changed.emit()

        self._running = self._engine.run(job, receive, finish, quiet=quiet)
        self.changed.emit()


TERMINATE_SECONDS: Final = 2.0
"""Time for a terminated engine to end before it is killed."""

BATCH: Final = 100
"""Number of events that are forwarded before requests are checked again."""


class EngineThread(QThread):
    """Owns one engine process at a time and forwards its events as signals.

    ``reported`` carries a job's number (0 for the engine itself) and its event. ``engine_starting``
    is emitted whenever an engine is started; its EngineReady follows. ``engine_lost``
    carries an EngineError; the running jobs are gone, and a new engine is started. Every submitted
    job ends with JobDone, JobFailed, JobCancelled or ``engine_lost``. ``first``: an engine that is
    started already.
    """

    reported = Signal(int, object)
    engine_starting = Signal()
    engine_lost = Signal(object)

    def __init__(
        self,
        parent: QObject | None = None,
        *,
        first: EngineProcess | None = None,
        start_engine: Callable[[], EngineProcess] = EngineProcess,
        patience: float = COOPERATIVE_SECONDS,
    ) -> None:
        super().__init__(parent)
        self._start_engine = start_engine
        self._patience = patience
        self._requests: SimpleQueue[Callable[[], None]] = SimpleQueue()  # the thread runs these
        self._wake, self._waker = Pipe(duplex=False)
        self._waker_lock = threading.Lock()
        self._awake = False
        self._next = 1
        self._stopping = False
        # Only the thread itself uses what follows.
        self._engine: EngineProcess | None = None
        self._first = first
        self._ready = False
        self._jobs: dict[int, Job] = {}
        self._deadlines: dict[int, float] = {}  # of cancelled jobs
        self._unwanted: set[int] = set()  # jobs that were asked to stop
        self._terminated = False

    def submit(self, job: Job) -> int:
        """Queue a job, possibly before the engine runs. Its events carry the returned number."""
        number = self._next
        self._next += 1
        self._request(lambda: self._pass_job(number, job))
        return number

    def cancel(self, number: int, *, enforced: bool = True) -> None:
        """Ask a job to stop. ``enforced``: end the process if the job does not stop in time."""
        self._request(lambda: self._ask_to_stop(number, enforced=enforced))

    def _request(self, request: Callable[[], None]) -> None:
        self._requests.put(request)
        self._notify()

    def stop(self) -> None:
        """Stop the thread and its process. Returns at once; ``finished`` follows."""
        self._stopping = True
        self._notify()

    @property
    def engine_pid(self) -> int | None:
        engine = self._engine
        return engine.pid if engine is not None else None

    def run(self) -> None:
        """Start an engine, and forward requests and events until the thread is stopped."""
        self._open()
        while not self._stopping:
            try:
                self._wait()
                with suppress(Empty):
                    while True:
                        self._requests.get_nowait()()
                self._pass_events()
                self._enforce()
            except EngineError as error:
                self._lose(error)
            except Exception as error:  # without its thread the window would hang
                sentence = f"The engine sent an invalid message: {type(error).__name__}: {error}."
                self._lose(EngineError(sentence, details=traceback.format_exc()))
        self._close()

    def _notify(self) -> None:
        with self._waker_lock:
            if not self._awake:
                self._awake = True
                self._waker.send_bytes(b"!")

    def _wait(self) -> None:
        """Wait for a request, an event, or the deadline of a cancelled job."""
        deadline = min(self._deadlines.values(), default=None)
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        sources = [self._wake] if self._engine is None else [self._wake, self._engine.pipe]
        if self._wake in wait(sources, timeout):
            with self._waker_lock:
                self._wake.recv_bytes()
                self._awake = False

    def _pass_job(self, number: int, job: Job) -> None:
        if self._engine is None:
            self._open()
        if self._engine is not None:
            self._engine.submit(number, job)
            self._jobs[number] = job

    def _ask_to_stop(self, number: int, *, enforced: bool) -> None:
        if number not in self._jobs or self._engine is None:
            return
        self._unwanted.add(number)
        self._engine.cancel(number)
        # An engine that is still importing cannot react yet. Its deadline starts when it can.
        if enforced and self._ready:
            self._deadlines[number] = time.monotonic() + self._patience

    def _pass_events(self) -> None:
        for _ in range(BATCH):
            if self._engine is None or (received := self._engine.receive(0.0)) is None:
                break
            number, event = received
            self._ready |= isinstance(event, EngineReady)
            if isinstance(event, End):
                self._jobs.pop(number, None)
                self._deadlines.pop(number, None)
            self.reported.emit(number, event)

    def _enforce(self) -> None:
        """End the engine if a cancelled job has not stopped in time."""
        overdue = [job for job, deadline in self._deadlines.items() if deadline <= time.monotonic()]
        if self._engine is None or not overdue:
            return
        if self._terminated:
            self._engine.kill()
            self._deadlines.clear()
        else:
            self._engine.terminate()
            self._terminated = True
            self._deadlines = {overdue[0]: time.monotonic() + TERMINATE_SECONDS}

    def _open(self) -> None:
        self._ready = False
        self._terminated = False
        self._deadlines = {}
        self._unwanted = set()
        self.engine_starting.emit()
        first = self._first
        self._first = None
        try:
            self._engine = first or self._start_engine()
        except OSError as error:
            self._engine = None
            self.engine_lost.emit(
                EngineError(
                    "The engine process cannot be started; close other programs and try again.",
                    details=str(error),
                )
            )

    def _lose(self, error: EngineError) -> None:
        """Handle the end of the engine, forced or accidental."""
        engine = self._engine
        jobs = self._jobs
        ready = self._ready
        on_purpose = self._terminated
        unwanted = self._unwanted
        self._engine = None
        self._jobs = {}
        if engine is not None:
            engine.close()
        if not on_purpose:
            self.engine_lost.emit(error)
        if ready:  # an engine that never started would fail to start again
            self._open()
        # The new engine repeats a requested plan; everything else is cancelled.
        for number, job in jobs.items() if on_purpose else ():
            if number not in unwanted and isinstance(job, PlanJob | LoadRecipeJob):
                self._pass_job(number, job)
            else:
                self.reported.emit(number, JobCancelled())

    def _close(self) -> None:
        if self._engine is not None:
            writing = any(isinstance(job, MergeJob | ExportJob) for job in self._jobs.values())
            if not writing:
                self._engine.terminate()
            self._engine.close()
            self._engine = None
        self._wake.close()
        self._waker.close()
