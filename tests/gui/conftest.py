"""Every test of the window: offscreen, with settings of its own, leaving nothing behind."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QApplication

from ace_gui.gui.app import make_application
from ace_gui.gui.control.merge_stores import MergeStores
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.state.session import Session
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.theme import apply_theme, set_scheme
from tests.gui.fakes import BASE, COLA, ENGINE, GAMMAS, SST2, FakeWorker, analysed, load
from tests.helpers.windows import keep_settings_in, nothing_left_running


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Iterator[None]:
    """An exception that Qt's event loop swallowed fails the test."""
    raised: list[str] = []

    def note(kind: type[BaseException], error: BaseException, trace: object) -> None:
        raised.append("".join(traceback.format_exception(error)))

    before = sys.excepthook
    sys.excepthook = note
    try:
        result = yield
    finally:
        sys.excepthook = before
    if raised:
        pytest.fail("uncaught in the event loop:\n" + "\n".join(raised), pytrace=False)
    return result


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> None:
    """The window's looks; settings and caches in the test's folder."""
    apply_theme(make_application())
    keep_settings_in(tmp_path / "settings")
    for kind in ("CACHE", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind.lower()))


@pytest.fixture(autouse=True)
def nothing_left(own_settings: None) -> Iterator[None]:
    """Threads, child processes and running timers outlive no test."""
    with nothing_left_running():
        yield


@pytest.fixture
def light(own_settings: None) -> Iterator[None]:
    """The light scheme, whatever the system says."""
    set_scheme("light")
    yield
    set_scheme("system")


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


@pytest.fixture
def opened(window: MainWindow, worker: FakeWorker) -> MainWindow:
    """The window with a base and two experts, not compared yet."""
    worker.say(ENGINE, job=0)
    window.opener.open_paths([BASE, COLA, SST2])
    load(worker, COLA, SST2)
    return window


@pytest.fixture
def loaded(opened: MainWindow, worker: FakeWorker) -> MainWindow:
    """The window with a base and two experts, compared, and nothing selected."""
    worker.say(*analysed(GAMMAS))
    return opened
