"""Where messages stand, and what they say after a merge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QPoint, QRect
from PySide6.QtWidgets import QWidget

from ace_gui.engine.contract.events import JobDone, PlanReady
from ace_gui.engine.contract.jobs import MakeReadyJob, MergeJob, PlanJob
from ace_gui.errors import EngineError
from ace_gui.gui.panels.notice import Notice
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.shell.window_frame import Space
from ace_gui.gui.state.activity import Level
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


def test_after_a_merge_the_strip_speaks_instead_of_a_message(loaded, worker):
    merge(loaded, worker)
    assert not loaded.notice.isVisible()
    assert loaded.workspace.summary.isVisible()
    assert loaded.header.workspaces.current == Space.LAYERS


def test_a_model_that_writes_is_asked_next(opened, worker):
    opened.conductor.plan()
    writer = plan(recipe(COLA, SST2))
    writer = replace(writer, base=replace(writer.base, architecture="LlamaForCausalLM"))
    worker.say(PlanReady(plan=writer), JobDone(), job=worker.newest(PlanJob))
    store = merge(opened, worker)
    assert opened.header.workspaces.current == Space.TRY
    (ready,) = worker.jobs_of(MakeReadyJob)
    assert ready.stores == (store,), "loaded as soon as the merge has ended"


def test_a_restored_merge_is_no_news(loaded, worker):
    merge(loaded, worker)
    loaded.conductor.set_parameter("tau", 0.7)
    merge(loaded, worker)
    loaded.notice.hide()
    loaded.runs.restore(loaded.session.results.runs.all[0])
    worker.say(PlanReady(plan=plan(recipe(COLA, SST2))), JobDone(), job=worker.newest(PlanJob))
    assert not loaded.notice.isVisible()


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
    area = area_of(notice)
    assert area.top() >= button.bottom()
    assert area.top() - button.bottom() < 60
    assert not area.intersects(area_of(loaded.workspace.inspector))
    assert area.right() > loaded.width() // 2
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
