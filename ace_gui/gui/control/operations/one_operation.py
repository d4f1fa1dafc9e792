"""An engine request of which one runs at a time."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.events import Event, Job, JobFailed
from ace_gui.gui.control.engine.engine_client import End, EngineClient, RunningJob


class OneOperation(QObject):
    """Base class that starts one job and keeps its results.

    ``error`` is the last failure. ``changed`` follows the start, each event and the end.
    """

    changed = Signal()

    def __init__(self, engine: EngineClient) -> None:
        super().__init__(engine)
        self._session, self._engine = engine.session, engine
        self._operation: RunningJob | None = None
        self.error = ""

    @property
    def is_running(self) -> bool:
        """Whether a job is under way."""
        return self._operation is not None

    def stop(self) -> None:
        """Stop at the next step and keep the results so far."""
        if self._operation is not None:
            self._operation.cancel()

    def take(self, event: Event) -> None:
        """Keep the content of an event."""
        raise NotImplementedError

    def end(self) -> None:
        """The job has ended in any way."""

    def _begin(self, job: Job, *, quiet: bool = False) -> None:
        """Start the job. ``quiet``: the view that shows ``error`` reports a failure."""
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
        if isinstance(end, JobFailed):
            self.error = end.error.sentence
        self.end()
        self.changed.emit()
