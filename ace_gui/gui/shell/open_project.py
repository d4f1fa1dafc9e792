"""The open project: its name, file and notes, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QMessageBox

from ace_gui.errors import OutputError
from ace_gui.gui.control.persistence import move_project, project_name
from ace_gui.gui.control.project_notes import read_notes, write_notes
from ace_gui.gui.shell.base_window import Window
from ace_gui.gui.shell.dialogs import question
from ace_gui.gui.state.settings import RecentProject
from ace_gui.gui.text import short_name
from ace_gui.gui.widgets.file_dialogs import show_once
from ace_gui.paths import Sample, sessions_folder

RECIPES: Final = (".yaml", ".yml")
"""Endings of recipes' files."""


class Project(QObject):
    """The open project. ``file``: its recipe, or None for models alone. ``changed``: of the project
    or its file. ``save_wanted``: the person wants to save before the project is closed."""

    changed = Signal()
    save_wanted = Signal()

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        session = window.session
        history = window.history
        self._session = session
        self._history = history
        self._sessions = window.sessions
        self._settings = window.settings
        self._window = window
        self._then: Callable[[], object] | None = None
        self.file: Path | None = None
        self._chosen_name = ""
        """The user's name for a project that has no file yet."""

        self.notes = ""
        """What the user has written about the project."""

        self.box: QMessageBox | None = None
        # the tasks as they were opened or saved; undo steps do not contain them
        self._tasks = session.draft.planned.tasks
        self._was_modified = False
        self._is_discarded = False
        history.stack.cleanChanged.connect(lambda _: self._follow())
        session.draft.changed.connect(self._follow)

    def _follow(self) -> None:
        if self.is_modified != self._was_modified:
            self._emit_changed()

    def _emit_changed(self) -> None:
        self._was_modified = self.is_modified
        self.changed.emit()

    @property
    def is_modified(self) -> bool:
        """Whether anything has changed since it was opened or saved."""
        planned = self._session.draft.planned
        changed = not self._history.stack.isClean() or planned.tasks != self._tasks
        return changed and bool(planned.experts)

    @property
    def is_autosaved(self) -> bool:
        """Whether it is kept as it is, without a question: all but files that the user keeps."""
        return self.is_sample or self.can_be_renamed

    @property
    def is_unsaved(self) -> bool:
        """Whether the user's own file lacks changes."""
        return self.is_modified and not self.is_autosaved

    @property
    def is_sample(self) -> bool:
        return self.file in {sample.recipe for sample in Sample}

    @property
    def name(self) -> str:
        """The name of its file, or of the file that it will get; empty if nothing is open."""
        if self.file is not None:
            return short_name(self.file)
        inputs = self._session.draft.inputs
        if inputs.base is None:
            return ""
        return self._chosen_name or project_name(inputs.recipe())

    @property
    def can_be_renamed(self) -> bool:
        """Whether its name is not that of a file that the user keeps."""
        return self.file is None or self._is_in_folder

    @property
    def _is_in_folder(self) -> bool:
        """Whether its file is in the program's folder."""
        return self.file is not None and self.file.is_relative_to(sessions_folder())

    def write_notes(self, text: str) -> None:
        """Keep the user's notes."""
        self.notes = text
        self._sessions.keep_notes(text)

    def rename(self, name: str) -> None:
        """Give the project another name; its file, if it has one, moves to a free name."""
        if not self.can_be_renamed:
            return
        if self.file is None:
            self._chosen_name = name
        else:
            self._move(self.file, name)
        self._emit_changed()

    def _move(self, file: Path, name: str) -> None:
        try:
            moved = move_project(file, name)
        except OSError as error:
            sentence = f"{file} cannot be renamed: {error.strerror or error}."
            self._session.fail(OutputError(sentence, path=file))
            return
        self._settings.replace_recent(file, moved)
        self.file = moved

    def open(self, paths: tuple[Path, ...]) -> None:
        """Record that a recipe or models were opened."""
        is_recipe = len(paths) == 1 and paths[0].suffix.lower() in RECIPES
        self.file = paths[0].absolute() if is_recipe else None
        self._chosen_name = ""
        self.notes = "" if self.file is None else read_notes(self.file)
        self._sessions.keep_notes(self.notes)
        self._history.reset()
        self._tasks = self._session.draft.planned.tasks
        if self.file is not None and not self.is_sample:
            self._settings.remember(self.file)
        self._emit_changed()

    def saved(self, file: Path) -> None:
        """Record the file that the project was saved to."""
        self.file = file.absolute()
        self._tasks = self._session.draft.planned.tasks
        self._history.stack.setClean()
        self._settings.remember(self.file)
        self._emit_changed()
        self._go_on()

    def leave(self) -> None:
        """Close the project. Unsaved work is kept for later, unless it was to be discarded."""
        unsaved = self.is_modified and not self._is_discarded
        name = self.name if self.file is None else ""
        own_file = self.file if self._is_in_folder else None
        keeps = self.file is None or unsaved
        saved_file = self._sessions.leave(keep=keeps, name=name, file=own_file)
        self._is_discarded = False
        if saved_file is not None:
            self._settings.remember(saved_file)
        file = saved_file or self.file
        if file is not None:
            self._settings.note(RecentProject.of(self._session, file))
            write_notes(file, self.notes)
        self.file = None
        self.notes = ""
        self._emit_changed()

    def before_leaving(self, then: Callable[[], object]) -> None:
        """Continue; if the user's own file lacks changes, ask about them first."""
        self._is_discarded = False
        if not self.is_unsaved:
            then()
            return
        self._then = then
        if self.box is not None:
            return
        buttons = QMessageBox.StandardButton
        text = f"Save the changes to the project {self.name}?"
        self.box = box = question(self._window, text, "Finished merges are always kept.")
        box.setStandardButtons(buttons.Save | buttons.Discard | buttons.Cancel)
        box.button(buttons.Discard).setText("&Don't save")
        box.setDefaultButton(buttons.Save)
        box.finished.connect(self._answer)
        show_once(box)

    def stay(self) -> None:
        """Drop the step that was to follow the save, because saving has failed."""
        self._then = None

    def _answer(self, answer: int) -> None:
        self.box = None
        if answer == QMessageBox.StandardButton.Discard:
            self._is_discarded = True
            self._go_on()
        elif answer == QMessageBox.StandardButton.Save:
            self.save_wanted.emit()  # ``saved`` continues
        else:
            self._then = None

    def _go_on(self) -> None:
        then = self._then
        self._then = None
        if then is not None:
            then()
