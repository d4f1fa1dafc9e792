"""Where messages stand, and what they say after a merge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QRect, QSize
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QComboBox,
    QLineEdit,
    QListView,
    QWidget,
)
from pytestqt.qtbot import QtBot

from ace_gui.engine.contract.events import JobDone, PlanReady
from ace_gui.engine.contract.jobs import MakeReadyJob, MergeJob, PlanJob
from ace_gui.errors import EngineError
from ace_gui.gui.panels.notice import Notice
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.shell.toast import cheapest_place
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


def resize(window: MainWindow, qtbot: QtBot, width: int, height: int) -> None:
    """Lay the window out in another size."""
    window.resize(width, height)
    qtbot.wait(50)


def controls_of(window: MainWindow) -> list[QWidget]:
    """Buttons, fields and lists that are in view, but for those of the message."""
    kinds = (QAbstractButton, QAbstractSpinBox, QComboBox, QLineEdit, QListView)
    controls = [control for kind in kinds for control in window.findChildren(kind)]
    return [
        control
        for control in controls
        if control.isVisible()
        and not window.notice.isAncestorOf(control)
        and not control.visibleRegion().isEmpty()
    ]


def test_a_question_covers_no_control_in_a_low_window(loaded, qtbot):
    """There it may cover what it is about, where that is long."""
    resize(loaded, qtbot, 900, 600)
    loaded.workspace.show_checks()
    loaded.notice.ask(Level.WARNING, "Two warnings.", "", {"Merge anyway": lambda: None})
    qtbot.wait(200)  # it slides in
    for control in controls_of(loaded):
        area = area_of(loaded.notice)
        assert not area.intersects(area_of(control)), control.accessibleName()


def test_a_question_stands_beside_the_checks_and_covers_no_control(loaded, qtbot):
    resize(loaded, qtbot, 1440, 900)
    notice = loaded.notice
    inspector = area_of(loaded.workspace.inspector)
    notice.ask(Level.WARNING, "Two warnings.", "", {"Merge anyway": lambda: None})
    qtbot.wait(200)  # it slides in
    area = area_of(notice)
    assert not area.intersects(inspector)
    assert area.intersects(inspector.adjusted(-80, -80, 80, 80))
    for control in controls_of(loaded):
        assert not area.intersects(area_of(control)), control.accessibleName()


@pytest.mark.parametrize("size", [(1440, 900), (1280, 720)])
def test_news_stand_beside_the_control_that_made_them_and_cover_none(loaded, worker, qtbot, size):
    resize(loaded, qtbot, *size)
    loaded.activateWindow()
    merge(loaded, worker)
    qtbot.wait(50)
    workspace = loaded.workspace
    for control in (workspace.runs.list, workspace.layers.text, workspace.project_name):
        control.setFocus()
        loaded.notice.show_message(Level.INFO, "The table is in layers.csv.")
        qtbot.wait(200)  # it slides in
        area = area_of(loaded.notice)
        for needed in controls_of(loaded):
            assert not area.intersects(area_of(needed)), needed.accessibleName()


def test_the_cheapest_place_is_the_nearest_among_the_free():
    room = QRect(0, 0, 320, 160)
    free = [[0] * 20 for _ in range(10)]
    size = QSize(64, 32)
    button = QRect(256, 0, 32, 16)
    assert cheapest_place(free, room, size, button).y() == 0
    covered = [row[:] for row in free]
    for row in covered[:4]:
        row[8:] = [1000] * 12
    place = cheapest_place(covered, room, size, button)
    assert place == QPoint(192, 64), "below what must not be covered"
    full = [[1000] * 20 for _ in range(10)]
    full[9] = [1] * 20
    assert cheapest_place(full, room, size, button).y() == 128, "what costs least"


def test_a_message_that_grows_stays_where_it_is(loaded, qtbot):
    resize(loaded, qtbot, 1440, 900)
    notice = loaded.notice
    notice.show_error(EngineError("The labels are not known.", details="a line\n" * 20))
    before = area_of(notice)
    notice.details_button.click()
    after = area_of(notice)
    assert after.height() > before.height()
    assert after.intersects(before)


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
