"""Files written from a finished merge: a model folder, a report."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.events import Event, Exported, Reported
from ace_gui.engine.contract.jobs import ExportJob, ReportJob
from ace_gui.gui.control.engine.engine_client import EngineClient
from ace_gui.gui.control.operations.run_operations import RunOperations


class OutputOperations(QObject):
    """Exports and reports of the session's merge. ``exported`` carries an Exported."""

    exported = Signal(object)

    def __init__(self, engine: EngineClient, runs: RunOperations) -> None:
        super().__init__(engine)
        self._session, self.engine, self._runs = engine.session, engine, runs

    def export(
        self,
        folder: Path,
        dtype: str | None,
        shard_bytes: int = ExportJob.shard_bytes,
        *,
        complete_heads: bool = False,
        rank: int | None = None,
        energy: float | None = None,
    ) -> None:
        """Write the finished merge, or with a rank or a share of energy its change as an
        adapter."""
        run = self._session.results.merge
        if run is not None and self._session.can_export:
            job = ExportJob(
                store=run.store,
                folder=folder,
                dtype=dtype,
                shard_bytes=shard_bytes,
                complete_heads=complete_heads,
                rank=rank,
                energy=energy,
            )
            self.engine.run(job, self._hear)

    def report(self, file: Path) -> None:
        """Write an HTML report of the finished merge."""
        run = self._session.results.merge
        if run is not None and self._session.can_report:
            job = ReportJob(store=run.store, file=file, device=self._session.device)
            self.engine.run(job, self._hear)

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
