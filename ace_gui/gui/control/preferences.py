"""What the person prefers: remembered, and applied at once, whoever it is said to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.jobs import ConfigureJob
from ace_gui.gui.control.engine.engine_client import EngineClient
from ace_gui.gui.control.merge_stores import MergeStores
from ace_gui.gui.control.operations.run_operations import RunOperations
from ace_gui.gui.state.session import Session
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.theme import Scheme, set_scheme
from ace_gui.paths import use_scratch

FONT_SCALES: Final = (100, 110, 125, 150, 175, 200)
"""Sizes of letters, percent of the system's."""


class Preferences(QObject):
    """The one place that changes a preference. ``changed`` follows each; ``enlarged`` carries the
    percentage that the letters of the window should have.

    An engine that starts computes as it likes; it is told otherwise as soon as it is up.
    """

    changed = Signal()
    enlarged = Signal(int)

    def __init__(
        self,
        settings: Settings,
        session: Session,
        engine: EngineClient,
        stores: MergeStores,
        runs: RunOperations,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.settings = settings
        self._session, self._engine = session, engine
        self._stores, self._runs = stores, runs
        session.choose_device(settings.device)
        session.limit_memory(settings.memory_bytes)
        session.engine_changed.connect(self._tell_new_engine)

    @property
    def most_memory(self) -> int:
        """Bytes of the machine; 0 before the engine has said so."""
        return self._session.engine.memory_bytes if self._session.engine is not None else 0

    @property
    def most_threads(self) -> int:
        """Processors of the machine, as far as is known."""
        return max(os.cpu_count() or 1, self.settings.threads or 0)

    def devices(self) -> list[tuple[str, str]]:
        """Name and title of every device there is."""
        engine = self._session.engine
        return [(device.name, device.title) for device in engine.devices] if engine else []

    def choose_device(self, name: str) -> None:
        """Where to compute."""
        self.settings.device = name
        self._session.choose_device(name)
        self.changed.emit()

    def limit_memory(self, memory_bytes: int | None) -> None:
        """What a merge may use; None: what is free."""
        self.settings.memory_bytes = memory_bytes
        self._session.limit_memory(memory_bytes)
        self.changed.emit()

    def use_threads(self, threads: int | None) -> None:
        """Processors that the engine uses; None: as it chooses."""
        self.settings.threads = threads
        self._configure()
        self.changed.emit()

    def use_scratch(self, folder: Path | None) -> None:
        """Where merges wait for their export; None: in the cache. Those that are kept stay."""
        self.settings.scratch = folder
        use_scratch(folder)
        self._stores.look_in(self.settings.merge_folders)
        self._runs.list_all()
        self._configure()
        self.changed.emit()

    def choose_scheme(self, scheme: Scheme) -> None:
        """Light, dark, or as the system."""
        self.settings.scheme = scheme
        set_scheme(scheme)
        self.changed.emit()

    def enlarge(self, percent: int) -> None:
        """The size of all letters, by the system's."""
        self.settings.font_scale = percent
        self.enlarged.emit(percent)
        self.changed.emit()

    def export_to(self, folder: Path | None) -> None:
        """Where exports are proposed; None: where the last one went."""
        self.settings.export_folder = folder
        self.changed.emit()

    def keep_runs(self, days: int) -> None:
        """For how long finished merges are kept, from the next start on; 0: until deleted."""
        self.settings.days_kept = days
        self.changed.emit()

    def notify(self, on: bool) -> None:
        """Whether the desktop tells of the end of long work."""
        self.settings.notifies = on
        self.changed.emit()

    def _tell_new_engine(self) -> None:
        """Only where it computes otherwise than wanted, so that its answer is the last word."""
        engine, settings = self._session.engine, self.settings
        wanted = settings.threads or (engine.threads if engine is not None else 0)
        if engine is not None and (engine.threads, engine.scratch) != (wanted, settings.scratch):
            self._configure()

    def _configure(self) -> None:
        settings = self.settings
        job = ConfigureJob(threads=settings.threads, scratch=settings.scratch)
        self._engine.run(job, quiet=True)
