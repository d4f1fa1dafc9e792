"""Who has turned to something else hears of the end of long work; what is written can be opened."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication

from ace_gui.engine.contract.events import JobDone, JobFailed, Reported
from ace_gui.errors import ResourceError
from ace_gui.gui.shell import messages
from ace_gui.gui.state.activity import ActivityState, Level, Progress
from tests.gui.fakes import finished_merge, finished_tensor, started

DONE = (finished_merge(), JobDone())
FAILED = (JobFailed(error=ResourceError("The disk is full.")),)


@pytest.mark.parametrize(
    ("active", "seconds", "notifies", "end", "sentences"),
    [
        (False, 11.0, True, DONE, ["The merge has ended."]),
        (False, 60.0, True, FAILED, ["The disk is full."]),
        (False, 11.0, False, DONE, []),  # it is only marked
        (False, 9.0, True, DONE, []),
        (True, 11.0, True, DONE, []),
    ],
)
def test_long_work_behind_other_windows_is_announced(
    loaded, worker, monkeypatch, qtbot, active, seconds, notifies, end, sentences
):
    now = [100.0]
    marked = []
    said = []
    monkeypatch.setattr(messages.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(QApplication, "alert", lambda window, *_: marked.append(window))
    monkeypatch.setattr(loaded, "isActiveWindow", lambda: active, raising=False)
    loaded.long_work._window = loaded
    loaded.long_work.notified.connect(said.append)
    loaded.settings.notifies = notifies
    loaded.actions_.merge.trigger()
    worker.say(started(), finished_tensor("layer.0.q"))
    now[0] += seconds
    worker.say(*end)
    qtbot.wait(20)
    assert said == sentences
    assert marked == ([loaded] if not active and seconds > 10 else [])


def test_the_title_counts(loaded, worker):
    before = loaded.windowTitle()
    loaded.actions_.merge.trigger()
    worker.say(started(), finished_tensor("layer.0.q"))
    assert loaded.windowTitle() == f"50 % – {before}"
    worker.say(finished_merge(), JobDone())
    assert loaded.windowTitle() == before


def test_the_title_changes_seldom(loaded):
    titles: list[str] = []
    loaded.windowTitleChanged.connect(titles.append)
    activity = loaded.session.activity
    activity.begin(ActivityState.MERGING)
    for done in range(201):
        activity.set_progress(Progress(state=ActivityState.MERGING, done=done, total=200))
    activity.end(ActivityState.MERGING)
    assert len(titles) == 22, "every 5 %, and again without a share"


def test_a_report_can_be_opened_and_shown(loaded, worker, monkeypatch, tmp_path):
    opened: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toLocalFile()))
    file = tmp_path / "merge.html"
    for answer, expected in ((0, file), (1, tmp_path)):
        loaded.output._receive(Reported(file=file, bytes=1))
        notice = loaded.notice
        assert notice.level is Level.INFO
        assert notice.passes  # it goes by itself
        assert [answer.text() for answer in notice.answers] == ["Open", "Show in folder"]
        notice.answers[answer].click()
        assert opened[-1] == str(expected)
    assert loaded.session.log.entries[-1].text == f"The report is in {file}."


def test_a_question_does_not_pass(loaded):
    loaded.notice.ask(Level.INFO, "Really?", "", {"Yes": lambda: None})
    assert not loaded.notice.passes
    loaded.notice.show_message(Level.INFO, "News.")
    assert loaded.notice.passes
    loaded.notice.show_message(Level.ERROR, "Broken.")
    assert not loaded.notice.passes
