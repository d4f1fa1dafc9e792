"""Compares the experts of every layer, whenever nothing more important runs."""

from __future__ import annotations

from PySide6.QtCore import QObject

from ace_gui.engine.contract.events import (
    Event,
    Job,
    JobCancelled,
    JobDone,
    JobFailed,
    LayerAnalysed,
)
from ace_gui.engine.contract.jobs import AnalyseJob
from ace_gui.errors import EngineError, NonFiniteError
from ace_gui.gui.control.engine_client import End, EngineClient
from ace_gui.gui.state.activity import ActivityState


class ExpertAnalysis(QObject):
    """Compares the experts after each plan, and goes on after other work took its place.

    However that work ended, the comparison goes on. Itself it begins again:

    - not at once if it was cancelled, but after the next job;
    - once if the engine was lost, because it may have been lost for another reason;
    - not before the next plan if it failed, or lost the engine twice.
    """

    def __init__(self, engine: EngineClient) -> None:
        super().__init__(engine)
        self._session = engine.session
        self._engine = engine
        self._failed: AnalyseJob | None = None
        """The comparison that is not tried again."""
        self._lost: AnalyseJob | None = None
        """The comparison during which the engine was lost once."""
        engine.ended.connect(self._go_on)

    def begin(self) -> None:
        """Compare the experts, unless this is done, running, failed or impossible now."""
        session = self._session
        busy = session.activity.is_running(ActivityState.MERGING, ActivityState.PLANNING)
        plan = session.draft.plan
        if busy or plan is None or not plan.experts or session.layers.is_analysed:
            return
        job = AnalyseJob(recipe=plan.recipe)
        if job == self._failed or any(
            running.job == job for running in self._engine.running(AnalyseJob)
        ):
            return
        self._engine.drop(AnalyseJob)
        self._engine.run(job, self._record, lambda end: self._finish(job, end))

    def drop(self) -> None:
        """Stop comparing."""
        self._engine.drop(AnalyseJob)

    def allow_again(self) -> None:
        """Allow a comparison that has failed, because its models were read again."""
        self._failed = None
        self._lost = None

    def _record(self, event: Event) -> None:
        if isinstance(event, LayerAnalysed):
            self._session.layers.record_statistics(event.statistics)

    def _finish(self, job: AnalyseJob, end: End) -> None:
        if isinstance(end, JobDone):
            self._lost = None
            self._session.finish_analysis()
        if not isinstance(end, JobFailed):
            return
        if isinstance(end.error, EngineError) and job != self._lost:
            self._lost = job
            return
        self._failed = job
        if isinstance(end.error, NonFiniteError):
            self._session.refuse_values(end.error)

    def _go_on(self, job: Job, end: End) -> None:
        if not (isinstance(job, AnalyseJob) and isinstance(end, JobCancelled)):
            self.begin()
