"""What is open, written beside the settings again and again, so that a crash loses nothing."""

from __future__ import annotations

import uuid
from contextlib import suppress
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Final

from PySide6.QtCore import QLockFile, QObject, QTimer

from ace_gui.errors import WorkbenchError
from ace_gui.gui.control.engine.background import Background
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import ENDING, file_name
from ace_gui.paths import sessions_folder
from ace_gui.recipe import Recipe
from ace_gui.recipe.values import model_name

DELAY: Final = 1500  # ms without a change
_RUNNING: Final = ".running"


class Sessions(QObject):
    """One file a window while it is open; at its end a project without a file gets one here.

    A file of a window that is gone is of one that did not end well: ``crashed``.
    """

    def __init__(
        self, session: Session, folder: Path | None = None, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._session = session
        self._folder = folder or sessions_folder()
        self._file = self._folder / f"{uuid.uuid4().hex}{_RUNNING}{ENDING}"
        self._lock: QLockFile | None = None
        self._written: Recipe | None = None
        self._background = Background()
        self._timer = QTimer(self, singleShot=True, interval=DELAY)
        self._timer.timeout.connect(self.write)
        session.draft.changed.connect(self._follow)

    @property
    def crashed(self) -> Path | None:
        """What was open in the latest window that did not end well; None: every one did."""
        found = [
            (file.stat().st_mtime, file)
            for file in self._folder.glob(f"*{_RUNNING}{ENDING}")
            if file != self._file and _is_free(file)
        ]
        return max(found, default=(0.0, None))[1]

    def take_over(self, crashed: Path) -> Path:
        """Give what a window left a lasting name, under which it is opened."""
        kept = crashed.with_name(f"{_told(crashed)}{ENDING}")
        with suppress(OSError):
            crashed.replace(kept)
        return kept if kept.exists() else crashed

    def write(self) -> None:
        """Write what is open now, in the background."""
        self._timer.stop()
        recipe = self._recipe()
        if recipe is None or recipe == self._written:
            return
        self._written = recipe
        if self._lock is None:
            with suppress(OSError):
                self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = _lock_of(self._file)
            self._lock.tryLock(0)
        file = self._file
        self._background.run(lambda: _write(file, recipe))

    def leave(self, *, keep: bool) -> Path | None:
        """What is open is left. ``keep``: it has no file of its own, and gets one; where."""
        self._timer.stop()
        recipe, kept = self._recipe(), None
        if keep and recipe is not None:
            kept = target = self._place_of(recipe)
            with suppress(OSError):
                self._folder.mkdir(parents=True, exist_ok=True)
            self._background.run(lambda: _write(target, recipe))
        self._background.wait()
        with suppress(OSError):
            self._file.unlink(missing_ok=True)
        self._written = None
        if self._lock is not None:
            self._lock.unlock()
            self._lock = None
        return kept

    def _place_of(self, recipe: Recipe) -> Path:
        """A file named by the models; other models of the same names keep theirs."""
        name, models = project_name(recipe), _models(recipe)
        names = (f"{name} {number}" if number > 1 else name for number in count(1))
        files = (self._folder / f"{name}{ENDING}" for name in names)
        there = ((file, _read(file)) for file in files)
        return next(file for file, known in there if known is None or _models(known) == models)

    def _recipe(self) -> Recipe | None:
        inputs = self._session.draft.planned
        return inputs.recipe() if inputs.base is not None and inputs.experts else None

    def _follow(self) -> None:
        if self._recipe() not in (None, self._written):
            self._timer.start()


def project_name(recipe: Recipe) -> str:
    """``roberta-base with cola, sst2``, as a file can be called."""
    return file_name(f"{model_name(recipe.base_model)} with {', '.join(recipe.expert_names)}")


def _told(crashed: Path) -> str:
    """``base with cola, sst2, recovered 2026-03-01 14.05``: of which models, and from when."""
    recipe, at = _read(crashed), datetime.fromtimestamp(crashed.stat().st_mtime)
    name = project_name(recipe) if recipe is not None else "project"  # opening it says why
    return f"{name}, recovered {at:%Y-%m-%d %H.%M}"


def _models(recipe: Recipe) -> list[Path]:
    return [recipe.base_model, *(entry.model for entry in recipe.models)]


def _read(file: Path) -> Recipe | None:
    from ace_gui.recipe.recipe_file import load_recipe  # YAML takes a moment to import

    try:
        return load_recipe(file) if file.exists() else None
    except WorkbenchError:
        return None


def _write(file: Path, recipe: Recipe) -> None:
    from ace_gui.recipe.recipe_file import dump_recipe  # YAML takes a moment to import

    with suppress(OSError):  # nothing can be kept there: the window goes on without
        fresh = file.with_name(f"{file.name}.new")
        fresh.write_text(dump_recipe(recipe, file.parent), encoding="utf-8")
        fresh.replace(file)


def _lock_of(file: Path) -> QLockFile:
    lock = QLockFile(f"{file}.lock")
    lock.setStaleLockTime(0)
    return lock


def _is_free(file: Path) -> bool:
    lock = _lock_of(file)
    free = lock.tryLock(0)
    if free:
        lock.unlock()
    return free
