"""What stays after a window: the user's preferences, and the open project after a crash."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, Final

from PySide6.QtCore import QLockFile, QObject, QTimer, Signal

from ace_gui.engine.contract.jobs import ConfigureJob
from ace_gui.errors import WorkbenchError
from ace_gui.gui.control.background import Background
from ace_gui.gui.control.engine_client import EngineClient
from ace_gui.gui.control.merge_operation import RunOperations
from ace_gui.gui.control.merge_stores import lock_beside
from ace_gui.gui.control.project_notes import move_notes, write_notes
from ace_gui.gui.state.session import Session
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.text import ENDING, file_name
from ace_gui.gui.theme import set_scheme
from ace_gui.output_files import replacing, there
from ace_gui.paths import sessions_folder, use_scratch
from ace_gui.recipe import Recipe
from ace_gui.recipe.values import hub_name, model_name

FONT_SCALES: Final = (100, 110, 125, 150, 175, 200)
"""Font sizes, in percent of the system's."""


class Preferences(QObject):
    """Changes the preferences. ``changed`` is emitted after each change; ``enlarged`` carries the
    window's font size in percent.

    A new engine starts with its defaults and gets the preferences as soon as it runs.
    """

    changed = Signal()
    enlarged = Signal(int)

    def __init__(self, settings: Settings, engine: EngineClient, runs: RunOperations) -> None:
        super().__init__(engine)
        self.settings = settings
        self._session = engine.session
        self._engine = engine
        self._runs = runs
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
        if self._session.engine is not None:
            return self._session.engine.memory_bytes
        return 0

    @property
    def most_threads(self) -> int:
        """Processors of the machine, or the chosen threads if these are more."""
        return max(os.cpu_count() or 1, self.settings.threads or 0)

    def devices(self) -> list[tuple[str, str]]:
        engine = self._session.engine
        if engine:
            return [(device.name, device.title) for device in engine.devices]
        return []

    def use_scratch(self, folder: Path | None) -> None:
        """Set the folder of merges before export, None for the cache. Kept merges are not moved."""
        self.settings.use_scratch(folder)
        use_scratch(folder)
        self._runs.stores.roots = self.settings.merge_folders
        self._runs.list_all()
        self._configure()
        self.changed.emit()

    def _configure_new_engine(self) -> None:
        """Send the preferences if the engine's defaults differ, so that its answer is final."""
        engine = self._session.engine
        settings = self.settings
        threads = settings.threads or (engine.threads if engine is not None else 0)
        if engine is not None and (engine.threads, engine.scratch) != (threads, settings.scratch):
            self._configure()

    def _configure(self) -> None:
        settings = self.settings
        job = ConfigureJob(threads=settings.threads, scratch=settings.scratch)
        self._engine.run(job, quiet=True)


DELAY: Final = 1500  # ms without a change
_RUNNING: Final = ".running"
_NAME: Final = re.compile(r"[0-9a-f]{32}")


class Sessions(QObject):
    """Keeps the project of every open window in a file, and closed projects without a file.

    If the window of a file is gone, it has crashed; ``recover`` finds such a file once.
    """

    def __init__(self, session: Session, folder: Path | None = None) -> None:
        super().__init__(session)
        self._session = session
        self._folder = folder or sessions_folder()
        self._file = self._folder / f"{uuid.uuid4().hex}{_RUNNING}{ENDING}"
        self._lock: QLockFile | None = None
        self._written: Recipe | None = None
        self._notes = ""
        self._written_notes = ""
        self._background = Background()
        self._timer = QTimer(self, singleShot=True, interval=DELAY)
        self._timer.timeout.connect(self.write)
        session.draft.changed.connect(self._follow)

    def recover(self) -> tuple[Path, ...]:
        """The files of crashed windows' projects, the latest first.

        Each file gets a lasting name, so that it is not found again.
        """
        files = [file for file in self._folder.glob(f"*{_RUNNING}{ENDING}") if _is_left(file)]
        by_time = sorted(((file.stat().st_mtime, file) for file in files), reverse=True)
        return tuple(self._keep(crashed) for _, crashed in by_time)

    def _keep(self, crashed: Path) -> Path:
        """Name a project ``glue, recovered 2026-03-01 14.05``, and return its path."""
        recipe = _read(crashed)
        at = datetime.fromtimestamp(crashed.stat().st_mtime)
        # A file that cannot be read is offered too: opening it reports the error.
        if recipe is not None:
            name = project_name(recipe)
        else:
            name = ""
        files = _free_names(self._folder, name, f", recovered {at:%Y-%m-%d %H.%M}")
        target_file = next(file for file in files if not there(file))
        try:
            crashed.rename(target_file)
        except OSError:
            return crashed
        move_notes(crashed, target_file)
        return target_file

    def keep_notes(self, text: str) -> None:
        """Keep the notes on the open project, too, in case the window crashes."""
        self._notes = text
        self._timer.start()

    def write(self) -> None:
        self._timer.stop()
        recipe = self._recipe()
        if recipe is None or (recipe, self._notes) == (self._written, self._written_notes):
            return
        self._written = recipe
        self._written_notes = notes = self._notes
        if self._lock is None:
            with suppress(OSError):
                self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = lock_beside(self._file)
            self._lock.tryLock(0)
        file = self._file

        def work() -> None:
            _write(file, recipe)
            write_notes(file, notes)

        self._background.start(work)

    def leave(self, *, keep: bool, name: str = "", file: Path | None = None) -> Path | None:
        """Close the project. ``keep``: write it to a file, and return its path.

        ``file``: the project's own file in the program's folder; None: a free one. ``name``: of
        that; empty: the models' name.
        """
        self._timer.stop()
        recipe = self._recipe()
        target_file = None
        if keep and recipe is not None:
            target_file = target = file or self._place_of(recipe, name)
            with suppress(OSError):
                self._folder.mkdir(parents=True, exist_ok=True)
            self._background.start(lambda: _write(target, recipe))
        self._background.waitForDone()
        with suppress(OSError):
            self._file.unlink(missing_ok=True)
        write_notes(self._file, "")
        self._written = None
        self._notes = self._written_notes = ""
        if self._lock is not None:
            self._lock.unlock()
            self._lock = None
        return target_file

    def _place_of(self, recipe: Recipe, name: str) -> Path:
        """A file with this name, or the models' name.

        Another project keeps its own file, also of these models: its tasks, parameters or
        overrides would be lost.
        """
        for file in _free_names(self._folder, name or project_name(recipe)):
            if not there(file) or _is_text_of(file, recipe):
                return file
        raise AssertionError  # there is always another number

    def _recipe(self) -> Recipe | None:
        inputs = self._session.draft.planned
        if inputs.base is not None and inputs.experts:
            return inputs.recipe()
        return None

    def _follow(self) -> None:
        if self._recipe() not in (None, self._written):
            self._timer.start()


def project_name(recipe: Recipe) -> str:
    """The name of a project without a file.

    It is the common folder of all models, or the common start of the experts' names, or else these
    names.
    """
    base = recipe.base_model
    together = all(entry.model.is_relative_to(base.parent) for entry in recipe.models)
    if together and not hub_name(base) and base.parent.name:
        return base.parent.name
    names = recipe.expert_names
    common = os.path.commonprefix(names)  # noqa: RUF071 (names, not paths)
    common = common.rstrip(" -_.0123456789")
    if len(names) > 1 and len(common) >= _LEAST_NAME:
        return common
    if not names:
        return model_name(base)
    listed = ", ".join(names[:_NAMED])
    if len(names) <= _NAMED:
        return listed
    return f"{listed} and {len(names) - _NAMED} more"


_LEAST_NAME: Final = 3  # letters that names have in common
_NAMED: Final = 3  # experts in the name of a project


def move_project(file: Path, name: str) -> Path:
    """Rename a project's file, and return its new path. Nothing is overwritten. Raises OSError."""
    moved = next(free for free in _free_names(file.parent, name) if free == file or not there(free))
    if moved != file:
        file.rename(moved)
        move_notes(file, moved)
    return moved


def project_of(models: Sequence[Path], files: Iterable[Path]) -> Path | None:
    """The first of these projects' files with these models, the base first and experts in any
    order; None if there is none."""
    base, *experts = (path.absolute() for path in models)
    for file in files:
        recipe = _read(file)
        if recipe is None or recipe.base_model.absolute() != base:
            continue
        if sorted(entry.model.absolute() for entry in recipe.models) == sorted(experts):
            return file
    return None


def _free_names(folder: Path, name: str, end: str = "") -> Iterator[Path]:
    """Possible files of a project: ``name``, ``name 2``, ``name 3`` …, each with ``end``."""
    name = (file_name(name) or "project") + end
    names = (f"{name} {number}" if number > 1 else name for number in count(1))
    return (folder / f"{name}{ENDING}" for name in names)


def _read(file: Path) -> Recipe | None:
    from ace_gui.recipe.recipe_file import load_recipe  # importing YAML takes a moment

    try:
        if file.exists():
            return load_recipe(file)
        return None
    except WorkbenchError:
        return None


TUNED: Final = "# Tuned by ACE workbench: "
"""The start of a first line that is written above a recipe."""


def is_written_by_program(file: Path) -> bool:
    """Whether saving to this recipe file loses nothing, because this program wrote all of it."""
    recipe = _read(file)
    return recipe is not None and _is_text_of(file, recipe)


def _is_text_of(file: Path, recipe: Recipe) -> bool:
    """Whether the file has exactly this recipe, with nothing but a note on its tuning."""
    from ace_gui.recipe.recipe_file import dump_recipe  # importing YAML takes a moment

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    if text.startswith(TUNED):
        text = text.partition("\n")[2]
    return text == dump_recipe(recipe, file.parent)


def _write(file: Path, recipe: Recipe) -> None:
    from ace_gui.recipe.recipe_file import dump_recipe  # importing YAML takes a moment

    # Without a place to store it, the window continues without the file.
    with suppress(OSError), replacing(file) as fresh:
        fresh.write_text(dump_recipe(recipe, file.parent), encoding="utf-8")


def _is_left(file: Path) -> bool:
    """Whether the window that wrote this file has ended."""
    name = file.name.removesuffix(f"{_RUNNING}{ENDING}")
    if not _NAME.fullmatch(name) or file.is_symlink() or not file.is_file():
        return False
    lock = lock_beside(file)
    free = lock.tryLock(0)
    if free:
        lock.unlock()
    return free
