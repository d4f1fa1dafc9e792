"""Files written from a finished merge: a model folder, a report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.events import (
    Event,
    Exported,
    Reported,
)
from ace_gui.engine.contract.jobs import ExportJob, Job, ReportJob
from ace_gui.gui.control.engine.engine_client import End, EngineClient, RunningJob
from ace_gui.gui.control.operations.run_operations import RunOperations
from ace_gui.gui.state.session import Session


class OutputOperations(QObject):
    """Exports and reports of the session's merge. ``exported`` carries an Exported."""

    exported = Signal(object)

    def __init__(
        self,
        session: Session,
        engine: EngineClient,
        runs: RunOperations,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._runs = runs
        self._session = session
        self._engine = engine

    def export(self, folder: Path, dtype: str | None, shard: int, *, heads: bool = False) -> None:
        """Write the finished merge in shards of at most ``shard`` bytes, with heads on request."""
        run = self._session.results.merge
        if run is not None and self._session.can_export:
            job = ExportJob(
                store=run.store,
                folder=folder,
                dtype=dtype,
                shard_bytes=shard,
                complete_heads=heads,
            )
            self._engine.run(job, self._hear)

    def export_adapter(
        self, folder: Path, dtype: str | None, *, rank: int | None, energy: float | None
    ) -> None:
        """Write the finished merge's change as an adapter of this rank, or share of energy."""
        run = self._session.results.merge
        if run is not None and self._session.can_export:
            job = ExportJob(store=run.store, folder=folder, dtype=dtype, rank=rank, energy=energy)
            self._engine.run(job, self._hear)

    def run_quietly(
        self, job: Job, on_event: Callable[[Event], object], on_end: Callable[[End], object]
    ) -> RunningJob:
        """Run a job whose errors the caller shows."""
        return self._engine.run(job, on_event, on_end, quiet=True)

    def report(self, file: Path) -> None:
        """Write an HTML report of the finished merge."""
        run = self._session.results.merge
        if run is not None and self._session.can_report:
            job = ReportJob(store=run.store, file=file, device=self._session.device)
            self._engine.run(job, self._hear)

    def cancel_export(self) -> None:
        """Stop the export."""
        for operation in self._engine.running(ExportJob):
            operation.cancel()

    def _hear(self, event: Event) -> None:
        session = self._session
        match event:
            case Exported():
                if session.results.merge is not None:
                    session.results.merge.exported = True
                    self._runs.note(session.results.merge)
                self.exported.emit(event)
            case Reported(file=file):
                session.written.emit(f"The report is in {file}.", file)
