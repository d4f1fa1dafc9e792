"""Starts the window."""

from __future__ import annotations

import gc
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Final

from PySide6.QtCore import QLocale, QObject, QSocketNotifier, QTimer, Signal
from PySide6.QtWidgets import QApplication

from ace_gui.application import APPLICATION_ID, __version__
from ace_gui.crash_log import CrashLog, take_crash
from ace_gui.engine.contract.engine_process import EngineProcess
from ace_gui.errors import WorkbenchError
from ace_gui.gui.control.background import Background
from ace_gui.gui.control.engine_client import EngineThread
from ace_gui.gui.control.merge_stores import MergeStores
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.theme import apply_theme, set_font_scale, set_scheme
from ace_gui.paths import use_scratch

_ALLOCATIONS: Final = 10_000
"""Objects between two garbage collections. With Python's default of 700, and without ``gc.freeze``,
which excludes all imported objects, the window would often stop for 30 to 70 ms."""

_COLLECTS: Final = 200  # ms between two looks at whether garbage is due


def run(
    paths: Sequence[Path] = (), engine: EngineProcess | None = None, *, demo: bool = False
) -> int:
    """Open the window, with a recipe or model folders loaded, and return the exit status.

    ``engine``: one that is started already. ``demo``: run the demo with ``paths``, which is then
    one recipe.
    """
    last_words = CrashLog("window")
    app = make_application()
    guard = Guard(app)
    workbench = Workbench(app, engine=engine)
    guard.broken.connect(workbench.window.show_error)
    interrupts = Interrupts(workbench.window.close_unasked, app)  # maybe no one is there to answer
    workbench.start()
    if demo:
        from ace_gui.gui.shell.tours import DemoTour

        DemoTour(workbench.window, *paths)
    elif paths:
        workbench.window.opener.open_paths(paths)
    try:
        return app.exec()
    finally:
        interrupts.release()
        guard.release()
        last_words.close()


def make_application() -> QApplication:
    """The application, whose name determines the paths of settings and caches."""
    existing = QApplication.instance()
    if isinstance(existing, QApplication):
        app = existing
    else:
        app = QApplication(sys.argv[:1])
    app.setApplicationName("ACE Workbench")
    app.setOrganizationName("ACE Workbench")
    app.setApplicationVersion(__version__)
    app.setDesktopFileName(APPLICATION_ID)
    return app


class Workbench:
    """A window and its worker, from the start to the end of both."""

    def __init__(
        self,
        app: QApplication,
        stores: MergeStores | None = None,
        engine: EngineProcess | None = None,
    ) -> None:
        app.setQuitOnLastWindowClosed(False)
        # Numbers have the same form as in recipes and on the command line.
        QLocale.setDefault(QLocale(QLocale.Language.English, QLocale.Country.UnitedKingdom))
        self._app = app
        settings = Settings()
        use_scratch(settings.scratch)
        self._stores = stores or MergeStores()
        if stores is None:
            self._stores.roots = settings.merge_folders
        watcher = apply_theme(app)
        set_scheme(settings.scheme)
        for _piece in set_font_scale(app, settings.font_scale):
            pass  # nothing is visible yet
        self.worker = EngineThread(app, first=engine)
        self.window = MainWindow(self.worker, settings, self._stores)
        self._background = Background()
        self._collector = GarbageCollector(app)
        watcher.changed.connect(self.window.set_theme)
        self.window.closed.connect(self.worker.stop)
        self.worker.finished.connect(self._end)

    def start(self) -> None:
        """Show the window, then start everything that takes longer."""
        self.window.fit_to_screen()
        self.window.show()
        QTimer.singleShot(0, self.window, self._start_rest)

    def _start_rest(self) -> None:
        self.worker.start()
        self._stores.sweep(self.window.settings.days_kept)
        self._collector.start()
        self._background.ask(_preload, self.window.prepare)
        self._background.ask(take_crash, self.window.recent_projects.show_crash)

    def _end(self) -> None:
        self._background.waitForDone()
        self.worker.wait()
        self._collector.stop()
        self._stores.close()
        self._app.quit()


def _preload() -> None:
    """Import the workspace with its plots in advance; an empty window does not need it."""
    import_module("ace_gui.gui.shell.workspace")
    gc.freeze()


class GarbageCollector(QObject):
    """Collects cyclic garbage in the window's thread alone.

    Python collects in any thread that has just made an object. Qt objects among the garbage would
    be destroyed there while the window's thread may be using them, which ends the process.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._thresholds = (_ALLOCATIONS, *gc.get_threshold()[1:])
        self._timer = QTimer(self, interval=_COLLECTS)
        self._timer.timeout.connect(self._collect)

    def start(self) -> None:
        gc.disable()
        self._timer.start()

    def stop(self) -> None:
        self._timer.stop()
        gc.enable()

    def _collect(self) -> None:
        """Collect the oldest generation that is due, and the younger ones."""
        counts = zip(gc.get_count(), self._thresholds, strict=True)
        due = [generation for generation, (count, most) in enumerate(counts) if count > most]
        if due:
            gc.collect(due[-1])


class Guard(QObject):
    """Emits ``broken`` with a WorkbenchError for every uncaught exception."""

    broken = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._before = sys.excepthook
        sys.excepthook = self._report

    def release(self) -> None:
        sys.excepthook = self._before

    def _report(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        self._before(kind, error, trace)
        if isinstance(error, WorkbenchError):
            self.broken.emit(error)
            return
        details = "".join(traceback.format_exception(kind, error, trace))
        sentence = f"An unexpected error occurred: {kind.__name__}: {error}."
        self.broken.emit(WorkbenchError(sentence, details=details))


class Interrupts(QObject):
    """Calls a function on SIGINT and SIGTERM.

    Python alone would handle them only when Qt next calls Python code.
    """

    def __init__(self, action: Callable[[], object], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._receiver, self._sender = socket.socketpair()
        for end in (self._receiver, self._sender):
            end.setblocking(False)
        self._action = action
        signals = (signal.SIGINT, signal.SIGTERM)
        self._handlers = {number: signal.signal(number, lambda *_: None) for number in signals}
        self._wakeup = signal.set_wakeup_fd(self._sender.fileno())
        kind = QSocketNotifier.Type.Read
        self._notifier = QSocketNotifier(self._receiver.fileno(), kind, self)
        self._notifier.activated.connect(self._heard)

    def release(self) -> None:
        self._notifier.setEnabled(False)
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._receiver.close()
        self._sender.close()

    def _heard(self) -> None:
        self._receiver.recv(64)
        self._action()
