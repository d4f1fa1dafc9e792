"""The window over the engine in its process."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ace_gui.gui.app import Workbench, make_application
from ace_gui.gui.control.merge_stores import MergeStores, record_of
from tests.helpers.windows import PATIENCE, keep_settings_in, nothing_left_running


@pytest.fixture
def bench(
    qapp: QApplication,
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    forked_engines: None,
) -> Iterator[Workbench]:
    """A started window with its own engine, ended without a trace."""
    for kind in ("CACHE", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind.lower()))
    make_application()
    keep_settings_in(tmp_path / "settings")
    with nothing_left_running():
        monkeypatch.setattr(gc, "freeze", lambda: None)  # it would hide the window's own timers
        bench = Workbench(qapp, MergeStores(tmp_path / "merges"))
        bench.start()
        yield bench
        with qtbot.waitSignal(bench.worker.finished, timeout=PATIENCE):
            bench.window.conductor.cancel()
            bench.window.close_unasked()
        assert bench.worker.wait(PATIENCE)
        bench.window.deleteLater()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    stores = [path for path in (tmp_path / "merges").glob("*") if path.is_dir()]
    assert all(record_of(store).exists() for store in stores), "what stays is known to the next"
