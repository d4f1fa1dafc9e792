"""What the window asks of the engine one at a time: begun, heard, stopped."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.events import Event, JobFailed
from ace_gui.engine.contract.jobs import Job
from ace_gui.gui.control.engine.engine_client import End, EngineClient, EngineLost, Operation
from ace_gui.gui.state.session import Session


class OneOperation(QObject):
    """A subclass begins a job and keeps what it hears; ``error``: why the last one failed.

    ``changed`` follows the beginning, each event and the end.
    """

    changed = Signal()

    def __init__(
        self, session: Session, engine: EngineClient, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._session, self._engine = session, engine
        self._operation: Operation | None = None
        self.error = ""

    @property
    def is_running(self) -> bool:
        """Whether a job is under way."""
        return self._operation is not None

    def stop(self) -> None:
        """Stop at the next step; what is known stays."""
        if self._operation is not None:
            self._operation.cancel()

    def take(self, event: Event) -> None:
        """Keep what an event says."""
        raise NotImplementedError

    def end(self) -> None:
        """The job has ended, one way or another."""

    def _begin(self, job: Job, *, quiet: bool = False) -> None:
        """Ask the engine. ``quiet``: whoever shows ``error`` tells of a failure."""
        if self._operation is not None:
            self._operation.drop()
        self.error = ""
        self._operation = self._engine.run(job, self._hear, self._end, quiet=quiet)
        self.changed.emit()

    def _hear(self, event: Event) -> None:
        self.take(event)
        self.changed.emit()

    def _end(self, end: End) -> None:
        self._operation = None
        if isinstance(end, JobFailed | EngineLost):
            self.error = end.error.sentence
        self.end()
        self.changed.emit()
