"""Which experts a merge with a router takes, as the engine says it."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.events import EvaluationProgress, Event, JobFailed
from ace_gui.engine.contract.jobs import RoutesJob
from ace_gui.engine.contract.routes import RoutesFound, TaskRoutes
from ace_gui.gui.control.engine_client import End, EngineClient, EngineLost, Operation
from ace_gui.gui.state.activity import Progress, State
from ace_gui.gui.state.session import Session
from ace_gui.gui.told import told
from ace_gui.gui.words import tr


class RoutingOperation(QObject):
    """``routes``: of the store that was looked at last, None before. ``changed`` follows more."""

    changed = Signal()

    def __init__(
        self, session: Session, engine: EngineClient, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._session, self._engine = session, engine
        self._operation: Operation | None = None
        self.store: Path | None = None
        self.routes: tuple[TaskRoutes, ...] | None = None
        self.error = ""

    @property
    def is_running(self) -> bool:
        """Whether a merge is being looked at."""
        return self._operation is not None

    @property
    def obstacle(self) -> str:
        """Why nothing can be looked at; empty if nothing is in the way."""
        if not self._session.draft.inputs.tasks:
            return tr("Add a task first.")
        return "" if self._session.results.runs.all else tr("Merge first.")

    def start(self, store: Path, limit: int | None) -> None:
        """Have a finished merge answer the tasks; what was known is forgotten."""
        if self.obstacle or self.is_running:
            return
        self.store, self.routes, self.error = store, None, ""
        job = RoutesJob(
            recipe=self._session.draft.inputs.recipe(),
            store=store,
            limit=limit,
            device=self._session.device,
        )
        self._operation = self._engine.run(job, self._hear, self._end, quiet=True)
        self.changed.emit()

    def stop(self) -> None:
        """Look no further."""
        if self._operation is not None:
            self._operation.cancel()

    def _hear(self, event: Event) -> None:
        match event:
            case EvaluationProgress(done=done, total=total, task=task):
                title = tr("looking at the routes of {task}", task=task)
                progress = Progress(state=State.SCORING, done=done, total=total, title=title)
                self._session.activity.set_progress(progress)
            case RoutesFound(routes=routes):
                self.routes = routes
        self.changed.emit()

    def _end(self, end: End) -> None:
        self._operation = None
        if isinstance(end, JobFailed | EngineLost):
            self.error = told(end.error.sentence)
        self.changed.emit()
