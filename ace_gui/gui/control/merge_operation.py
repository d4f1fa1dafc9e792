"""The window's merge: begun or continued, followed, and kept for comparing."""

from __future__ import annotations

from ace_gui.engine.contract.events import (
    Event,
    JobCancelled,
    JobFailed,
    MergeFinished,
    MergeStarted,
    PassProgress,
    TensorFinished,
)
from ace_gui.engine.contract.jobs import AnalyseJob, MergeJob
from ace_gui.errors import ResumeError
from ace_gui.gui.control.engine_client import End, EngineClient
from ace_gui.gui.control.merge_stores import MergeStores
from ace_gui.gui.control.time_left import Pace
from ace_gui.gui.state.activity import MergeRun, Progress, State
from ace_gui.gui.state.session import Session


class MergeOperation:
    """Merges what is chosen, one merge at a time, and looks after the stores of merges."""

    def __init__(self, session: Session, engine: EngineClient, stores: MergeStores) -> None:
        self._session = session
        self._engine = engine
        self._stores = stores
        self._pace = Pace()

    @property
    def can_continue(self) -> bool:
        """Whether a merge would go on with one that this window or an earlier one began."""
        inputs = self._session.draft.inputs
        if self._session.can_resume or inputs.base is None:
            return self._session.can_resume
        return self._stores.has(inputs.recipe())

    def start(self) -> None:
        """Merge what is loaded, from where an interrupted merge of it stopped."""
        session = self._session
        if not session.can_merge:
            return
        for analysis in self._engine.running(AnalyseJob):
            analysis.drop()
        run = session.results.merge
        if run is None or not session.can_resume:
            run = self._new()
        self._pace = Pace()
        job = MergeJob(
            recipe=run.recipe,
            store=run.store,
            device=session.device,
            resume=run.store.exists(),  # this window's, or one that an earlier window left
            memory_bytes=session.memory_bytes,
        )
        self._engine.run(job, self._hear, self._end)
        session.results.start_merge(run)

    def drop(self) -> None:
        """Forget the merge; a finished one stays among the runs."""
        run = self._session.results.merge
        if run is not None:
            if run.finished is None:
                self._stores.discard(run.store)
            self._session.results.start_merge(None)

    def drop_all(self) -> None:
        """Forget every merge, finished or not."""
        self.drop()
        self._session.results.comparison.compare(None, None)
        for run in self._session.results.runs.clear():
            self._stores.discard(run.store)

    def _new(self) -> MergeRun:
        """A merge of what is chosen now, in the place of the one before."""
        session = self._session
        self.drop()
        recipe = session.draft.inputs.recipe()
        store = self._stores.new(recipe)
        session.results.runs.forget(store)  # merged once more
        key, parameters = session.draft.recipe_key(), session.draft.resolved_parameters()
        return MergeRun(recipe=recipe, key=key, store=store, parameters=parameters)

    def _hear(self, event: Event) -> None:
        match event:
            case TensorFinished():
                self._session.record_report(event.report)
                left = self._pace.seconds_left(event.bytes_done)
                self._show(event.done, event.total, seconds_left=left)
            case MergeStarted():
                self._pace.start(event.bytes_total)
                self._show(event.done, event.total)
            case PassProgress():
                self._show(event.done, event.total, title=event.title)
            case MergeFinished():
                self._session.results.finish_merge(event)
                self._keep()

    def _show(
        self, done: int, total: int, *, seconds_left: float | None = None, title: str = ""
    ) -> None:
        state = State.MERGING
        self._session.activity.set_progress(
            Progress(state=state, done=done, total=total, seconds_left=seconds_left, title=title)
        )

    def _keep(self) -> None:
        """Keep the finished merge for comparing, in the place of the oldest."""
        run = self._session.results.merge
        if run is not None:
            for old in self._session.results.runs.keep(run):
                self._stores.discard(old.store)

    def _end(self, end: End) -> None:
        session = self._session
        session.layers.learnt.emit("")
        if isinstance(end, JobFailed) and isinstance(end.error, ResumeError):
            self.drop()
        elif isinstance(end, JobCancelled):
            session.advice.emit(
                "Merge cancelled. What is finished is kept: Merge continues from there."
            )
