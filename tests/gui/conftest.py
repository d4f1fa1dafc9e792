"""Every test of the window: offscreen, with settings of its own, leaving nothing behind."""

from __future__ import annotations

import os

os.environ["QT_QPA_PLATFORM"] = "offscreen"  # before Qt is imported

import gc
import multiprocessing
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QSettings, QThread, QThreadPool, QTimer
from PySide6.QtWidgets import QApplication
from shiboken6 import isValid

from ace_gui.gui.app import make_application
from ace_gui.gui.main_window import MainWindow
from ace_gui.gui.session import Session
from ace_gui.gui.settings import Settings
from ace_gui.gui.stores import MergeStores
from tests.gui.fakes import FakeWorker


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The offscreen platform complains of size hints and raised windows; no user would."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.qt_log_ignore("This plugin does not support"))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Iterator[None]:
    """An exception that Qt's event loop swallowed fails the test."""
    raised: list[str] = []

    def note(kind: type[BaseException], error: BaseException, trace: object) -> None:
        raised.append("".join(traceback.format_exception(error)))

    before, sys.excepthook = sys.excepthook, note
    try:
        result = yield
    finally:
        sys.excepthook = before
    if raised:
        pytest.fail("uncaught in the event loop:\n" + "\n".join(raised), pytrace=False)
    return result


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings and caches in the test's folder."""
    make_application()
    QSettings.setDefaultFormat(QSettings.Format.IniFormat)
    ini, user = QSettings.Format.IniFormat, QSettings.Scope.UserScope
    QSettings.setPath(ini, user, str(tmp_path / "settings"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def nothing_left(own_settings: None) -> Iterator[None]:
    """Threads, child processes and running timers outlive no test."""
    gc.freeze()  # only what the test makes is looked through
    yield
    QThreadPool.globalInstance().waitForDone(5000)
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    gc.collect()
    objects = [thing for thing in gc.get_objects() if issubclass(type(thing), (QThread, QTimer))]
    gc.unfreeze()
    alive = [thing for thing in objects if isValid(thing)]
    threads = [thing for thing in alive if isinstance(thing, QThread) and thing.isRunning()]
    timers = [thing for thing in alive if isinstance(thing, QTimer) and thing.isActive()]
    assert not threads, f"threads left running: {threads}"
    assert not timers, f"timers left running: {[timer.parent() for timer in timers]}"
    assert not multiprocessing.active_children()
    others = [t for t in threading.enumerate() if t is not threading.main_thread()]
    assert not [t for t in others if t.name.startswith("Thread-")], others


@pytest.fixture
def session(qapp: QApplication) -> Session:
    """An empty session."""
    return Session()


@pytest.fixture
def worker() -> FakeWorker:
    """A worker that only notes what it is asked."""
    return FakeWorker()


@pytest.fixture
def window(worker: FakeWorker, tmp_path: Path) -> Iterator[MainWindow]:
    """The real window over a worker that only notes what it is asked."""
    window = MainWindow(worker, Settings(), MergeStores(tmp_path / "merges"))
    window.show()
    yield window
    window.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
