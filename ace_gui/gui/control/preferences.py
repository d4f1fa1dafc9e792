"""The user's preferences: stored and applied at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.jobs import ConfigureJob
from ace_gui.gui.control.engine.engine_client import EngineClient
from ace_gui.gui.control.operations.run_operations import RunOperations
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.theme import set_scheme
from ace_gui.paths import use_scratch

FONT_SCALES: Final = (100, 110, 125, 150, 175, 200)
"""Font sizes, in percent of the system's."""


class Preferences(QObject):
    """All changes of preferences. ``changed`` follows each; ``enlarged`` carries the font size of
    the window in percent.

    A new engine starts with its defaults and receives the preferences as soon as it runs.
    """

    changed = Signal()
    enlarged = Signal(int)

    def __init__(self, settings: Settings, engine: EngineClient, runs: RunOperations) -> None:
        super().__init__(engine)
        self.settings = settings
        self._session, self._engine, self._runs = engine.session, engine, runs
        session = engine.session
        session.choose_device(settings.device)
        session.limit_memory(settings.memory_bytes)
        session.engine_changed.connect(self._configure_new_engine)
        self.choose_device = self._setter("device", session.choose_device)
        self.limit_memory = self._setter("memory_bytes", session.limit_memory)
        self.use_threads = self._setter("threads", lambda _: self._configure())
        self.choose_scheme = self._setter("scheme", set_scheme)
        self.enlarge = self._setter("font_scale", self.enlarged.emit)

    def _setter(self, name: str, apply: Callable[[Any], object]) -> Callable[[Any], None]:
        """A function that stores a setting and applies it; see ``Settings`` for its values."""

        def use(value: Any) -> None:
            setattr(self.settings, name, value)
            apply(value)
            self.changed.emit()

        return use

    @property
    def most_memory(self) -> int:
        """Bytes of the machine's memory; 0 until the engine has reported it."""
        return self._session.engine.memory_bytes if self._session.engine is not None else 0

    @property
    def most_threads(self) -> int:
        """Processors of the machine, as far as known."""
        return max(os.cpu_count() or 1, self.settings.threads or 0)

    def devices(self) -> list[tuple[str, str]]:
        engine = self._session.engine
        return [(device.name, device.title) for device in engine.devices] if engine else []

    def use_scratch(self, folder: Path | None) -> None:
        """Set where merges are stored until export; None: the cache. Kept merges stay where they
        are."""
        self.settings.use_scratch(folder)
        use_scratch(folder)
        self._runs.stores.look_in(self.settings.merge_folders)
        self._runs.list_all()
        self._configure()
        self.changed.emit()

    def _configure_new_engine(self) -> None:
        """Send only what differs from its defaults, so that its answer is final."""
        engine, settings = self._session.engine, self.settings
        wanted = settings.threads or (engine.threads if engine is not None else 0)
        if engine is not None and (engine.threads, engine.scratch) != (wanted, settings.scratch):
            self._configure()

    def _configure(self) -> None:
        settings = self.settings
        job = ConfigureJob(threads=settings.threads, scratch=settings.scratch)
        self._engine.run(job, quiet=True)
