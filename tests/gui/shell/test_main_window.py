import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from PySide6.QtCore import (
    QByteArray,
    QEvent,
    QObject,
    QPoint,
    QRect,
    Qt,
)
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QAbstractItemView,
    QMessageBox,
    QPushButton,
    QSplitter,
)

from ace_gui.engine.contract.events import (
    FoundModel,
    JobCancelled,
    JobDone,
    JobFailed,
    ModelsFound,
    PassProgress,
    PlanReady,
)
from ace_gui.engine.contract.jobs import LoadRecipeJob, MergeJob, PlanJob, ScanJob
from ace_gui.errors import CheckpointError
from ace_gui.gui.control.merge_stores import MergeStores
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.state.activity import ActivityState
from ace_gui.gui.state.draft import Inputs
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.theme import DARK, LIGHT, apply_theme, set_scheme
from ace_gui.gui.theme.style import tab_space
from tests.gui.fakes import (
    BASE,
    COLA,
    ENGINE,
    SST2,
    TWO,
    FakeWorker,
    finished_merge,
    finished_tensor,
    load,
    plan,
    recipe,
    started,
)
from tests.helpers.windows import drop


def test_an_empty_window_offers_to_begin_and_nothing_else(window):
    assert window.welcome.isVisible()
    a = window.actions_
    assert a.open_base.isEnabled()
    assert a.sample.isEnabled()
    for action in (a.add_experts, a.merge, a.cancel, a.export, a.save_recipe, a.find):
        assert not action.isEnabled(), action.text()


SIZES = ((700, 500), (1000, 700), (1440, 900), (2560, 1440), (5000, 1000), (1000, 4000))


@pytest.mark.parametrize("screen", [(1024, 700), (1280, 720), (1440, 900), (2560, 1440)])
def test_the_window_fits_the_screen_whatever_was_remembered(window, monkeypatch, screen):
    monkeypatch.setattr(window, "screen", lambda: Mock(availableGeometry=lambda: room))
    room = QRect(0, 30, *screen)
    for remembered in (None, *SIZES):
        window.setWindowState(Qt.WindowState.WindowNoState)
        window.hide()
        if remembered is not None:
            window.settings.geometry = QByteArray(b"known")
            window.resize(*remembered)
        width, height = window.size().toTuple()
        window.fit_to_screen()
        assert window.isMaximized() == (width >= screen[0] - 15 or height >= screen[1] - 47)
        assert window.width() <= max(screen[0], window.minimumWidth())
        assert window.height() <= max(screen[1], window.minimumHeight())


MODELS = {
    "together": ("/models/glue/base", ("/models/glue/cola", "/models/glue/more/sst2"), "glue"),
    "detach": ("/models/bert", ("/elsewhere/cola",), "cola"),
    "alone": ("/models/glue/base", (), "glue"),
    "at the root": ("/base", ("/cola",), "cola"),
    "cached": (
        "/hub/models--org--bert/snapshots/abc",
        ("/hub/models--org--bert/snapshots/abd",),
        "bert",
    ),
}


def test_a_project_without_a_file_is_called_by_its_models_folder_or_its_experts(opened):
    for case, (base, experts, name) in MODELS.items():
        inputs = Inputs(base=Path(base)).with_experts(map(Path, experts))
        opened.session.adopt(inputs, plan(inputs.recipe()))
        assert opened.project.name == name, case
    opened.project.saved(Path("/recipes/mine.ace.yaml"))
    assert opened.project.name == "mine"


def test_loading_shows_the_workspace_and_allows_to_merge(loaded):
    assert loaded.workspace.isVisible()
    assert loaded.actions_.merge.isEnabled()
    assert loaded.windowTitle().startswith(BASE.parent.name)
    assert loaded.workspace.layers.model.total == 5


def test_progress_waits_for_the_turns_own_repaint(loaded, worker):
    loaded.actions_.merge.trigger()
    painted: list[QEvent.Type] = []

    class EventWatch(QObject):
        def eventFilter(self, _watched: QObject, event: QEvent) -> bool:
            painted.append(event.type())
            return False

    watch = EventWatch()
    worker.say(started(), finished_tensor("layer.0.q"))
    loaded.grab()
    primary = loaded.header.primary
    primary.main.installEventFilter(watch)
    primary.refresh()
    assert primary.main.share == 0.5
    assert QEvent.Type.Paint not in painted


def test_a_window_does_not_grow_by_being_used(loaded, qtbot):
    """What every change leaves behind has to be gone through by the next."""

    def change(epsilon: float) -> int:
        loaded.session.draft.set_parameter("epsilon", epsilon)
        qtbot.wait(50)
        return len(loaded.findChildren(QObject))

    change(1e-6)  # what opening left to be made and deleted goes first
    qtbot.wait(400)
    counts = [change(10.0**-power) for power in (2, 3, 4, 5, 6, 7)]
    assert min(counts[3:]) <= max(counts[:3]), "but for a passing animation"


def test_a_merge_locks_the_models_and_unlocks_the_export(loaded, worker):
    a = loaded.actions_
    a.merge.trigger()
    worker.say(started(), finished_tensor("layer.0.q"))
    assert a.cancel.isEnabled()
    assert not a.merge.isEnabled()
    assert not a.add_experts.isEnabled()
    primary = loaded.header.primary
    primary.refresh()  # progress is shown now and then only
    assert primary.main.text().startswith("1 of 2")
    worker.say(finished_merge(), JobDone())
    assert a.export.isEnabled()
    assert primary.message.text() == "Merged in 0:01"
    assert primary.main.text() == "Export…"
    loaded.conductor.set_parameter("tau", 0.7)
    assert primary.outdated.isVisible()
    assert primary.main.text() == "Merge again"


def test_opening_and_merging_frame_no_row_of_a_table(window, worker):
    next(
        button for button in window.welcome.findChildren(QPushButton) if button.isVisible()
    ).setFocus()
    window.session.adopt(TWO, plan(recipe(COLA, SST2)))
    assert window.workspace.isVisible()
    window.session.activity.begin(ActivityState.MERGING)  # disables what might have the focus
    assert not isinstance(window.focusWidget(), QAbstractItemView)


def test_the_main_button_adds_experts_to_a_base_alone(window, worker, qtbot):
    window.session.adopt(Inputs(base=BASE), plan(recipe()))
    main = window.header.primary.main
    assert main.isEnabled()
    assert main.text() == "Add experts…"
    with qtbot.waitSignal(window.actions_.add_experts.triggered):
        main.click()
    window.session.adopt(TWO, plan(recipe(COLA, SST2)))
    assert main.text() == "Merge"


def test_a_cancelled_merge_is_offered_to_be_continued(loaded, worker):
    loaded.actions_.merge.trigger()
    worker.say(started(), finished_tensor("layer.0.q"))
    loaded.actions_.cancel.trigger()
    worker.say(JobCancelled())
    assert "Continue" in loaded.actions_.merge.text()
    assert loaded.actions_.merge.isEnabled()


def test_an_error_is_shown_and_nothing_is_unloaded(loaded, worker):
    loaded.conductor.add_experts([Path("/models/empty")])
    worker.say(JobFailed(error=CheckpointError("File is empty (0 bytes). Download it again.")))
    assert loaded.notice.isVisible()
    assert "Download it again" in loaded.notice.sentence.text()
    assert loaded.workspace.experts.model.rowCount() == 2
    load(worker, COLA, SST2)  # nothing was asked: nothing happens
    assert loaded.notice.isVisible()


def test_selecting_anywhere_selects_everywhere(loaded, worker, qtbot):
    table = loaded.workspace.layers.table
    table.expandAll()
    with qtbot.waitSignal(loaded.queries.awaited):
        loaded.actions_.top_layer.trigger()
        assert table.currentIndex().data() == "…10.q"
        assert loaded.workspace.heterogeneity.plot.selected == "layer.10.q"
        qtbot.keyClick(table, Qt.Key.Key_Up)  # to its block
        qtbot.keyClick(table, Qt.Key.Key_Up)
        assert loaded.session.selection == "layer.2.q"
        loaded.workspace.heterogeneity.plot.layer_selected.emit("layer.0.q")
        assert table.currentIndex().data() == "…0.q"
    worker.say(JobDone())


@pytest.mark.parametrize("name", ["find", "next_layer", "previous_layer", "top_layer", "maximise"])
def test_what_is_done_with_layers_shows_them(loaded, worker, name):
    loaded.workspace.show_scores()
    getattr(loaded.actions_, name).trigger()
    assert loaded.workspace.layers.isVisible()
    worker.say(JobDone())


def test_the_threshold_dragged_in_the_plot_reaches_form_and_table(loaded):
    plot = loaded.workspace.heterogeneity.plot
    plot.tau_changed.emit(0.6)
    assert loaded.workspace.method.fields["tau"].control.value() == 0.6
    assert "tau" not in loaded.session.draft.inputs.touched
    plot.tau_committed.emit(0.6)
    assert loaded.session.draft.inputs.touched == {"tau": 0.6}
    loaded.workspace.method.fields["tau"].control.setValue(0.2)
    assert plot.tau == pytest.approx(0.2)


def test_a_first_drop_is_the_base_and_later_ones_are_experts(window, worker, tmp_path):
    drop(window, tmp_path / "base")
    assert worker.jobs[1] == LoadRecipeJob(paths=(tmp_path / "base",))
    load(worker)
    drop(window, tmp_path / "a", tmp_path / "b")
    planned = worker.jobs[worker.newest(PlanJob)].recipe
    assert [entry.model.name for entry in planned.models] == ["a", "b"]


def test_folders_take_the_method_that_was_chosen_before(window, worker, tmp_path):
    worker.say(ENGINE, job=0)
    window.conductor.change(window.session.draft.inputs.with_method("linear"))
    window.opener.open_paths([tmp_path / "base", tmp_path / "a"])
    job = worker.jobs[worker.newest(LoadRecipeJob)]
    assert job.chosen is not None
    assert job.chosen.merge_method == "linear"
    load(worker)
    window.opener.open_paths([tmp_path / "other"])
    assert worker.jobs[worker.newest(LoadRecipeJob)].chosen is None, "that was another project"


def test_models_of_one_name_are_told_apart_by_their_folders(window, worker, tmp_path):
    drop(window, tmp_path / "x", tmp_path / "y")
    paths = [tmp_path / name for name in ("x/base", "y/base", "y/law")]
    models = tuple(FoundModel(path=path, architecture="Toy", bytes=5) for path in paths)
    worker.say(ModelsFound(models=models, base=None, alike=(frozenset(),) * 3), JobDone())
    tree = window.opener.scanned.tree
    names = [tree.topLevelItem(row).text(0) for row in range(tree.topLevelItemCount())]
    assert names == ["x/base", "y/base", "law"]


def test_several_models_at_once_raise_the_question_of_the_base(window, worker, tmp_path):
    first = tmp_path / "a"
    second = tmp_path / "b"
    broken = tmp_path / "broken"
    drop(window, first, second, broken)
    assert worker.jobs[1] == ScanJob(paths=(first, second, broken))
    models = (
        FoundModel(path=first, architecture="Toy", bytes=5),
        FoundModel(path=second, architecture="Toy", bytes=5),
        FoundModel(path=broken, problem="File is empty."),
    )
    alike = (frozenset({0, 1}), frozenset({0, 1}), frozenset())
    worker.say(ModelsFound(models=models, base=None, alike=alike), JobDone())
    dialog = window.opener.scanned
    assert dialog is not None
    assert not dialog.take.isEnabled()
    base = next(b for b in dialog.bases.buttons() if b.accessibleName() == "b is the base model")
    base.click()
    assert dialog.experts() == [first]
    dialog.take.click()
    assert worker.jobs[2] == LoadRecipeJob(paths=(second, first))


def test_a_folder_of_models_is_looked_into(loaded, worker, tmp_path):
    for name in ("base", "mnli"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").touch()
    drop(loaded, tmp_path)
    assert worker.jobs[worker.newest(ScanJob)] == ScanJob(paths=(tmp_path,), base=BASE)
    models = (FoundModel(path=BASE), FoundModel(path=tmp_path / "mnli"))
    alike = (frozenset({0, 1}), frozenset({0, 1}))
    worker.say(ModelsFound(models=models, base=0, alike=alike), JobDone())
    dialog = loaded.opener.scanned
    assert dialog is not None
    assert dialog.take.text() == "&Add 1 expert"
    dialog.take.click()
    planned = worker.jobs[worker.newest(PlanJob)].recipe
    assert [entry.model.name for entry in planned.models] == ["cola", "sst2", "mnli"]


def test_models_of_the_hugging_face_cache_are_offered_under_their_names_there(
    loaded, worker, tmp_path, monkeypatch
):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    loaded.actions_.open_cached.trigger()
    assert worker.jobs[worker.newest(ScanJob)] == ScanJob(paths=(tmp_path,), base=BASE)
    names = ("me/<b>cola", "org/sst2", "org/gpt2")
    folders = [f"models--{name.replace('/', '--')}/snapshots/{'c0ffee' * 6}" for name in names]
    models = (FoundModel(path=BASE), *(FoundModel(path=tmp_path / folder) for folder in folders))
    alike = (frozenset({1, 2}), frozenset({0, 2}), frozenset({0, 1}), frozenset())
    worker.say(ModelsFound(models=models, base=0, alike=alike), JobDone())
    dialog = loaded.opener.scanned
    assert dialog is not None
    items = [dialog.tree.topLevelItem(row) for row in range(dialog.tree.topLevelItemCount())]
    assert [item.text(0) for item in items[1:]] == list(names)
    assert "c0ffee" in items[1].text(2), "two revisions can be told apart"
    dialog.filter.setText("ORG")
    assert [item.isHidden() for item in items] == [True, True, False, False]
    assert dialog.experts() == [tmp_path / folder for folder in folders[:2]]
    dialog.take.click()
    planned = worker.jobs[worker.newest(PlanJob)].recipe
    assert planned.expert_names[-2:] == ("<b>cola", "sst2-2")


def test_an_empty_cache_says_where_it_is(window, worker, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    window.actions_.open_cached.trigger()
    worker.say(ModelsFound(models=(), base=None, alike=()), JobDone())
    dialog = window.opener.scanned
    assert dialog is not None
    assert str(tmp_path) in dialog.note.text().replace("\u200b", "")
    assert not dialog.take.isEnabled()


@pytest.mark.parametrize("dropped", [["r.yaml"], ["model", "r.YML"], ["notes.txt"]])
def test_a_recipe_is_opened_before_what_is_dropped_with_it(window, worker, tmp_path, dropped):
    drop(window, *(tmp_path / name for name in dropped))
    assert worker.jobs[1] == LoadRecipeJob(paths=(tmp_path / dropped[-1],))


def test_nothing_is_opened_under_a_merge(loaded, worker, tmp_path):
    Settings().remember(tmp_path / "r.yaml")
    loaded.recent_projects.refresh()
    loaded.actions_.merge.trigger()
    (recent,) = loaded.menus.recent.actions()
    for begin in (lambda: drop(loaded, tmp_path / "r.yaml"), recent.trigger):
        loaded.notice.hide()
        begin()
        assert isinstance(worker.jobs[len(worker.jobs)], MergeJob)
        assert "Wait for the merge" in loaded.notice.sentence.text()
        assert not loaded.notice.isHidden()
    assert not loaded.menus.recent.isEnabled()
    assert not loaded.actions_.reopen.isEnabled()
    worker.say(JobCancelled())
    assert loaded.menus.recent.isEnabled()
    assert loaded.actions_.reopen.isEnabled()


def test_recipes_are_offered_again_with_their_whole_paths(loaded, worker, tmp_path):
    assert Settings().recent == ()
    loaded.opener.write_recipe(tmp_path / "mine.yaml")
    assert Settings().recent == (tmp_path / "mine.yaml",)
    entry = loaded.menus.recent.actions()[0]
    assert entry.text() == "mine"
    assert entry.shortcut().toString() == "Ctrl+1"
    entry.trigger()
    assert worker.jobs[worker.newest(LoadRecipeJob)].paths == (tmp_path / "mine.yaml",)


def test_a_project_without_a_file_gets_one_when_it_is_left(loaded, worker):
    from ace_gui.recipe.recipe_file import load_recipe

    recipe = loaded.session.draft.inputs.recipe()
    name = loaded.project.name
    loaded.actions_.close_models.trigger()
    (project,) = Settings().recent
    assert loaded.menus.recent.actions()[0].text() == name
    assert load_recipe(project) == recipe
    loaded.actions_.reopen.trigger()
    assert worker.jobs[worker.newest(LoadRecipeJob)].paths == (project,)


def test_the_recipe_can_be_saved_and_read_again(loaded, tmp_path):
    from ace_gui.recipe.recipe_file import load_recipe

    loaded.conductor.set_parameter("tau", 0.7)
    loaded.opener.write_recipe(tmp_path / "mine")
    assert load_recipe(tmp_path / "mine.yaml") == loaded.session.draft.inputs.recipe()
    loaded.opener.write_recipe(tmp_path / "no such folder" / "mine.yaml")
    assert "There is no such folder" in loaded.notice.sentence.text()


def test_the_recipe_can_be_saved_for_mergekit(loaded, worker, tmp_path):
    loaded.opener.write_recipe(tmp_path / "theirs.yaml", mergekit=True)
    assert "mergekit has no method 'ace'" in loaded.notice.sentence.text()
    loaded.conductor.change(loaded.session.draft.inputs.with_method("linear"))
    planned = plan(
        loaded.session.draft.inputs.recipe(), parameters={"normalize": True, "base_weight": 0.0}
    )
    worker.say(PlanReady(plan=planned), JobDone(), job=worker.newest(PlanJob))
    loaded.opener.write_recipe(tmp_path / "theirs.yaml", mergekit=True)
    assert (tmp_path / "theirs.yaml").read_text().startswith("merge_method: linear\nmodels:")


def answer(window: MainWindow, words: str) -> None:
    """Press this button of the window's question."""
    box = window.dialogs.question
    assert box is not None
    next(button for button in box.buttons() if words in button.text()).click()


def test_closing_under_a_merge_asks_cancels_and_waits(loaded, worker, qtbot):
    loaded.actions_.merge.trigger()
    with qtbot.assertNotEmitted(loaded.closed):
        loaded.close()
        assert loaded.isVisible()
        answer(loaded, "Keep merging")
        assert not worker.cancelled
        loaded.close()
        answer(loaded, "Stop and close")
        assert worker.cancelled == [worker.newest(MergeJob)]
        assert loaded.isVisible()
    with qtbot.waitSignal(loaded.closed):
        worker.say(JobCancelled())


def test_changes_are_saved_before_the_window_closes_or_not_as_the_person_says(loaded, tmp_path):
    loaded.opener.write_recipe(tmp_path / "mine.yaml")
    assert not loaded.isWindowModified()
    loaded.conductor.set_parameter("tau", 0.7)
    assert loaded.isWindowModified()
    buttons = QMessageBox.StandardButton
    for answer in (buttons.Cancel, buttons.Save):
        loaded.close()
        assert loaded.isVisible()
        assert loaded.project.box is not None
        loaded.project.box.button(answer).click()
        assert loaded.isVisible() == (answer == buttons.Cancel)
    assert "tau: 0.7" in (tmp_path / "mine.yaml").read_text()


def test_changes_are_thrown_away_only_by_choice(loaded, worker, tmp_path):
    loaded.opener.write_recipe(tmp_path / "mine.yaml")
    loaded.conductor.set_parameter("tau", 0.7)
    for path in (tmp_path / "other.yaml", BASE):
        loaded.opener.open_paths([path])
        assert worker.newest(LoadRecipeJob) == 1
        assert loaded.project.box is not None
        loaded.project.box.button(QMessageBox.StandardButton.Cancel).click()
    loaded.opener.open_paths([tmp_path / "other.yaml"])
    loaded.project.box.button(QMessageBox.StandardButton.Discard).click()
    assert worker.jobs[worker.newest(LoadRecipeJob)].paths == (tmp_path / "other.yaml",)


def test_layout_and_colours_are_remembered(loaded, worker, tmp_path):
    top = loaded.workspace.findChild(QSplitter, "top")
    top.setSizes([500, 600])
    sizes = top.sizes()
    dark = next(a for a in loaded.actions_.schemes.actions() if a.data() == "dark")
    dark.trigger()
    loaded.close()
    again = MainWindow(FakeWorker(), Settings(), MergeStores(tmp_path / "other"))
    try:
        again.resize(loaded.size())
        again._pages.setCurrentWidget(again.workspace)
        again.show()
        assert again.workspace.findChild(QSplitter, "top").sizes() == sizes
        assert again.settings.scheme == "dark"
        again.workspace.reset_layout()
        assert again.workspace.findChild(QSplitter, "top").sizes() != sizes
    finally:
        again.deleteLater()
        next(a for a in loaded.actions_.schemes.actions() if a.data() == "system").trigger()


def test_the_narrowest_inspector_has_room_for_its_tabs(loaded):
    bar = loaded.workspace.inspector.tabs.bar
    loaded.resize(1280, 1000)
    loaded.workspace.findChild(QSplitter, "top").setSizes([10_000, 1])
    for index in range(bar.count()):
        title = bar.fontMetrics().horizontalAdvance(bar.tabText(index))
        assert bar.tabRect(index).width() - tab_space("tight") >= title, bar.tabText(index)


def test_every_action_can_be_reached_from_the_menus(loaded):
    reachable: set[QAction] = set()

    def walk(actions: list[QAction]) -> None:
        for action in actions:
            reachable.add(action)
            if action.menu() is not None:
                walk(action.menu().actions())

    walk(loaded.menuBar().actions())
    for name, action in vars(loaded.actions_).items():
        if isinstance(action, QAction):
            assert action in reachable, name
            assert action.toolTip(), name


def test_starting_the_window_imports_no_heavy_library():
    code = (
        "import os, sys; os.environ['QT_QPA_PLATFORM'] = 'offscreen'\n"
        "from PySide6.QtWidgets import QApplication\n"
        "from ace_gui.gui.app import Workbench, make_application\n"
        "app = make_application(); bench = Workbench(app)\n"
        "bench.window.show(); bench.window.grab()\n"
        "empty = {'numpy', 'pyqtgraph', 'pydantic', 'yaml'} & set(sys.modules)\n"
        "assert bench.window.workspace\n"
        "full = {'torch', 'transformers', 'safetensors', 'pydantic'} & set(sys.modules)\n"
        "print(sorted(empty), sorted(full))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[] []", done.stderr


def test_another_scheme_is_shown_by_all_of_the_window_at_once(loaded, qapp, qtbot):
    watcher = apply_theme(qapp)
    watcher.changed.connect(loaded.set_theme)
    central = loaded.centralWidget()
    plot = loaded.workspace.heterogeneity.plot

    def colours() -> set[str]:
        """Of a panel's margin and of a plot, as they are on the screen."""
        screen = loaded.screen().grabWindow(loaded.winId()).toImage()
        margin = loaded.workspace.experts.mapTo(loaded, QPoint(3, 3))
        corner = plot.mapTo(loaded, QPoint(3, 3))
        return {screen.pixelColor(margin).name(), screen.pixelColor(corner).name()}

    try:
        set_scheme("light")
        qtbot.waitUntil(lambda: colours() == {LIGHT.canvas, LIGHT.card})
        set_scheme("dark")
        assert not central.updatesEnabled()
        assert plot.theme is LIGHT
        qtbot.waitUntil(central.updatesEnabled)
        assert plot.theme is DARK
        qtbot.waitUntil(lambda: colours() == {DARK.canvas, DARK.card})
    finally:
        watcher.changed.disconnect(loaded.set_theme)
        set_scheme("system")


def test_without_room_beside_the_menus_the_workspaces_stand_below_them(loaded, qtbot):
    header = loaded.header

    def is_below() -> bool:
        return header.workspaces.geometry().top() >= header.menu_bar.geometry().bottom()

    assert not is_below()
    words = header.menu_bar.sizeHint().width() + header.workspaces.sizeHint().width()
    loaded.setMinimumWidth(0)
    header.setFixedWidth(words + 60)
    qtbot.waitUntil(is_below)
    assert header.menu_bar.width() >= header.menu_bar.sizeHint().width()
    header.setFixedWidth(2 * words)
    qtbot.waitUntil(lambda: not is_below())


def test_a_pass_over_the_whole_model_has_its_own_words_and_count(loaded, worker):
    loaded.merge.start()
    worker.say(PassProgress(title="looking at the whole model", done=3, total=7))
    primary = loaded.header.primary
    primary.refresh()  # progress is shown now and then only
    assert primary.message.text() == "Looking at the whole model"
    assert primary.main.text() == "3 of 7"
    worker.say(started())
    primary.refresh()
    assert not primary.message.text()
    assert primary.main.text().startswith("0 of")
