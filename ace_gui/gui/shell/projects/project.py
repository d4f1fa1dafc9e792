"""What is open as a project: its file, whether it is saved, and what happens before it is left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QMessageBox, QWidget

from ace_gui.gui.control.sessions import Sessions
from ace_gui.gui.shell.projects.dropped_paths import RECIPES
from ace_gui.gui.state.chosen.history import History
from ace_gui.gui.state.recent_project import RecentProject
from ace_gui.gui.state.session import Session
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.text import short_name
from ace_gui.paths import Sample
from ace_gui.recipe.values import model_name


class Project(QObject):
    """``file``: the recipe that is open, None for models alone. ``changed`` follows both.

    ``save_wanted``: the person answers that changes shall be saved first.
    """

    changed = Signal()
    save_wanted = Signal()

    def __init__(
        self,
        session: Session,
        history: History,
        sessions: Sessions,
        settings: Settings,
        window: QWidget,
    ) -> None:
        super().__init__(window)
        self._session, self._history, self._sessions = session, history, sessions
        self._settings, self._window = settings, window
        self._then: Callable[[], object] | None = None
        self.file: Path | None = None
        self.box: QMessageBox | None = None
        history.stack.cleanChanged.connect(self._tell)

    def _tell(self, _clean: bool) -> None:
        self.changed.emit()

    @property
    def is_modified(self) -> bool:
        """Whether anything was changed since it was opened or saved."""
        return not self._history.stack.isClean() and bool(self._session.draft.planned.experts)

    @property
    def is_sample(self) -> bool:
        """Whether a sample of the program's own is open."""
        return self.file in {sample.recipe for sample in Sample}

    @property
    def name(self) -> str:
        """What the window is called by; empty where nothing is open."""
        if self.file is not None:
            return short_name(self.file)
        base = self._session.draft.inputs.base
        return model_name(base) if base is not None else ""

    def open(self, paths: tuple[Path, ...]) -> None:
        """These were opened: a recipe, or models."""
        is_recipe = len(paths) == 1 and paths[0].suffix.lower() in RECIPES
        self.file = paths[0].absolute() if is_recipe else None
        self._history.reset()
        if self.file is not None and not self.is_sample:
            self._settings.remember(self.file)
        self.changed.emit()

    def saved(self, file: Path) -> None:
        """What is open was written there."""
        self.file = file.absolute()
        self._history.stack.setClean()
        self._settings.remember(self.file)
        self.changed.emit()
        self._go_on()

    def leave(self) -> None:
        """It is closed now, or something else opened; what has no file keeps one for later."""
        unsaved = self.file is None or self.is_modified
        kept = self._sessions.leave(keep=unsaved)
        if kept is not None:
            self._settings.remember(kept)
        left = kept or self.file
        if left is not None:
            self._settings.note(RecentProject.of(self._session, left))
        self.file = None
        self.changed.emit()

    def before_leaving(self, then: Callable[[], object]) -> None:
        """Ask whether to save what was changed, then go on, unless the person cancels."""
        if not self.is_modified:
            then()
            return
        self._then = then
        if self.box is None:
            self._ask()

    def stay(self) -> None:
        """It was not saved after all: nothing that waited for it happens."""
        self._then = None

    def _ask(self) -> None:
        buttons = QMessageBox.StandardButton
        text = f"Save the changes to {self.name}?"
        box = QMessageBox(QMessageBox.Icon.Question, "ACE Workbench", text, parent=self._window)
        box.setInformativeText("Finished merges are kept in any case.")
        box.setStandardButtons(buttons.Save | buttons.Discard | buttons.Cancel)
        box.button(buttons.Discard).setText("&Don't save")
        box.setDefaultButton(buttons.Save)
        box.finished.connect(self._answer)
        self.box = box
        box.open()

    def _answer(self, answer: int) -> None:
        if self.box is not None:
            self.box.deleteLater()
            self.box = None
        if answer == QMessageBox.StandardButton.Discard:
            self._go_on()
        elif answer == QMessageBox.StandardButton.Save:
            self.save_wanted.emit()  # ``saved`` goes on
        else:
            self._then = None

    def _go_on(self) -> None:
        then, self._then = self._then, None
        if then is not None:
            then()
