"""Who has turned to something else hears of the end of long work; what is written can be opened."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ace_gui.engine.contract.events import JobDone, JobFailed, Reported
from ace_gui.errors import ResourceError
from ace_gui.gui.panels.notice import Severity
from ace_gui.gui.shell import long_work
from ace_gui.gui.shell.main_window import MainWindow
from tests.gui.fakes import FakeWorker, finished_merge, finished_tensor, started


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be moved."""
    now = [100.0]
    monkeypatch.setattr(long_work.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The windows that the desktop was asked to mark."""
    found: list[object] = []
    monkeypatch.setattr(QApplication, "alert", lambda window, *_: found.append(window))
    return found


@pytest.fixture
def told(loaded: MainWindow) -> list[str]:
    """What the desktop was asked to show."""
    sentences: list[str] = []
    loaded.long_work.notified.connect(sentences.append)
    return sentences


def in_front(window: MainWindow, monkeypatch: pytest.MonkeyPatch, *, active: bool) -> None:
    monkeypatch.setattr(window, "isActiveWindow", lambda: active, raising=False)
    window.long_work._window = window


def merge(window: MainWindow, worker: FakeWorker, clock: list[float], seconds: float) -> None:
    window.actions_.merge.trigger()
    worker.say(started(), finished_tensor("layer.0.q"))
    clock[0] += seconds
    worker.say(finished_merge(), JobDone())


def test_long_work_behind_other_windows_is_told(
    loaded: MainWindow, worker: FakeWorker, clock, marked, told, monkeypatch, qtbot: QtBot
) -> None:
    in_front(loaded, monkeypatch, active=False)
    merge(loaded, worker, clock, 11.0)
    qtbot.waitUntil(lambda: told == ["The merge has ended."])
    assert marked == [loaded]


@pytest.mark.parametrize(("active", "seconds"), [(True, 11.0), (False, 9.0)])
def test_short_work_or_a_window_in_front_needs_no_telling(
    loaded: MainWindow,
    worker: FakeWorker,
    clock,
    marked,
    told,
    monkeypatch,
    qtbot: QtBot,
    active: bool,
    seconds: float,
) -> None:
    in_front(loaded, monkeypatch, active=active)
    merge(loaded, worker, clock, seconds)
    qtbot.wait(20)
    assert (told, marked) == ([], [])


def test_an_error_is_what_is_told(
    loaded: MainWindow, worker: FakeWorker, clock, marked, told, monkeypatch, qtbot: QtBot
) -> None:
    in_front(loaded, monkeypatch, active=False)
    loaded.actions_.merge.trigger()
    worker.say(started())
    clock[0] += 60
    worker.say(JobFailed(error=ResourceError("The disk is full.")))
    qtbot.waitUntil(lambda: told == ["The disk is full."])


def test_nothing_is_shown_where_one_prefers_so(
    loaded: MainWindow, worker: FakeWorker, clock, marked, told, monkeypatch, qtbot: QtBot
) -> None:
    loaded.settings.notifies = False
    in_front(loaded, monkeypatch, active=False)
    merge(loaded, worker, clock, 11.0)
    qtbot.waitUntil(lambda: marked == [loaded])
    assert told == []


def test_the_title_counts(loaded: MainWindow, worker: FakeWorker) -> None:
    before = loaded.windowTitle()
    loaded.actions_.merge.trigger()
    worker.say(started(), finished_tensor("layer.0.q"))
    assert loaded.windowTitle() == f"50 % – {before}"
    worker.say(finished_merge(), JobDone())
    assert loaded.windowTitle() == before


def test_a_report_can_be_opened_and_shown(
    loaded: MainWindow, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toLocalFile()))
    file = tmp_path / "merge.html"
    for answer, expected in ((0, file), (1, tmp_path)):
        loaded.output._hear(Reported(file=file, bytes=1))
        notice = loaded.notice
        assert notice.severity is Severity.INFO
        assert notice.passes  # it goes by itself
        assert [each.text() for each in notice.answers] == ["Open", "Show in folder"]
        notice.answers[answer].click()
        assert opened[-1] == str(expected)
    assert loaded.session.log.entries[-1].text == f"The report is in {file}."


def test_a_question_does_not_pass(loaded: MainWindow) -> None:
    loaded.notice.ask(Severity.INFO, "Really?", "", {"Yes": lambda: None})
    assert not loaded.notice.passes
    loaded.notice.show_message(Severity.INFO, "News.")
    assert loaded.notice.passes
    loaded.notice.show_message(Severity.ERROR, "Broken.")
    assert not loaded.notice.passes
