"""Where messages stand, and what they say after a merge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QRect
from PySide6.QtWidgets import QWidget

from ace_gui.engine.contract.events import JobDone, PlanReady
from ace_gui.engine.contract.findings import LayerReport, Regime
from ace_gui.engine.contract.jobs import MergeJob, PlanJob
from ace_gui.errors import EngineError
from ace_gui.gui.panels.checks_and_health import HealthPanel
from ace_gui.gui.panels.notice import Notice
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.shell.messages import what_to_see
from ace_gui.gui.shell.window_frame import Space
from ace_gui.gui.state.activity import Level, MergeRun
from tests.gui.fakes import (
    COLA,
    SST2,
    FakeWorker,
    finished_merge,
    finished_tensor,
    plan,
    recipe,
    started,
)


def area_of(widget: QWidget) -> QRect:
    return QRect(widget.mapTo(widget.window(), QPoint()), widget.size())


def merge(window: MainWindow, worker: FakeWorker) -> Path:
    window.actions_.merge.trigger()
    number = worker.newest(MergeJob)
    store: Path = worker.jobs[number].store
    tensor = finished_tensor("layer.10.q")
    tensor = replace(tensor, report=replace(tensor.report, gamma=0.9))
    worker.say(started(), tensor, finished_merge(store), JobDone(), job=number)
    return store


def test_after_each_merge_one_message_says_what_is_worth_seeing(loaded, worker):
    merge(loaded, worker)
    assert "0.9" in loaded.notice.message_text
    see = loaded.notice.answers[0]
    see.click()
    assert loaded.session.selection == "layer.10.q"
    loaded.conductor.set_parameter("tau", 0.7)
    merge(loaded, worker)
    assert loaded.notice.isVisible()
    loaded.notice.answers[1].click()
    assert loaded.header.workspaces.current == Space.SCORES


def test_a_restored_merge_is_no_news(loaded, worker):
    merge(loaded, worker)
    loaded.conductor.set_parameter("tau", 0.7)
    merge(loaded, worker)
    loaded.notice.hide()
    loaded.runs.restore(loaded.session.results.runs.all[0])
    worker.say(PlanReady(plan=plan(recipe(COLA, SST2))), JobDone(), job=worker.newest(PlanJob))
    assert not loaded.notice.isVisible()


def report(name: str, **changes: object) -> LayerReport:
    return LayerReport(name=name, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reports", "warned", "words"),
    [
        ([report("a", gamma=3.0), report("b", regime=Regime.HETEROGENEOUS)], 2, "2 matrices have"),
        ([report("a", regime=Regime.HETEROGENEOUS), report("b")], 0, "heterogeneous"),
        ([report("a", gamma=0.25), report("b", gamma=0.5)], 0, "differ most in b (γ\u00a00.50)"),
        ([report("a", gamma=1.84e-4), report("b", gamma=1e-5)], 0, "2 tensors. In each, all"),
        ([report("a", gamma=0.0), report("unsure", gamma=6.0)], 0, "about the same size"),
        (
            [report("a", gamma=0.25), report("unsure", gamma=6.0)],
            0,
            "differ most in a (γ\u00a00.25)",
        ),
        ([report("a"), report("kept"), report("unsure", gamma=6.0)], 0, "2 tensors"),
    ],
)
def test_the_worst_comes_first(reports, warned, words):
    run = MergeRun(recipe=recipe(COLA), store=Path("/cache/store"))
    run.reports |= {report.name: report for report in reports}
    assert words in what_to_see(run, warned, merged=2, unsure={"unsure"})


def test_layers_with_warnings_are_one_click_away(loaded, worker):
    loaded.actions_.merge.trigger()
    number = worker.newest(MergeJob)
    tensor = finished_tensor("layer.10.q")
    tensor = replace(tensor, report=replace(tensor.report, warnings=("Beware.",)))
    store = worker.jobs[number].store
    worker.say(started(), tensor, finished_merge(store), JobDone(), job=number)
    assert "warning" in loaded.notice.message_text
    loaded.notice.answers[0].click()
    assert isinstance(loaded.workspace.heterogeneity.tabs.current, HealthPanel)


def test_an_error_goes_when_work_begins_anew(loaded, worker):
    loaded.show_error(EngineError("The labels are not known."))
    assert loaded.notice.isVisible()
    loaded.actions_.merge.trigger()
    worker.say(started(), job=worker.newest(MergeJob))
    assert not loaded.notice.isVisible()


def test_a_question_stands_below_the_button_that_asked_it(loaded):
    loaded.resize(1440, 900)
    notice = loaded.notice
    button = area_of(loaded.header.primary.main)
    notice.ask(Level.WARNING, "Two warnings.", "", {"Merge anyway": lambda: None})
    asked = area_of(notice)
    assert asked.top() >= button.bottom()
    assert asked.top() - button.bottom() < 60
    assert not asked.intersects(area_of(loaded.workspace.inspector))
    assert asked.right() > loaded.width() // 2
    notice.show_message(Level.INFO, "News.")
    assert area_of(notice).bottom() > 700
    assert area_of(notice).left() < 20


def test_news_do_not_cover_what_is_being_edited(loaded):
    loaded.resize(1440, 900)
    loaded.activateWindow()
    notice = loaded.notice
    fields = [field.control for field in loaded.workspace.method.fields.values()]
    for control in (*fields, loaded.workspace.runs.list, loaded.workspace.layers.table):
        control.setFocus()
        notice.show_message(Level.INFO, "News. " * 30)
        if control.hasFocus() and control.height() < 300:
            assert not area_of(notice).intersects(area_of(control))
    assert isinstance(notice, Notice)
