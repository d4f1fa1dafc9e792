"""The window's merge: start or continue it, follow it, keep it for comparisons."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import prod
from typing import Final

from ace_gui.engine.contract.events import (
    Event,
    JobCancelled,
    JobFailed,
    LearningProgress,
    MergeFinished,
    MergeStarted,
    TensorFinished,
)
from ace_gui.engine.contract.jobs import AnalyseJob, MergeJob
from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.errors import ResumeError
from ace_gui.gui.control.engine.engine_client import End, EngineClient
from ace_gui.gui.control.operations.run_operations import RunOperations
from ace_gui.gui.state.activity import MergeRun


class MergeOperation:
    """Merges the current inputs, one merge at a time."""

    def __init__(self, engine: EngineClient, runs: RunOperations) -> None:
        self._session, self._engine, self._runs = engine.session, engine, runs
        self._pace, self._steps = Pace(), Pace()
        self._costs: dict[str, float] = {}
        """Of the tensors that this run merges."""
        self._done = 0.0

    @property
    def can_continue(self) -> bool:
        """Whether an unfinished merge would be continued."""
        inputs = self._session.draft.inputs
        if self._session.can_resume or inputs.base is None:
            return self._session.can_resume
        return self._runs.stores.has(inputs.recipe())

    def start(self) -> None:
        """Merge what is loaded, continuing an interrupted merge."""
        session = self._session
        if not session.can_merge:
            return
        self._engine.drop(AnalyseJob)
        run = session.results.merge
        if run is None or not session.can_resume:  # earlier ones stay
            recipe = session.draft.inputs.recipe()
            parameters, store = session.draft.resolved_parameters(), self._runs.stores.new(recipe)
            run = MergeRun(recipe=recipe, store=store, parameters=parameters)
        self._steps = Pace()
        session.results.learning.clear()
        job = MergeJob(
            recipe=run.recipe,
            store=run.store,
            device=session.device,
            cluster=session.cluster,
            resume=run.store.exists(),  # this window's, or one left by an earlier window
            memory_bytes=session.memory_bytes,
        )
        self._engine.run(job, self._receive, self._end)
        session.results.start_merge(run)

    def _receive(self, event: Event) -> None:
        match event:
            case TensorFinished():
                self._session.record_report(event.report)
                self._done += self._costs.get(event.report.name, 0.0)
                self._show_time_left(self._pace, self._done, sum(self._costs.values()))
            case MergeStarted():
                self._take_over(event)
            case LearningProgress():
                self._session.results.learning.take(event)
                self._show_time_left(self._steps, event.done, event.total)
            case MergeFinished():
                self._session.results.finish_merge(event)
                if self._session.results.merge is not None:
                    self._runs.add(self._session.results.merge)
                if event.notes:
                    self._session.advice.emit(" ".join(event.notes))

    def _show_time_left(self, pace: Pace, done: float, total: float) -> None:
        self._session.activity.complete(seconds_left=pace.seconds_left(done, total))

    def _take_over(self, begun: MergeStarted) -> None:
        """Take over what an earlier run finished, and show it."""
        earlier = {report.name for report in begun.reports}
        left = (row for row in self._session.layers.rows if row.in_base)
        self._costs = {row.name: cost(row) for row in left if row.name not in earlier}
        self._done, self._pace = 0.0, Pace()
        self._pace.seconds_left(0.0, 0.0)  # begins now
        if self._session.results.merge is not None:
            self._session.results.merge.bytes = begun.bytes_total
        for report in begun.reports:
            self._session.record_report(report)

    def _end(self, end: End) -> None:
        session, run = self._session, self._session.results.merge
        session.layers.learnt.emit("")
        if isinstance(end, JobFailed) and isinstance(end.error, ResumeError):
            if run is not None:  # it cannot be continued
                self._runs.stores.discard(run.store)
                session.results.start_merge(None)
        elif isinstance(end, JobCancelled):
            session.advice.emit(
                "Merge cancelled. Finished tensors are kept, so Merge continues from there."
            )


QUIET: Final = 3.0
"""Seconds at the start without an estimate, because it would be unreliable."""

_MATRIX: Final = 64
"""Roughly the columns whose products take as long as reading a matrix; the rest grows with size."""

_SMOOTH: Final = 0.3


class Pace:
    """Time left of a sequence of steps. What was done before the first call took no time now."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first: tuple[float, float] | None = None
        self._estimate: float | None = None
        self._estimated_at = 0.0

    def seconds_left(self, done: float, total: float) -> float | None:
        """Seconds left after ``done`` of a cost of ``total``, or None until enough is known. If
        ``done`` decreases, a new sequence has begun."""
        now = self._clock()
        if self._first is None or done < self._first[1]:
            self._first, self._estimate = (now, done), None
        elapsed, steps = now - self._first[0], done - self._first[1]
        if elapsed < QUIET or not steps:
            return None
        estimate = elapsed / steps * (total - done)
        if self._estimate is not None:
            expected = max(0.0, self._estimate - (now - self._estimated_at))
            estimate = expected + _SMOOTH * (estimate - expected)
        self._estimate, self._estimated_at = estimate, now
        return estimate


def cost(row: PlanRow) -> float:
    """Cost of a tensor in entries read: matrix products grow with the matrix's sides."""
    size = float(prod(row.shape))
    if row.disposition is Disposition.MERGED and len(row.shape) == 2:
        return size * (1 + min(row.shape) / _MATRIX)
    return size
