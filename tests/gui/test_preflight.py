from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from ace_gui.engine.checks import EVERYTHING, Check, Verdict
from ace_gui.engine.events import JobDone, LayerAnalysed, LayerStatistics, PlanReady
from ace_gui.engine.jobs import MergeJob
from ace_gui.gui.main_window import MainWindow
from ace_gui.gui.panels.preflight import CheckRow
from tests.gui.fakes import BASE, COLA, ENGINE, GAMMAS, SST2, FakeWorker, analysed, plan, recipe

FINE = Check(subject=EVERYTHING, title="Names", verdict=Verdict.OK, sentence="All there.")
NOTE = Check(subject="cola", title="Heads", verdict=Verdict.NOTE, sentence="Kept.")
WORRY = Check(
    subject="cola",
    title="Vocabulary",
    verdict=Verdict.WARNING,
    sentence="2 ids of <b>differ</b>.",
    details="id 0\nid 1",
)
ERROR = Check(subject=EVERYTHING, title="Disk", verdict=Verdict.ERROR, sentence="No room.")


def load(window: MainWindow, worker: FakeWorker, *checks: Check) -> None:
    worker.say(ENGINE, job=0)
    window.opener.open_paths([BASE, COLA, SST2])
    worker.say(PlanReady(plan=plan(recipe(COLA, SST2), checks=checks)), JobDone())
    worker.say(*analysed(GAMMAS))


def rows(window: MainWindow) -> list[CheckRow]:
    layout = window.workspace.inspector.preflight._rows
    widgets = (layout.itemAt(index).widget() for index in range(layout.count()))
    return [widget for widget in widgets if isinstance(widget, CheckRow)]


def merges(worker: FakeWorker) -> int:
    return sum(isinstance(job, MergeJob) for job in worker.jobs.values())


def test_nothing_is_shown_before_there_is_a_plan(window: MainWindow) -> None:
    window.prepare()
    assert not rows(window)
    assert window.workspace.experts.checks.isHidden()


def test_what_is_fine_is_listed_and_asks_nothing(window: MainWindow, worker: FakeWorker) -> None:
    load(window, worker, NOTE, FINE)
    inspector = window.workspace.inspector
    assert [row.check for row in rows(window)] == [NOTE, FINE]
    assert inspector.tabs.currentWidget() is inspector.spectrum
    assert "no warnings" in window.workspace.experts.checks.text()
    window.actions_.merge.trigger()
    assert merges(worker) == 1


def test_worries_come_to_the_front(window: MainWindow, worker: FakeWorker) -> None:
    load(window, worker, ERROR, WORRY, FINE)
    inspector = window.workspace.inspector
    assert inspector.tabs.currentWidget() is inspector.preflight
    assert inspector.tabs.tabText(inspector.tabs.indexOf(inspector.preflight)) == "Checks (2)"
    line = window.workspace.experts.checks
    assert line.text() == "1 error, 1 warning · show"
    inspector.tabs.setCurrentIndex(0)
    line.click()
    assert inspector.tabs.currentWidget() is inspector.preflight


def test_the_same_worries_do_not_come_to_the_front_again(
    window: MainWindow, worker: FakeWorker
) -> None:
    load(window, worker, WORRY)
    tabs = window.workspace.inspector.tabs
    tabs.setCurrentIndex(0)
    window.conductor.choose_method("linear")
    again = replace(WORRY, sentence="3 ids differ.")
    changed = plan(recipe(COLA, SST2, merge_method="linear"), checks=(again,))
    worker.say(PlanReady(plan=changed), JobDone())
    assert tabs.currentIndex() == 0
    assert rows(window)[0].check == again


def test_merge_asks_once_and_goes_on_when_told(window: MainWindow, worker: FakeWorker) -> None:
    load(window, worker, WORRY, FINE)
    window.actions_.merge.trigger()
    assert merges(worker) == 0
    notice = window.notice
    assert notice.isVisible()
    assert "1 warning" in notice.sentence.text()
    assert notice.consent_button.text() == "Merge anyway"
    notice.consent_button.click()
    assert merges(worker) == 1
    assert not notice.isVisible()
    worker.say(JobDone())
    assert not window.session.worries
    window.actions_.merge.trigger()
    assert merges(worker) == 2


def test_another_warning_is_asked_about_again(window: MainWindow, worker: FakeWorker) -> None:
    load(window, worker, WORRY)
    window.session.accept_checks()
    window.conductor.choose_method("linear")
    changed = plan(recipe(COLA, SST2, merge_method="linear"), checks=(ERROR, WORRY))
    worker.say(PlanReady(plan=changed), JobDone())
    assert window.session.worries == (ERROR,)


def test_other_experts_are_asked_about_anew(window: MainWindow, worker: FakeWorker) -> None:
    load(window, worker, WORRY)
    window.session.accept_checks()
    window.conductor.remove_experts([1])
    worker.say(PlanReady(plan=plan(recipe(COLA), checks=(WORRY,))), JobDone())
    assert window.session.worries == (WORRY,)


def test_a_message_in_between_takes_the_question_away(
    window: MainWindow, worker: FakeWorker
) -> None:
    load(window, worker, WORRY)
    window.actions_.merge.trigger()
    window.session.advice.emit("Something else.")
    assert window.notice.consent_button.isHidden()


@pytest.mark.parametrize(("change", "subject"), [(0.0, "cola"), (1.4, "cola")])
def test_a_base_that_does_not_fit_is_found_when_the_tensors_are_read(
    window: MainWindow, worker: FakeWorker, change: float, subject: str
) -> None:
    worker.say(ENGINE, job=0)
    window.opener.open_paths([BASE, COLA, SST2])
    worker.say(PlanReady(plan=plan(recipe(COLA, SST2), checks=(FINE,))), JobDone())
    assert not window.session.worries
    energies = {"cola": change**2, "sst2": 1e-4}
    statistics = LayerStatistics(name="layer.0.q", energies=energies, base_energy=1.0)
    worker.say(LayerAnalysed(statistics=statistics, done=1, total=1), JobDone())
    (worry,) = window.session.worries
    assert (worry.title, worry.subject) == ("Distance from the base", subject)


def test_rows_speak_show_text_literally_and_open_by_keyboard(
    window: MainWindow, worker: FakeWorker, qtbot: QtBot
) -> None:
    load(window, worker, WORRY, FINE)
    first = rows(window)[0]
    assert first.accessibleName().startswith("Warning: Vocabulary, cola. 2 ids of <b>")
    assert first.details.isHidden()
    first.details_button.setFocus()
    qtbot.keyClick(first.details_button, Qt.Key.Key_Space)
    assert not first.details.isHidden()
    assert first.details.toPlainText() == WORRY.details
    window.workspace.inspector.preflight.refresh()
    assert not rows(window)[0].details.isHidden()


def test_closing_the_models_takes_the_checks_along(window: MainWindow, worker: FakeWorker) -> None:
    load(window, worker, WORRY)
    window.conductor.close()
    assert not window.session.checks
    assert not rows(window)
