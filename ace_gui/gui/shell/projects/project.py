"""The open project: its file, whether it is saved, and the question before it is closed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QMessageBox

from ace_gui.gui.control.persistence import project_name
from ace_gui.gui.shell.controlled_window import ControlledWindow
from ace_gui.gui.shell.window_dialogs import question, show_once
from ace_gui.gui.state.settings import RecentProject
from ace_gui.gui.text import short_name
from ace_gui.paths import Sample

RECIPES: Final = (".yaml", ".yml")


class Project(QObject):
    """The open project. ``file`` is its recipe, or None for models alone. ``changed`` follows
    both, and ``save_wanted`` a person who saves before the project is closed."""

    changed = Signal()
    save_wanted = Signal()

    def __init__(self, window: ControlledWindow) -> None:
        super().__init__(window)
        session, history = window.session, window.history
        self._session, self._history, self._sessions = session, history, window.sessions
        self._settings, self._window = window.settings, window
        self._then: Callable[[], object] | None = None
        self.file: Path | None = None
        self.box: QMessageBox | None = None
        # as opened or saved; the undo steps do not contain them
        self._tasks = session.draft.planned.tasks
        self._was_modified = False
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
    def is_sample(self) -> bool:
        return self.file in {sample.recipe for sample in Sample}

    @property
    def name(self) -> str:
        """The name of its file, or the name that it will have among the recent projects.

        Empty if nothing is open.
        """
        if self.file is not None:
            return short_name(self.file)
        inputs = self._session.draft.inputs
        return project_name(inputs.recipe()) if inputs.base is not None else ""

    def open(self, paths: tuple[Path, ...]) -> None:
        """Record that a recipe or models were opened."""
        is_recipe = len(paths) == 1 and paths[0].suffix.lower() in RECIPES
        self.file = paths[0].absolute() if is_recipe else None
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
        """Close the project. Unsaved work without a file is kept for later."""
        unsaved = self.file is None or self.is_modified
        kept = self._sessions.leave(keep=unsaved)
        if kept is not None:
            self._settings.remember(kept)
        left = kept or self.file
        if left is not None:
            self._settings.note(RecentProject.of(self._session, left))
        self.file = None
        self._emit_changed()

    def before_leaving(self, then: Callable[[], object]) -> None:
        """Ask whether to save changes, then continue unless the user cancels."""
        if not self.is_modified:
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
        """Drop what waited for the save, because saving failed."""
        self._then = None

    def _answer(self, answer: int) -> None:
        self.box = None
        if answer == QMessageBox.StandardButton.Discard:
            self._go_on()
        elif answer == QMessageBox.StandardButton.Save:
            self.save_wanted.emit()  # ``saved`` continues
        else:
            self._then = None

    def _go_on(self) -> None:
        then, self._then = self._then, None
        if then is not None:
            then()
