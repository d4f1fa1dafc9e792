from dataclasses import replace

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtWidgets import QApplication, QPlainTextEdit, QToolButton

from ace_gui.engine.contract.events import JobDone, JobFailed, LayerAnalysed, PlanReady
from ace_gui.engine.contract.findings import LayerStatistics
from ace_gui.engine.contract.jobs import AnalyseJob, MergeJob, PlanJob
from ace_gui.engine.contract.plan import EVERYTHING, Check, CheckVerdict
from ace_gui.errors import NonFiniteError
from ace_gui.gui.panels.checks_and_health import CheckRow
from ace_gui.gui.panels.layer_panels import SpectraPanel
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.state.activity import Level
from ace_gui.recipe.values import NonFinite
from tests.gui.fakes import (
    BASE,
    COLA,
    ENGINE,
    GAMMAS,
    SST2,
    FakeWorker,
    analysed,
    make_store,
    plan,
    recipe,
)

FINE = Check(subject=EVERYTHING, title="Names", verdict=CheckVerdict.OK, sentence="All there.")
NOTE = Check(subject="cola", title="Heads", verdict=CheckVerdict.NOTE, sentence="Kept.")
WORRY = Check(
    subject="cola",
    title="Vocabulary",
    verdict=CheckVerdict.WARNING,
    sentence="2 ids of <b>differ</b>.",
    details="id 0\nid 1",
)
ERROR = Check(subject=EVERYTHING, title="Disk", verdict=CheckVerdict.ERROR, sentence="No room.")


def load(window: MainWindow, worker: FakeWorker, *checks: Check) -> None:
    worker.say(ENGINE, job=0)
    window.opener.open_paths([BASE, COLA, SST2])
    replan(worker, *checks)
    worker.say(*analysed(GAMMAS))


def rows(window: MainWindow) -> list[CheckRow]:
    window.workspace.inspector.show_checks()
    return window.workspace.inspector.preflight.list.rows


def merges(worker: FakeWorker) -> int:
    return len(worker.jobs_of(MergeJob))


def replan(worker: FakeWorker, *checks: Check, method: str = "ace") -> None:
    """Answer the newest planning job."""
    worker.say(
        PlanReady(plan=plan(recipe(COLA, SST2, merge_method=method), checks=checks)), JobDone()
    )


def test_what_is_fine_is_listed_and_asks_nothing(window, worker):
    load(window, worker, NOTE, FINE)
    inspector = window.workspace.inspector
    assert isinstance(inspector.tabs.current, SpectraPanel)
    assert [row.check for row in rows(window)] == [NOTE, FINE]
    assert "checks passed" in window.workspace.experts.checks.text()
    window.actions_.merge.trigger()
    assert merges(worker) == 1


def test_worries_come_to_the_front(window, worker):
    load(window, worker, ERROR, WORRY, FINE)
    inspector = window.workspace.inspector
    assert inspector.tabs.current is inspector.preflight
    assert inspector.tabs.tabText(inspector.checks_tab) == "Checks (2)"
    line = window.workspace.experts.checks
    assert line.text() == "1 error, 1 warning"
    inspector.tabs.setCurrentIndex(0)
    line.click()
    assert inspector.tabs.current is inspector.preflight


def test_the_same_worries_do_not_come_to_the_front_again(window, worker):
    load(window, worker, WORRY)
    tabs = window.workspace.inspector.tabs
    tabs.setCurrentIndex(0)
    window.conductor.change(window.session.draft.inputs.with_method("linear"))
    again = replace(WORRY, sentence="3 ids differ.")
    replan(worker, again, method="linear")
    assert tabs.currentIndex() == 0
    assert rows(window)[0].check == again


def test_merge_asks_once_and_goes_on_when_told(window, worker):
    load(window, worker, WORRY, FINE)
    window.actions_.merge.trigger()
    assert merges(worker) == 0
    notice = window.notice
    assert notice.isVisible()
    assert "1 warning" in notice.sentence.text()
    (answer,) = notice.answers
    assert answer.text() == "Merge anyway"
    answer.click()
    assert merges(worker) == 1
    assert not notice.isVisible()
    worker.say(JobDone())
    assert not window.session.checks.worries
    window.actions_.merge.trigger()
    assert merges(worker) == 2


def test_accepted_warnings_stay_accepted_for_the_same_models_alone(window, worker):
    load(window, worker, WORRY)
    before = rows(window)
    window.session.checks.accept()
    assert rows(window) == before
    window.conductor.change(window.session.draft.inputs.with_method("linear"))
    replan(worker, ERROR, WORRY, method="linear")
    assert window.session.checks.worries == (ERROR,)
    window.conductor.change(window.session.draft.inputs.without_experts([1]))
    worker.say(PlanReady(plan=plan(recipe(COLA), checks=(WORRY,))), JobDone())
    assert window.session.checks.worries == (WORRY,)


def test_a_message_in_between_takes_the_question_away(window, worker):
    load(window, worker, WORRY)
    window.actions_.merge.trigger()
    window.session.advice.emit("Something else.")
    assert not window.notice.answers


@pytest.mark.parametrize("change", [0.0, 1.4])
def test_a_base_that_does_not_fit_is_found_when_the_tensors_are_read(window, worker, change):
    worker.say(ENGINE, job=0)
    window.opener.open_paths([BASE, COLA, SST2])
    replan(worker, FINE)
    assert not window.session.checks.worries
    energies = {"cola": change**2, "sst2": 1e-4}
    statistics = LayerStatistics(name="layer.0.q", energies=energies, base_energy=1.0)
    worker.say(LayerAnalysed(statistics=statistics, done=1, total=1), JobDone())
    (worry,) = window.session.checks.worries
    assert (worry.title, worry.subject) == ("Distance from the base", "cola")


def test_rows_speak_show_text_literally_and_open_by_keyboard(window, worker, qtbot):
    load(window, worker, WORRY, FINE)
    first = rows(window)[0]
    assert first.accessibleName().startswith("Warning: Vocabulary, cola. 2 ids of <b>")
    (text,) = first.details.findChildren(QPlainTextEdit)
    assert text.isHidden()
    button = first.details.findChild(QToolButton)
    button.setFocus()
    qtbot.keyClick(button, Qt.Key.Key_Space)
    assert not text.isHidden()
    assert text.toPlainText() == WORRY.details
    window.session.checks.replace((WORRY, FINE, NOTE))
    assert rows(window)[0].details.is_open
    assert not rows(window)[1].details.is_open


def test_without_models_there_are_no_checks(window, worker):
    window.prepare()
    assert not rows(window)
    assert window.workspace.experts.checks.isHidden()
    load(window, worker, WORRY)
    assert rows(window)
    window.conductor.close()
    assert not window.session.checks.all
    assert not rows(window)


def test_errors_stop_a_merge_until_there_is_room(window, worker):
    load(window, worker, ERROR, WORRY)
    window.actions_.merge.trigger()
    (again,) = window.notice.answers
    assert again.text() == "Check again"
    assert window.notice.level is Level.ERROR
    assert "1 error. Disk: No room." in window.notice.sentence.text()
    again.click()
    replan(worker, WORRY)
    assert merges(worker) == 0
    window.actions_.merge.trigger()
    assert [answer.text() for answer in window.notice.answers] == ["Merge anyway"]


@pytest.mark.parametrize("after_refusal", [False, True])
def test_a_full_disk_is_checked_again_when_the_person_comes_back(window, worker, after_refusal):
    load(window, worker, ERROR)
    if after_refusal:
        window.actions_.merge.trigger()
        assert "No room." in window.notice.sentence.text()
    before = len(worker.jobs_of(PlanJob))
    come_back(window)
    assert len(worker.jobs_of(PlanJob)) == before + 1
    come_back(window)
    assert len(worker.jobs_of(PlanJob)) == before + 1, "that answer is on its way"
    replan(worker, FINE)
    assert not window.session.checks.errors
    assert not window.notice.isVisible()
    come_back(window)
    assert len(worker.jobs_of(PlanJob)) == before + 1, "there is room"


def come_back(window: MainWindow) -> None:
    window.activateWindow()
    QApplication.sendEvent(window, QEvent(QEvent.Type.ActivationChange))


def test_a_merge_that_has_its_room_already_goes_on(window, worker):
    load(window, worker, ERROR)
    make_store(window.runs.stores._folder(window.session.draft.inputs.recipe()))
    window.actions_.merge.trigger()
    assert merges(worker) == 1


def test_a_limit_of_memory_is_checked_at_once(window, worker):
    load(window, worker, FINE)
    peak = window.session.draft.plan.peak_bytes
    window.session.limit_memory(peak - 1)
    (error,) = window.session.checks.errors
    assert error.title == "Memory"
    assert "allowed. Allow more, or keep that tensor from the base." in error.sentence
    window.actions_.merge.trigger()
    assert merges(worker) == 0
    window.session.limit_memory(2 * peak)
    window.actions_.merge.trigger()
    assert merges(worker) == 1
    assert worker.jobs[worker.newest(MergeJob)].memory_bytes == 2 * peak


@pytest.mark.parametrize("choice", [NonFinite.KEEP_BASE, NonFinite.SKIP_EXPERT])
def test_nan_in_an_expert_is_a_question(choice, window, worker):
    load(window, worker, FINE)
    window.actions_.merge.trigger()
    error = NonFiniteError("`q` of `cola` has 1 NaN value.", tensor="q", key="non_finite")
    worker.say(JobFailed(error=error))
    keep, leave = window.notice.answers
    assert (keep.text(), leave.text()) == ("Keep the base's tensor", "Leave the expert out of it")
    (keep if choice is NonFinite.KEEP_BASE else leave).click()
    assert window.notice.isHidden()
    assert worker.jobs[worker.newest(PlanJob)].recipe.non_finite is choice
    control = window.workspace.method.options.fields["non_finite"].control
    assert control.currentIndex() > 0


def test_nan_in_the_compared_tensors_fails_a_check_until_the_next_plan(window, worker):
    window.opener.open_paths([BASE, COLA, SST2])
    replan(worker, FINE)
    error = NonFiniteError("`q` of `cola` has 1 NaN value.", tensor="q", key="non_finite")
    worker.say(JobFailed(error=error), job=worker.newest(AnalyseJob))
    assert [check.sentence for check in window.session.checks.errors] == [error.sentence]
    assert window.session.checks.summary == "1 error"
    window.conductor.plan()
    replan(worker, FINE)
    assert not window.session.checks.errors


def test_nan_in_the_base_is_no_question(window, worker):
    load(window, worker, FINE)
    worker.say(JobFailed(error=NonFiniteError("`q` of `base` has 1 NaN value.", tensor="q")))
    assert not window.notice.answers
