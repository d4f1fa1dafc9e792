"""The window's merge: start or continue it, follow it, keep it for comparisons."""

from __future__ import annotations

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
from ace_gui.errors import ResumeError
from ace_gui.gui.control.engine.engine_client import End, EngineClient
from ace_gui.gui.control.merge_stores import MergeStores
from ace_gui.gui.control.operations.run_operations import RunOperations
from ace_gui.gui.control.time_left import Pace, StepPace
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.session import Session


class MergeOperation:
    """Merges the current inputs, one merge at a time."""

    def __init__(
        self, session: Session, engine: EngineClient, stores: MergeStores, runs: RunOperations
    ) -> None:
        self._session = session
        self._engine = engine
        self._stores = stores
        self._runs = runs
        self._pace, self._steps = Pace(), StepPace()

    @property
    def can_continue(self) -> bool:
        """Whether an unfinished merge would be continued."""
        inputs = self._session.draft.inputs
        if self._session.can_resume or inputs.base is None:
            return self._session.can_resume
        return self._stores.has(inputs.recipe())

    def start(self) -> None:
        """Merge what is loaded, continuing an interrupted merge."""
        session = self._session
        if not session.can_merge:
            return
        for analysis in self._engine.running(AnalyseJob):
            analysis.drop()
        run = session.results.merge
        if run is None or not session.can_resume:
            run = self._new()
        self._pace, self._steps = Pace(), StepPace()
        session.results.learning.clear()
        job = MergeJob(
            recipe=run.recipe,
            store=run.store,
            device=session.device,
            cluster=session.cluster,
            resume=run.store.exists(),  # this window's, or one left by an earlier window
            memory_bytes=session.memory_bytes,
        )
        self._engine.run(job, self._hear, self._end)
        session.results.start_merge(run)

    def _new(self) -> MergeRun:
        """A new merge run. Earlier ones stay, an interrupted one for a week."""
        session = self._session
        recipe = session.draft.inputs.recipe()
        parameters = session.draft.resolved_parameters()
        return MergeRun(recipe=recipe, store=self._stores.new(recipe), parameters=parameters)

    def _hear(self, event: Event) -> None:
        match event:
            case TensorFinished():
                self._session.record_report(event.report)
                self._pace.finish(event.report.name)
                self._session.activity.complete(seconds_left=self._pace.seconds_left())
            case MergeStarted():
                self._take_over(event)
                done = {report.name for report in event.reports}
                self._pace.start((row for row in self._session.layers.rows if row.in_base), done)
            case LearningProgress():
                self._session.results.learning.take(event)
                left = self._steps.seconds_left(event.done, event.total)
                self._session.activity.complete(seconds_left=left)
            case MergeFinished():
                self._session.results.finish_merge(event)
                if self._session.results.merge is not None:
                    self._runs.add(self._session.results.merge)
                if event.notes:
                    self._session.advice.emit(" ".join(event.notes))

    def _take_over(self, begun: MergeStarted) -> None:
        """Take over what an earlier run finished, and show it."""
        if self._session.results.merge is not None:
            self._session.results.merge.bytes = begun.bytes_total
        for report in begun.reports:
            self._session.record_report(report)

    def _end(self, end: End) -> None:
        session = self._session
        session.layers.learnt.emit("")
        if isinstance(end, JobFailed) and isinstance(end.error, ResumeError):
            self._give_up()
        elif isinstance(end, JobCancelled):
            session.advice.emit(
                "Merge cancelled. Finished tensors are kept, so Merge continues from there."
            )

    def _give_up(self) -> None:
        """Discard an interrupted merge that cannot be continued."""
        run = self._session.results.merge
        if run is not None:
            self._stores.discard(run.store)
            self._session.results.start_merge(None)
