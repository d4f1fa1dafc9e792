"""Preferences are remembered and applied at once, in the window and in the engine."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path

import pytest
from PySide6.QtCore import QThreadPool
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLineEdit,
    QWidget,
)
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from ace_gui.engine.contract.events import EngineReady, JobDone
from ace_gui.engine.contract.jobs import ConfigureJob
from ace_gui.engine.planning.requirements import free_disk_bytes
from ace_gui.gui.control.merge_operation import read_all
from ace_gui.gui.control.merge_stores import MergeStores, record_of
from ace_gui.gui.dialogs.output_dialogs import ExportDialog
from ace_gui.gui.dialogs.preferences_dialog import PreferencesDialog
from ace_gui.gui.plots.frame.base_plot import Plot
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.shell.window_layout import VIEWS
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.theme import Face, current_theme, face
from ace_gui.gui.widgets.layout import move_focus
from ace_gui.paths import cache_root, merges_folder, use_scratch
from ace_gui.recipe import Recipe
from tests.gui.fakes import BASE, ENGINE, FakeWorker, recorded


@pytest.fixture(autouse=True)
def _as_before(qapp: QApplication):
    yield
    use_scratch(None)


@pytest.fixture
def dialog(window: MainWindow, worker: FakeWorker) -> PreferencesDialog:
    worker.say(ENGINE, job=0)
    window.actions_.preferences.trigger()
    (opened,) = window.findChildren(PreferencesDialog)
    yield opened
    opened.close()


def newest(worker: FakeWorker) -> ConfigureJob:
    job = worker.jobs[worker.newest(ConfigureJob)]
    assert isinstance(job, ConfigureJob)
    return job


def test_threads_go_to_the_engine_and_to_each_new_one(dialog, window, worker):
    dialog.threads.setRange(0, 8)
    dialog.threads.setValue(3)
    assert Settings().threads == 3
    assert newest(worker).threads == 3
    reported = EngineReady(**{**vars(ENGINE), "threads": 3})
    worker.say(reported, JobDone())
    count = len(worker.jobs)
    assert window.session.engine == reported
    worker.say(ENGINE, job=0)  # another engine, after a crash
    assert len(worker.jobs) == count + 1
    dialog.threads.setValue(0)
    assert Settings().threads is None
    assert newest(worker).threads is None


def test_the_scratch_folder_is_where_new_merges_go_and_old_ones_stay_known(
    dialog, window, worker, tmp_path
):
    scratch = tmp_path / "fast"
    dialog.scratch.take(scratch)
    assert newest(worker).scratch == scratch
    assert merges_folder() == scratch / "merges"
    assert Settings().merge_folders == (scratch / "merges", cache_root() / "merges")
    assert str(scratch) in dialog.scratch.size_label.accessibleName()
    dialog.scratch.take(None)
    assert merges_folder() == cache_root() / "merges"
    assert Settings().merge_folders == (cache_root() / "merges", scratch / "merges")


def test_runs_are_found_in_every_scratch_folder(tmp_path):
    stores = MergeStores(tmp_path / "one")
    stores.roots = (tmp_path / "two", tmp_path / "one")
    assert stores.roots == (tmp_path / "two", tmp_path / "one")
    assert read_all(*stores.roots) == []  # neither is there


def test_runs_older_than_wanted_are_removed_and_others_stay(tmp_path, qapp):
    stores = MergeStores(tmp_path)
    old, new = (
        recorded(tmp_path / (name * 32), Recipe(base_model=BASE, models=())) for name in "ab"
    )
    for store, days in ((old, 40), (new, 20)):
        when = time.time() - days * 24 * 3600
        os.utime(record_of(store), (when, when))
    stores.sweep(0)
    QThreadPool.globalInstance().waitForDone()
    assert old.exists()
    stores.sweep(30)
    QThreadPool.globalInstance().waitForDone()
    assert sorted(tmp_path.iterdir()) == [new, record_of(new)]


def test_colours_are_those_of_the_menu_and_memory_is_of_the_machine(dialog, window, worker):
    dialog.scheme.choose("dark")
    assert current_theme().dark
    chosen = [action.data() for action in window.actions_.schemes.actions() if action.isChecked()]
    assert chosen == ["dark"]
    window.preferences.choose_scheme("system")
    worker.say(EngineReady(**{**vars(ENGINE), "memory_bytes": 8_000_000_000}), job=0)
    window.actions_.memory.trigger()
    field = window.findChildren(PreferencesDialog)[-1].memory
    assert field.maximum() == 8.0
    field.setValue(2.0)
    assert Settings().memory_bytes == window.session.memory_bytes == 2_000_000_000
    field.setValue(0.0)
    assert window.session.memory_bytes is Settings().memory_bytes is None


def enlarge(window: MainWindow, percent: int, qtbot: QtBot) -> None:
    """Prefer letters of this size, and wait until the window has them."""
    window.preferences.enlarge(percent)
    qtbot.waitUntil(window.centralWidget().updatesEnabled)


def test_letters_grow_everywhere_and_shrink_again(dialog, window, qapp, qtbot):
    before = {widget: widget.font().pointSizeF() for widget in window.findChildren(QWidget)}
    body = qapp.font().pointSizeF()
    title = face(Face.TITLE).pointSizeF()
    try:
        enlarge(window, 150, qtbot)
        assert qapp.font().pointSizeF() == pytest.approx(1.5 * body)
        assert face(Face.TITLE).pointSizeF() == pytest.approx(1.5 * title)
        before = {widget: size for widget, size in before.items() if isValid(widget)}
        for widget, size in before.items():
            assert widget.font().pointSizeF() == pytest.approx(1.5 * size), widget
    finally:
        enlarge(window, 100, qtbot)
    assert qapp.font().pointSizeF() == pytest.approx(body)
    for widget, size in before.items():
        assert widget.font().pointSizeF() == pytest.approx(size), widget


def test_the_names_on_the_rail_have_room_in_larger_letters(loaded, qtbot):
    experts = loaded.workspace.left.rail.experts
    before = experts.minimumHeight()
    try:
        enlarge(loaded, 200, qtbot)
        names = len(loaded.session.draft.inputs.names)
        more = QFontMetrics(face(Face.CAPTION)).height() // 2
        assert experts.minimumHeight() >= before + names * (more - 1)
    finally:
        enlarge(loaded, 100, qtbot)


def test_what_is_measured_in_letters_follows_them(loaded, qtbot):
    workspace = loaded.workspace

    def measures() -> list[float]:
        workspace.cards.bring(VIEWS)  # a plot that nobody sees catches up when it is shown
        axis = workspace.heterogeneity.findChildren(Plot)[0].canvas.getAxis("bottom")
        rows = workspace.experts.table.verticalHeader()
        return [
            rows.defaultSectionSize(),
            workspace.layers.text.minimumWidth(),
            workspace.left.rail.maximumWidth(),
            axis.style["tickFont"].pointSizeF(),
        ]

    before = measures()
    try:
        enlarge(loaded, 200, qtbot)
        for now, then in zip(measures(), before, strict=True):
            assert 1.5 * then < now < 2.5 * then
        loaded.preferences.enlarge(150)  # before its second half is done, another size is wanted
        enlarge(loaded, 200, qtbot)
        assert measures()[0] > 1.5 * before[0]
    finally:
        enlarge(loaded, 100, qtbot)
    assert measures() == pytest.approx(before)


CONTROLS = (QComboBox, QAbstractSpinBox, QLineEdit, QAbstractButton)


@pytest.mark.parametrize("sizes", [(150, 100), (200, 110, 100), (110, 200, 150)], ids=str)
def test_controls_have_the_size_of_the_text_and_tab_goes_on(loaded, qtbot, sizes):
    loaded.activateWindow()

    def least() -> dict[QWidget, tuple[int, int]]:
        controls = [control for kind in CONTROLS for control in loaded.findChildren(kind)]
        hints = [
            (control, control.minimumSizeHint()) for control in controls if control.isVisible()
        ]
        return {control: (hint.width(), hint.height()) for control, hint in hints}

    before = least()
    combos = [control for control in before if isinstance(control, QComboBox)]
    assert combos
    try:
        for size in sizes:
            enlarge(loaded, size, qtbot)
            gc.collect()
            for control in combos:
                assert control.minimumSizeHint().height() > control.fontMetrics().height()
                assert control.minimumSizeHint().height() <= control.height()
            for _ in range(30):
                assert move_focus(loaded, forward=True)
    finally:
        enlarge(loaded, 100, qtbot)
    now = least()
    assert {control: now[control] for control in before if control in now} == before


def test_exports_are_proposed_in_the_folder_that_is_preferred(loaded, tmp_path, qtbot):
    loaded.settings.export_folder = tmp_path
    dialog = ExportDialog(loaded.session, loaded.output, loaded)
    assert Path(dialog.folder.text()).parent == tmp_path
    dialog.deleteLater()


def test_the_disk_that_counts_is_that_of_the_scratch_folder(tmp_path, monkeypatch):
    paths: list[Path] = []
    monkeypatch.setattr("ace_gui.engine.planning.requirements.free_bytes", paths.append)
    use_scratch(tmp_path)
    free_disk_bytes()
    assert paths == [tmp_path / "merges"]
