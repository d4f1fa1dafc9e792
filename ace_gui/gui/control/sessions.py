"""The open project, saved regularly next to the settings for recovery after a crash."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Final

from PySide6.QtCore import QLockFile, QObject, QTimer

from ace_gui.errors import WorkbenchError
from ace_gui.gui.control.engine.background import Background
from ace_gui.gui.control.merge_stores import lock_beside
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import ENDING, file_name
from ace_gui.output_files import replacing, there
from ace_gui.paths import sessions_folder
from ace_gui.recipe import Recipe
from ace_gui.recipe.values import hub_name, model_name

DELAY: Final = 1500  # ms without a change
_RUNNING: Final = ".running"
_NAME: Final = re.compile(r"[0-9a-f]{32}")


class Sessions(QObject):
    """One file per open window. When a project without a file is closed, it gets one here.

    A file whose window is gone was left by a crash; ``recover`` finds it once.
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

    def recover(self) -> tuple[Path, ...]:
        """The projects of crashed windows, the latest first.

        Each is renamed to a lasting name, under which it opens, and is not found again.
        """
        files = [file for file in self._folder.glob(f"*{_RUNNING}{ENDING}") if _is_left(file)]
        found = sorted(((file.stat().st_mtime, file) for file in files), reverse=True)
        return tuple(self._keep(crashed) for _, crashed in found)

    def _keep(self, crashed: Path) -> Path:
        """Name it ``glue, recovered 2026-03-01 14.05``."""
        recipe, at = _read(crashed), datetime.fromtimestamp(crashed.stat().st_mtime)
        # Opening one that cannot be read reports the error.
        name = project_name(recipe) if recipe is not None else ""
        files = _free_names(self._folder, name, f", recovered {at:%Y-%m-%d %H.%M}")
        kept = next(file for file in files if not there(file))
        try:
            crashed.rename(kept)
        except OSError:
            return crashed
        return kept

    def write(self) -> None:
        self._timer.stop()
        recipe = self._recipe()
        if recipe is None or recipe == self._written:
            return
        self._written = recipe
        if self._lock is None:
            with suppress(OSError):
                self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = lock_beside(self._file)
            self._lock.tryLock(0)
        file = self._file
        self._background.start(lambda: _write(file, recipe))

    def leave(self, *, keep: bool) -> Path | None:
        """Close the project. ``keep``: give it a file, whose path is returned, because it has
        none."""
        self._timer.stop()
        recipe, kept = self._recipe(), None
        if keep and recipe is not None:
            kept = target = self._place_of(recipe)
            with suppress(OSError):
                self._folder.mkdir(parents=True, exist_ok=True)
            self._background.start(lambda: _write(target, recipe))
        self._background.waitForDone()
        with suppress(OSError):
            self._file.unlink(missing_ok=True)
        self._written = None
        if self._lock is not None:
            self._lock.unlock()
            self._lock = None
        return kept

    def _place_of(self, recipe: Recipe) -> Path:
        """A file named after the models. Other models with the same names keep theirs."""
        for file in _free_names(self._folder, project_name(recipe)):
            known = _read(file)
            if not there(file) or (known is not None and list(known.paths) == list(recipe.paths)):
                return file
        raise AssertionError  # there is always another number

    def _recipe(self) -> Recipe | None:
        inputs = self._session.draft.planned
        return inputs.recipe() if inputs.base is not None and inputs.experts else None

    def _follow(self) -> None:
        if self._recipe() not in (None, self._written):
            self._timer.start()


def project_name(recipe: Recipe) -> str:
    """The name of a project without a file: the common folder of its models, or else the base."""
    base = recipe.base_model
    together = all(entry.model.is_relative_to(base.parent) for entry in recipe.models)
    return (base.parent.name if together and not hub_name(base) else "") or model_name(base)


def _free_names(folder: Path, name: str, end: str = "") -> Iterator[Path]:
    """Files of a project: ``name``, ``name 2``, ``name 3`` …, with an ``end``."""
    name = (file_name(name) or "project") + end
    names = (f"{name} {number}" if number > 1 else name for number in count(1))
    return (folder / f"{each}{ENDING}" for each in names)


def _read(file: Path) -> Recipe | None:
    from ace_gui.recipe.recipe_file import load_recipe  # importing YAML takes a moment

    try:
        return load_recipe(file) if file.exists() else None
    except WorkbenchError:
        return None


def _write(file: Path, recipe: Recipe) -> None:
    from ace_gui.recipe.recipe_file import dump_recipe  # importing YAML takes a moment

    # Where nothing can be stored, the window continues without.
    with suppress(OSError), replacing(file) as fresh:
        fresh.write_text(dump_recipe(recipe, file.parent), encoding="utf-8")


def _is_left(file: Path) -> bool:
    """Whether the window that wrote this file is gone."""
    name = file.name.removesuffix(f"{_RUNNING}{ENDING}")
    if not _NAME.fullmatch(name) or file.is_symlink() or not file.is_file():
        return False
    lock = lock_beside(file)
    free = lock.tryLock(0)
    if free:
        lock.unlock()
    return free
