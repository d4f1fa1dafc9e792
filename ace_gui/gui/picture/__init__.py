"""Pictures of the real window at work, for the README and for looking at it."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from PySide6.QtCore import QEventLoop, QTimer, SignalInstance
from PySide6.QtWidgets import QWidget

from ace_gui.errors import EngineError, OutputError, WorkbenchError
from ace_gui.gui.app import Workbench, make_application
from ace_gui.gui.picture.choices import choice_pictures
from ace_gui.gui.picture.tabs import tab_pictures
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.state.activity import State
from ace_gui.gui.theme import Scheme, set_scheme

PATIENCE: Final = 300_000  # ms for any one step
SETTLE: Final = 400  # ms for timers that gather repaints
SIZE: Final = (1440, 900)


class Studio:
    """A window under direction: does a step, waits for what it leads to, takes a picture."""

    def __init__(self, scheme: Scheme | None = None) -> None:
        self._app = make_application()
        self._workbench = Workbench(self._app)
        self.window: MainWindow = self._workbench.window
        if scheme is not None:
            set_scheme(scheme)
        self.window.resize(*SIZE)
        self._workbench.start()
        self.window.session.problem.connect(self._note)
        self._error: WorkbenchError | None = None
        self._expecting_error = False

    def open(self, recipe: Path) -> None:
        """Load a recipe, and wait until its experts are compared."""
        session = self.window.session
        self.window.opener.open_paths([recipe])
        draft, layers = session.draft, session.layers
        self.wait(lambda: draft.plan is not None and layers.is_analysed, layers.learnt)

    def merge(self, halfway: Callable[[], None] | None = None) -> None:
        """Merge; calls ``halfway`` once when half of the tensors are done."""
        session = self.window.session
        waiting = [halfway] if halfway is not None else []

        def watch() -> None:
            progress = session.activity.progress
            merging = progress is not None and progress.state is State.MERGING
            if waiting and merging and progress is not None and 2 * progress.done >= progress.total:
                waiting.pop()()

        session.activity.progressed.connect(watch)
        self.window.merge.start()
        self.wait(lambda: session.state is State.MERGED, session.activity.changed)
        session.activity.progressed.disconnect(watch)

    def select_most_heterogeneous(self) -> None:
        """Select the layer with the largest γ and wait for its spectrum."""
        session = self.window.session
        name = session.layers.most_heterogeneous
        session.select(name)
        if name is not None:
            self.wait(lambda: session.spectrum(name) is not None, session.results.findings.changed)

    def provoke(self, folder: Path) -> None:
        """Add an expert that is no model, and wait for the message."""
        self._expecting_error = True
        self.window.conductor.add_experts([folder])
        self.wait(lambda: self._error is not None, self.window.session.problem)

    def settle(self) -> None:
        """Let the plots and tables draw what they gathered."""
        loop = QEventLoop()
        QTimer.singleShot(SETTLE, loop.quit)
        loop.exec()

    def take(self, widget: QWidget, file: Path) -> Path:
        """Write a picture. Raises OutputError."""
        if not widget.grab().save(str(file)):
            raise OutputError(f"{file} cannot be written; choose another place.", path=file)
        return file

    def wait(self, condition: Callable[[], bool], signal: SignalInstance) -> None:
        """Until ``condition`` holds after ``signal``. Raises what went wrong, or EngineError."""
        loop = QEventLoop()
        timer = QTimer()
        timer.setSingleShot(True)
        timer.timeout.connect(lambda: loop.exit(1))

        def look(*_: object) -> None:
            if condition() or self._error is not None:
                loop.exit(0)

        problem = self.window.session.problem
        signals = (signal,) if self._expecting_error else (signal, problem)
        for watched in signals:
            watched.connect(look)
        timer.start(PATIENCE)
        done = condition() or loop.exec() == 0
        for watched in signals:
            watched.disconnect(look)
        if self._error is not None and not self._expecting_error:
            raise self._error
        if not done:
            raise EngineError("The window did not come to an end with its work; try again.")

    def close(self) -> None:
        """Close the window, unfinished or unsaved work or not, and wait for its engine to end."""
        self.window.close_unasked()
        if not self._workbench.worker.isFinished():
            loop = QEventLoop()
            self._workbench.worker.finished.connect(loop.quit)
            loop.exec()

    def _note(self, error: WorkbenchError) -> None:
        self._error = error


def take_picture(recipe: Path, file: Path) -> Path:
    """One picture of the window with this recipe merged. Raises WorkbenchError."""
    studio = Studio()
    try:
        studio.open(recipe)
        studio.merge()
        studio.select_most_heterogeneous()
        studio.settle()
        return studio.take(studio.window, file)
    finally:
        studio.close()


def take_pictures(recipe: Path, folder: Path, scheme: Scheme) -> list[Path]:
    """A picture of every state of the window, in ``folder``. Raises WorkbenchError."""
    folder.mkdir(parents=True, exist_ok=True)
    studio = Studio(scheme)
    taken: list[Path] = []

    def take(name: str, widget: QWidget | None = None) -> None:
        file = folder / f"{name}-{scheme}.png"
        taken.append(studio.take(widget or studio.window, file))

    def take_halfway() -> None:
        layers = studio.window.workspace.layers
        layers.model.flush()
        layers.table.scrollTo(layers.model.index(layers.model.rowCount() // 2, 0))
        take("merging")

    try:
        studio.settle()
        take("empty")
        studio.open(recipe)
        studio.settle()
        take("loaded")
        _checks_pictures(studio, take)
        studio.merge(take_halfway)
        studio.select_most_heterogeneous()
        studio.settle()
        take("merged")
        tab_pictures(studio, take)
        choice_pictures(studio, take)
        _export_picture(studio, take, folder)
        _error_picture(studio, take)
    finally:
        studio.close()
    return taken


def _checks_pictures(studio: Studio, take: Callable[[str, QWidget | None], None]) -> None:
    """Warnings about an expert that does not fit, then an error as well."""
    window, session = studio.window, studio.window.session
    last = len(session.draft.inputs.experts)
    with tempfile.TemporaryDirectory() as name:
        odd = Path(name) / "digits-again"
        shutil.copytree(session.draft.inputs.experts[0].path, odd)
        config = json.loads((odd / "config.json").read_text(encoding="utf-8"))
        config["layer_norm_eps"] = 0.5
        (odd / "config.json").write_text(json.dumps(config), encoding="utf-8")
        window.conductor.add_experts([odd])
        studio.wait(
            lambda: bool(session.checks.worries) and session.layers.is_analysed,
            session.layers.learnt,
        )
        window.actions_.merge.trigger()
        studio.settle()
        take("checks-warnings", None)
        session.limit_memory(1_000_000)
        window.actions_.merge.trigger()
        studio.settle()
        take("checks-errors", None)
        session.limit_memory(None)
        window.conductor.remove_experts([last])
        studio.wait(
            lambda: not session.checks.worries and session.layers.is_analysed, session.layers.learnt
        )
    window.notice.hide()
    window.workspace.inspector.tabs.setCurrentIndex(0)


def _export_picture(
    studio: Studio, take: Callable[[str, QWidget | None], None], folder: Path
) -> None:
    studio.window.open_export()
    dialog = studio.window.export_dialog
    if dialog is not None:
        dialog.folder.setText(str(folder.absolute() / "merged-model"))
        studio.settle()
        take("export", dialog)
        dialog.reject()


def _error_picture(studio: Studio, take: Callable[[str, QWidget | None], None]) -> None:
    with tempfile.TemporaryDirectory() as name:
        broken = Path(name) / "interrupted-download"
        broken.mkdir()
        (broken / "model.safetensors").touch()
        studio.provoke(broken)
    studio.settle()
    take("error", None)
