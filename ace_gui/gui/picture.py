"""A picture of the real window at work: ``python -m ace_gui.gui.picture RECIPE FILE.png``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from PySide6.QtCore import QEventLoop, QThreadPool, QTimer, SignalInstance
from PySide6.QtWidgets import QWidget

from ace_gui.engine.contract.engine_process import EngineProcess
from ace_gui.errors import EngineError, OutputError, WorkbenchError
from ace_gui.gui.app import Workbench, make_application
from ace_gui.gui.control.merge_stores import MergeStores
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.state.activity import ActivityState
from ace_gui.gui.theme import Scheme, set_scheme

PATIENCE: Final = 300_000  # ms without any event
SETTLE: Final = 400  # ms for timers that combine repaints
SIZE: Final = (1440, 900)


class Studio:
    """Controls a window: performs a step, waits for its result, takes a picture.

    ``engine``: one that is started already.
    """

    def __init__(self, scheme: Scheme | None = None, engine: EngineProcess | None = None) -> None:
        self._app = make_application()
        self._merges = tempfile.TemporaryDirectory(prefix="ace-pictures-")  # not among the user's
        stores = MergeStores(Path(self._merges.name))
        self._workbench = Workbench(self._app, stores, engine)
        self.window: MainWindow = self._workbench.window
        if scheme is not None:
            set_scheme(scheme)
        self._workbench.start()
        self.window.showNormal()  # otherwise it would fill a small screen
        self.window.resize(*SIZE)
        self.window.session.problem.connect(self._note)
        self._error: WorkbenchError | None = None

    def open(self, recipe: Path) -> None:
        """Load a recipe, and wait until its experts are compared."""
        session = self.window.session
        self.window.opener.open_paths([recipe])
        draft = session.draft
        layers = session.layers
        self.wait(lambda: draft.plan is not None and layers.is_analysed, layers.learnt)

    def merge(self) -> None:
        """Merge what is loaded."""
        session = self.window.session
        self.window.merge.start()
        self.wait(lambda: session.state is ActivityState.MERGED, session.activity.changed)

    def select_most_heterogeneous(self) -> None:
        """Select the layer with the largest γ and wait for its spectrum."""
        session = self.window.session
        name = session.layers.most_heterogeneous
        session.select(name)
        if name is not None:
            self.wait(lambda: session.spectrum(name) is not None, session.results.findings.changed)

    def settle(self) -> None:
        """Let the plots and tables draw their pending updates."""
        loop = QEventLoop()
        QTimer.singleShot(SETTLE, loop.quit)
        loop.exec()

    def take(self, widget: QWidget, file: Path) -> Path:
        """Write a picture. Raises OutputError."""
        if not widget.grab().save(str(file)):
            raise OutputError(f"{file} cannot be written; choose another path.", path=file)
        return file

    def wait(self, condition: Callable[[], bool], signal: SignalInstance) -> None:
        """Wait until ``condition`` is true after ``signal``. Raises the window's error or
        EngineError."""
        loop = QEventLoop()
        timer = QTimer()
        timer.setSingleShot(True)
        timer.timeout.connect(lambda: loop.exit(1))

        def look(*_: object) -> None:
            timer.start(PATIENCE)
            if condition() or self._error is not None:
                loop.exit(0)

        signals = (signal, self.window.session.problem)
        for watched in signals:
            watched.connect(look)
        timer.start(PATIENCE)
        done = condition() or loop.exec() == 0
        for watched in signals:
            watched.disconnect(look)
        if self._error is not None:
            raise self._error
        if not done:
            raise EngineError("The window did not finish its work; try again.")

    def close(self) -> None:
        """Close the window without asking, and wait for its engine to end."""
        self.window.close_unasked()
        if not self._workbench.worker.isFinished():
            loop = QEventLoop()
            self._workbench.worker.finished.connect(loop.quit)
            loop.exec()
        QThreadPool.globalInstance().waitForDone()
        self._merges.cleanup()

    def _note(self, error: WorkbenchError) -> None:
        self._error = error


def take_picture(recipe: Path, file: Path) -> Path:
    """Take a picture of the window with this recipe merged. Raises WorkbenchError."""
    studio = Studio()
    try:
        studio.open(recipe)
        studio.merge()
        studio.select_most_heterogeneous()
        studio.settle()
        return studio.take(studio.window, file)
    finally:
        studio.close()


def main() -> int:
    """Read the command line, take the picture, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m ace_gui.gui.picture")
    parser.add_argument("recipe", type=Path)
    parser.add_argument("file", type=Path, help="a PNG file")
    arguments = parser.parse_args()
    try:
        take_picture(arguments.recipe, arguments.file)
    except WorkbenchError as error:
        sys.stderr.write(f"{error.sentence}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
