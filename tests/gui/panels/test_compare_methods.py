"""Comparing in the window: methods, with a queue and a table; any two models."""

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtWidgets import QScrollArea

from ace_gui.engine.capabilities import method_info
from ace_gui.engine.contract.contents import ModelContents
from ace_gui.engine.contract.events import (
    CompareProgress,
    JobCancelled,
    JobDone,
    JobFailed,
    JobProgress,
    MergeEstimated,
    MethodCompared,
    PlanReady,
    Variant,
)
from ace_gui.engine.contract.findings import LayerReport, ModelDiff, TensorChange
from ace_gui.engine.contract.jobs import (
    CompareJob,
    DiffJob,
    EstimateJob,
    MeasureJob,
    PlanJob,
    VerifyJob,
)
from ace_gui.engine.contract.plan import disk_check
from ace_gui.engine.contract.scored import TaskScore
from ace_gui.errors import CheckpointError
from ace_gui.gui.control.merge_times import DELAY
from ace_gui.gui.models.figures_model import rows_of
from ace_gui.gui.models.scores_models import ComparedModel
from ace_gui.gui.panels.compare_methods import CompareMethodsPanel
from ace_gui.gui.panels.compare_page import TWO_MODELS, ComparePanel, TwoModelsPanel
from ace_gui.gui.panels.merge_choices import MergeChoices
from ace_gui.gui.state.activity import ActivityState
from ace_gui.recipe.recommended import NAME, TITLE, is_recommended
from ace_gui.recipe.values import After, Poolers
from tests.gui.fakes import COLA, ENGINE, LINEAR, FakeWorker, make_store, merged, plan, recipe

ACE_LIKE = replace(LINEAR, name="task_arithmetic", title="Task arithmetic")


@pytest.fixture
def dialog(opened, qtbot) -> CompareMethodsPanel:
    opened.workspace.show_look()
    methods = opened.workspace.comparison.methods
    qtbot.waitUntil(methods.isVisible)
    return methods


def test_a_part_is_made_when_it_is_first_shown(opened, qtbot):
    """Opening the page makes one of them, in a turn of its own."""
    opened.workspace.show_look()
    page = opened.workspace.comparison
    assert not page.findChildren(CompareMethodsPanel)
    qtbot.waitUntil(lambda: page.methods.isVisible())
    assert not page.findChildren(ComparePanel)
    assert not page.findChildren(TwoModelsPanel)
    opened.workspace.show_look(TWO_MODELS)
    qtbot.waitUntil(lambda: page.models.isVisible())
    assert not page.methods.isVisible()
    opened.workspace.show_look()
    assert page.methods.isVisible(), "what is there is shown at once"


def test_the_list_has_room_for_some_methods_in_a_low_window(dialog, opened, qtbot):
    opened.resize(900, 600)
    qtbot.wait(50)
    choices = dialog.choices
    rows = [box for box in choices.boxes.values() if not box.isHidden()]
    assert choices.methods.height() >= 3 * rows[0].height()
    (area,) = [area for area in dialog.findChildren(QScrollArea) if area.isAncestorOf(choices)]
    least = area.widget().minimumSizeHint().height()
    assert area.widget().height() >= least, "the page scrolls instead"


def result(variant: Variant, index: int, **changes: object) -> MethodCompared:
    values = {
        "title": f"merge {index}",
        "seconds": 1.0 + index,
        "peak_bytes": 10**8,
        "norm": 2.0 + index,
        "expert_norms": {"cola": 1.0, "sst2": 3.0},
        "distances": {"cola": 0.5, "sst2": 1.5 - index},
        "cosines": {"cola": 0.5, "sst2": float("nan")},
        "reports": (LayerReport(name="layer.0.q", delta_norm=1.0),),
    }
    return MethodCompared(variant=variant, index=index, **{**values, **changes})


def tick_methods(dialog: CompareMethodsPanel) -> None:
    """Tick every method, and not the recommended merge, which is one of them with settings."""
    dialog.choices.all.click()
    dialog.choices.boxes[NAME, None].setChecked(False)


def compare(dialog: CompareMethodsPanel, worker: FakeWorker, **changes: object) -> CompareJob:
    """Compare both of the fake engine's methods."""
    tick_methods(dialog)
    dialog.start.click()
    job = worker.jobs_of(CompareJob)[-1]
    rows = [result(variant, index, **changes) for index, variant in enumerate(job.variants)]
    for variant in job.variants:
        make_store(variant.store)
    worker.say(*rows, JobDone(), job=worker.newest(CompareJob))
    return job


def end_all(window, worker: FakeWorker) -> None:
    """Let every running job end."""
    for entry in window.engine.running(object):
        worker.say(JobDone(), job=entry._number)


def test_a_queue_of_the_methods_ticked(dialog, window, worker):
    window.session.cluster = "local:2"
    tick_methods(dialog)
    assert dialog.start.text() == "Compare 2"
    dialog.start.click()
    number = worker.newest(CompareJob)
    (job,) = worker.jobs_of(CompareJob)
    assert [variant.recipe.merge_method for variant in job.variants] == ["ace", "linear"]
    assert len({variant.store for variant in job.variants}) == 2
    assert job.cluster == "local:2"
    assert window.session.activity.is_running(ActivityState.MERGING)
    worker.say(CompareProgress(title="ACE", index=0, of=2, done=3, total=9), job=number)
    assert dialog.status.text() == "Merging 1 of 2: ACE, 3 of 9 tensors …"
    assert dialog.start.text() == "17 % · press to stop"
    dialog.start.click()
    assert worker.cancelled == [number]
    worker.say(JobCancelled(), job=number)
    assert not window.session.activity.is_running(ActivityState.MERGING)
    assert dialog.start.isEnabled()


@pytest.mark.parametrize("now", ["published", "automatic"])
def test_a_method_is_ticked_by_variant(opened, now):
    opened.session.set_engine(replace(ENGINE, methods=(method_info("ace"), LINEAR)))
    opened.session.draft.set_parameter("epsilon", 1e-3)
    opened.session.draft.set_parameter("variant", None if now == "published" else now)
    opened.workspace.show_look()
    dialog = opened.workspace.comparison.methods
    titles = {box.text(): box.isChecked() for box in dialog.choices.boxes.values()}
    shelf = {"published", "automatic"}
    ace = {f"ACE, {v}": v in {now, *shelf} for v in method_info("ace").variants}
    assert titles == {TITLE: True, **ace, "Weight averaging": True}
    tick_methods(dialog)
    published, automatic, *_, linear = dialog.choices.recipes()
    assert published.parameters == {"epsilon": 1e-3}
    assert automatic.parameters == {"epsilon": 1e-3, "variant": "automatic"}
    assert (linear.merge_method, linear.parameters) == ("linear", {})
    assert opened.session.draft.inputs.recipe() in (published, automatic)  # no merge twice


def test_several_methods_are_proposed_until_the_user_chooses(opened):
    """Nothing is compared with itself alone, whatever the window's method is."""
    opened.session.set_engine(replace(ENGINE, methods=(method_info("ace"), ACE_LIKE, LINEAR)))
    choices = MergeChoices(opened.session, opened.merge_times)
    draft = opened.session.draft

    def ticked() -> set[str]:
        return {name for name, _ in choices._ticked()}

    for inputs, method in (
        (draft.inputs.recommended(), NAME),
        (draft.inputs.with_method("linear"), "linear"),
        (draft.inputs.with_method("task_arithmetic"), "task_arithmetic"),
    ):
        draft.keep(inputs)
        assert method in ticked()
        assert ticked() == {NAME, "ace", "linear", "task_arithmetic"}, "the shelf"
        assert len({str(recipe) for recipe in choices.recipes()}) == 5, "ACE has two variants there"
    choices.boxes["linear", None].click()
    chosen = ticked()
    draft.keep(draft.inputs.recommended())
    assert ticked() == chosen, "what the user has chosen stays"


@pytest.mark.parametrize("tuned", [False, True], ids=["the same settings", "changed settings"])
def test_the_current_merge_is_among_the_results_without_another_merge(
    dialog, window, worker, tuned
):
    merged(window, worker)
    current = window.session.results.merge
    if tuned:
        window.conductor.set_parameter("tau", 0.7)
        tick_methods(dialog)
    else:
        dialog.choices.tick(["linear"])
    dialog.start.click()
    variants = worker.jobs_of(CompareJob)[-1].variants
    assert variants[0].store == current.store
    assert variants[0].finished is not None
    assert [variant.finished for variant in variants[1:]] == [None] * (1 + tuned)
    worker.say(
        *(result(variant, index) for index, variant in enumerate(variants)),
        JobDone(),
        job=worker.newest(CompareJob),
    )
    rows = [dialog.model.row_at(n) for n in range(dialog.model.rowCount())]
    assert current.store in {row.variant.store for row in rows}


def test_a_current_merge_that_may_not_stand_for_its_recipe_is_not_compared(dialog, window, worker):
    merged(window, worker)
    current = window.session.results.merge
    current.outdated = True
    dialog.choices.tick(["linear"])
    dialog.start.click()
    (variant,) = worker.jobs_of(CompareJob)[-1].variants
    assert variant.recipe.merge_method == "linear"
    worker.say(JobCancelled(), job=worker.newest(CompareJob))


def test_the_current_merge_has_a_row_at_once_and_its_distances_in_quiet(dialog, window, worker):
    store = merged(window, worker)
    end_all(window, worker)
    window.comparison.set_visible(True)
    dialog.refresh()
    (row,) = dialog.model.rows
    assert row.variant.store == store
    assert row.seconds == 1.0
    assert not row.distances
    assert dialog.bars.message() is None, "it is in the plots, too"
    assert dialog.scatter.message() is None
    number = worker.newest(MeasureJob)
    assert worker.jobs[number].variant.store == store
    assert not window.session.activity.is_writing, "nothing has to wait for it"
    worker.say(result(worker.jobs[number].variant, 0), JobDone(), job=number)
    (row,) = dialog.model.rows
    assert row.distances
    assert len(worker.jobs_of(MeasureJob)) == 1


def test_finished_merges_and_methods_are_one_list(dialog, window, worker):
    store = merged(window, worker)
    choices = dialog.choices
    assert choices._time_labels["ace", None].text() == "merged"
    assert not choices.run_boxes, "the method stands for it"
    window.conductor.set_parameter("tau", 0.7)
    box = choices.run_boxes[str(store)]
    assert box.isChecked()
    assert not box.isEnabled(), "the current merge is always among them"
    assert choices._time_labels["ace", None].text() == ""
    job = compare(dialog, worker)
    window.conductor.set_parameter("tau", 0.8)
    other_box = choices.run_boxes[str(job.variants[1].store)]
    choices.none.click()
    other_box.click()
    assert dialog.start.text() == "Compare 1"
    dialog.start.click()
    variants = worker.jobs_of(CompareJob)[-1].variants
    assert {variant.store for variant in variants} == {store, job.variants[1].store}
    assert all(variant.finished is not None for variant in variants), "nothing is merged again"
    worker.say(JobCancelled(), job=worker.newest(CompareJob))


def test_the_time_of_what_is_ticked_stands_beside_it(dialog, window, worker, qtbot):
    end_all(window, worker)
    window.merge_times.set_visible(True)
    dialog.choices.none.click()
    dialog.choices.boxes["linear", None].click()

    def is_estimated() -> bool:
        jobs = worker.jobs_of(EstimateJob)
        return bool(jobs) and jobs[-1].recipe.merge_method == "linear"

    qtbot.waitUntil(is_estimated)
    number = worker.newest(EstimateJob)
    worker.say(MergeEstimated(seconds=60.0), JobDone(), job=number)
    label = dialog.choices._time_labels["linear", None]
    assert label.text() == "≈ 1:00"
    assert "1:00" in dialog.choices.boxes["linear", None].accessibleDescription()
    window.merge_times.set_visible(False)
    count = len(worker.jobs_of(EstimateJob))
    qtbot.wait(2 * DELAY)
    assert len(worker.jobs_of(EstimateJob)) == count, "nobody looks"


def test_methods_next_to_the_recommended_merge_have_their_own_defaults(opened):
    draft = opened.session.draft
    opened.session.set_engine(replace(ENGINE, methods=(method_info("ace"), LINEAR)))
    draft.set_parameter("epsilon", 1e-3)
    for start in (draft.inputs, draft.inputs.recommended()):
        draft.keep(start)
        choices = MergeChoices(opened.session, opened.merge_times)
        ticked = [name for (name, _), box in choices.boxes.items() if box.isChecked()]
        assert sorted(ticked) == sorted([NAME, "linear", "ace", "ace"])
        choices.all.click()
        first, *alternatives = choices.recipes()
        assert is_recommended(first)
        assert [alternative.after for alternative in alternatives] == [After()] * len(alternatives)
        assert {alternative.poolers for alternative in alternatives} == {Poolers.MERGE}


def test_a_full_disk_is_in_the_way_and_a_lack_of_memory_is_each_methods_own(dialog, window, worker):
    tick_methods(dialog)
    window.session.limit_memory(1)
    assert window.session.checks.errors
    assert dialog.start.isEnabled()
    window.session.checks.all = (disk_check(2, 1, "Make room."),)
    window.session.checks.changed.emit()
    assert dialog.status.text().startswith("Disk: ")
    assert not dialog.start.isEnabled()
    window.comparison.start(dialog.choices.recipes())
    assert not worker.jobs_of(CompareJob)


@pytest.mark.parametrize("written", ["0.1,0.5", "0.1; 0.5", "0.1, 0.5, 7, x, 0.5"])
def test_values_of_one_parameter(dialog, written):
    dialog.choices.parameter.choose("k_frac")
    dialog.choices.values.setText(written)
    assert [recipe.parameters["k_frac"] for recipe in dialog.choices.recipes()] == [0.1, 0.5]
    assert not dialog.choices.methods.isEnabled()


def test_rows_appear_and_a_failed_one_says_why(dialog, worker):
    tick_methods(dialog)
    dialog.start.click()
    (job,) = worker.jobs_of(CompareJob)
    failed = MethodCompared(title="SLERP", variant=job.variants[1], index=1, error="Two experts.")
    worker.say(result(job.variants[0], 0), failed, JobDone(), job=worker.newest(CompareJob))
    assert dialog.model.rowCount() == 2
    assert dialog.status.text() == "SLERP: Two experts."
    dialog.table.selectRow(dialog.model.position_of(failed))
    assert not dialog.use.isEnabled()


def test_a_comparison_takes_no_merge_away_and_a_row_becomes_the_merge(dialog, window, worker):
    """The merge of what is chosen is the earlier one, or the one just made; never none."""
    session = window.session
    merged(window, worker)
    job = compare(dialog, worker)
    assert session.draft.inputs.method in {v.recipe.merge_method for v in job.variants}
    assert session.results.is_merged
    assert session.merge_is_current
    assert window.actions_.export.isEnabled()
    dialog.table.selectRow(1)
    dialog.use.click()
    chosen = job.variants[1]
    assert session.draft.inputs.method == "linear"
    planned = plan(chosen.recipe, parameters={})
    worker.say(PlanReady(plan=planned), JobDone(), job=worker.newest(PlanJob))
    assert session.results.merge.store == chosen.store
    assert session.results.merge.reports["layer.0.q"].delta_norm == 1.0
    assert session.merge_is_current
    assert session.can_export


def test_the_windows_merge_is_not_made_again(dialog, window, worker):
    store = merged(window, worker)
    (run,) = window.session.results.runs.all
    job = compare(dialog, worker, scores=scores(cola=0.5))
    merged_variant, fresh_variant = job.variants
    assert (merged_variant.store, merged_variant.finished) == (store, run.finished)
    assert fresh_variant.finished is None
    assert window.session.results.merge is run
    assert run.kept
    assert run.accuracies == {"cola": 0.5}
    dialog.start.click()
    again = worker.jobs_of(CompareJob)[-1].variants[0]
    gone = MethodCompared(title="ACE", variant=again, index=0, error="The disk is gone.")
    worker.say(gone, JobDone(), job=worker.newest(CompareJob))
    assert run in window.session.results.runs.all
    assert store.exists()
    run.outdated = True
    dialog.start.click()
    assert worker.jobs_of(CompareJob)[-1].variants[0].store != store
    worker.say(JobCancelled(), job=worker.newest(CompareJob))


def test_two_rows_are_compared_layer_by_layer(dialog, window, worker):
    job = compare(dialog, worker)
    assert not dialog.pair.isEnabled()
    dialog.table.selectAll()
    dialog.pair.click()
    pair = window.session.results.comparison.pair
    assert [run.store for run in pair] == [variant.store for variant in job.variants]


def test_a_merge_that_is_no_longer_there_is_named_beside_the_button(dialog, window, worker):
    compare(dialog, worker)
    row = dialog.model.rows[1]
    window.runs.delete([dialog._comparison.run_of(row)])
    dialog.table.selectAll()
    assert not dialog.pair.isEnabled()
    assert f"No longer on this disk: {dialog.model.title_of(row)}." in dialog.pair.toolTip()


def test_progress_alone_draws_no_plot_again(dialog, worker, monkeypatch):
    job = compare(dialog, worker)
    drawn = []
    monkeypatch.setattr(dialog.bars, "show_merges", lambda *of: drawn.append(of))
    dialog.start.click()
    step = CompareProgress(title="ACE", index=0, of=len(job.variants), done=1, total=9)
    worker.say(step, job=worker.newest(CompareJob))
    assert "1 of 9 tensors" in dialog.status.text()
    assert not drawn
    worker.say(JobCancelled(), job=worker.newest(CompareJob))


def test_the_same_recipe_once_more_takes_the_place_of_its_row(dialog, worker):
    compare(dialog, worker)
    dialog.start.click()
    again = worker.jobs_of(CompareJob)[-1]
    row = result(again.variants[0], 0, title="once more")
    worker.say(row, JobDone(), job=worker.newest(CompareJob))
    assert {row.title for row in dialog.model.rows} == {"merge 1", "once more"}


def variant(method: str) -> Variant:
    return Variant(recipe=recipe(COLA, merge_method=method), store=Path("/cache") / method)


def scores(**by_task: float) -> tuple[TaskScore, ...]:
    return tuple(
        TaskScore(model="", task=task, metric="f1", score=score, n=9, standard_error=0.1)
        for task, score in by_task.items()
    )


def test_the_table_sorts_by_any_column_and_what_is_unknown_comes_last(qtbot, qtmodeltester):
    model = ComparedModel()
    failed = MethodCompared(title="failed", variant=variant("slerp"), index=2, error="No.")
    first = result(variant("ace"), 0, scores=scores(cola=0.5, sst2=0.7))
    second = result(variant("linear"), 1, scores=scores(cola=0.9, sst2=0.9))
    model.show_rows((failed, first, second))
    headings = [
        model.headerData(index, Qt.Orientation.Horizontal) for index in range(model.columnCount())
    ]
    assert headings[:5] == ["Merge", "cola ↑", "sst2 ↑", "Mean ↑", "Of experts ↑"]
    model.sort(3, Qt.SortOrder.DescendingOrder)
    assert [model.row_at(index) for index in range(3)] == [second, first, failed]
    model.sort(3, Qt.SortOrder.AscendingOrder)
    assert [model.row_at(index) for index in range(3)] == [first, second, failed]
    assert model.index(0, 3).data() == "0.600"
    assert model.index(2, 3).data() == "–"
    bold = [model.index(row, 3).data(Qt.ItemDataRole.FontRole) is not None for row in range(3)]
    assert bold == [False, True, False], "the best of several"
    qtmodeltester.check(model)
    assert model.rowCount(QModelIndex()) == 3
    heading, *lines = rows_of(model.exported())
    figures = next(dict(zip(heading, line, strict=True)) for line in lines if line[0] == "merge 0")
    assert [figures[title] for title in ("Norm", "Distance", "Cosine", "Error")] == [1, 1, 0.5, ""]


def test_rows_of_another_base_are_forgotten(dialog, window, worker):
    compare(dialog, worker)
    window.session.draft.keep(replace(window.session.draft.inputs, base=Path("/models/other")))
    window.comparison.start([window.session.draft.inputs.recipe()])
    assert window.comparison.rows == ()
    worker.say(JobCancelled(), job=worker.newest(CompareJob))


def test_only_methods_that_merge_as_many_experts_are_offered(opened, worker):
    more = (replace(LINEAR, name="three", least=3), replace(LINEAR, name="one", most=1))
    pair = replace(LINEAR, name="pair", most=2)
    worker.say(replace(ENGINE, methods=(*ENGINE.methods, *more, pair)), job=0)
    opened.workspace.show_look()
    boxes = opened.workspace.comparison.methods.choices.boxes
    offered = {name for (name, _), box in boxes.items() if not box.isHidden()}
    assert offered == {NAME, *(method.name for method in (*ENGINE.methods, pair))}


def test_the_methods_are_one_tab_stop_and_arrow_keys_move_between_them(opened, worker, qtbot):
    hidden, third = (replace(LINEAR, name=str(most), most=most) for most in (1, 2))
    worker.say(replace(ENGINE, methods=(*ENGINE.methods, hidden, third)), job=0)
    opened.workspace.show_look()
    choices = opened.workspace.comparison.methods.choices
    qtbot.waitUntil(choices.isVisible)
    boxes = [box for box in choices.boxes.values() if not box.isHidden()]

    def stops() -> list[int]:
        tab = Qt.FocusPolicy.TabFocus
        return [n for n, box in enumerate(boxes) if box.focusPolicy() & tab]

    assert stops() == [0]
    boxes[0].setFocus()
    for key, place in ((Qt.Key.Key_Up, 0), (Qt.Key.Key_Down, 1), (Qt.Key.Key_Down, 2)):
        qtbot.keyClick(opened.focusWidget(), key)
        assert opened.focusWidget() is boxes[place]
        assert stops() == [place]
    was = boxes[2].isChecked()
    qtbot.keyClick(boxes[2], Qt.Key.Key_Space)
    assert boxes[2].isChecked() is not was
    qtbot.keyClick(boxes[2], Qt.Key.Key_Tab)
    assert opened.focusWidget() not in boxes


def changed(name: str, role: str, block: int | None, norm: float, change: float) -> TensorChange:
    return TensorChange(
        name=name, role=role, block=block, shape=(2, 2), dtype="float32", second_dtype="float32",
        second_name=name, norm=norm, change=change,
    )  # fmt: skip


def test_any_two_models_are_compared(opened, worker, tmp_path):
    """The same figures as those of ``ace-gui diff``: by tensor, block and role."""
    opened.workspace.show_look()
    opened.workspace.comparison.show_look(TWO_MODELS)
    panel = opened.workspace.comparison.models
    panel.choose(0, tmp_path / "a")
    assert not panel.run.isEnabled()
    panel.choose(1, tmp_path / "b")
    panel.run.click()
    number = worker.newest(DiffJob)
    assert worker.jobs[number] == DiffJob(first=tmp_path / "a", second=tmp_path / "b")
    worker.say(JobProgress(done=1, total=4), job=number)
    assert panel.run.text().startswith("25 %")
    assert "Comparing" in (panel.plot.message() or "")
    diff = ModelDiff(
        tensors=(
            changed("layer.0.q", "query", 0, 4.0, 2.0),
            changed("layer.1.q", "query", 1, 3.0, 0.0),
            changed("head", "head", None, 0.0, 1.0),
        ),
        missing=("gone",),
    )
    worker.say(diff, JobDone(), job=number)
    for by, groups in (
        ("tensor", diff.tensors),
        ("block", diff.by_block),
        ("role", diff.by_role),
    ):
        panel.by.choose(by)
        names, relative, *_ = panel.plot.columns()
        assert list(names.values) == [group.name for group in groups]
        expected = [float("nan") if e.relative is None else e.relative for e in groups]
        assert list(relative.values) == pytest.approx(expected, nan_ok=True)
    assert "1 tensor only in the first" in panel.others.text()
    panel.run.click()
    error = CheckpointError("There is no model here.", path=tmp_path)
    worker.say(JobFailed(error=error), job=worker.newest(DiffJob))
    assert panel.problem.text() == error.sentence
    assert "Comparing" not in (panel.plot.message() or "")
    assert panel.plot.message() is not None
    assert panel.run.isEnabled()


def test_what_the_second_model_contains(opened, worker, tmp_path):
    """The sentences of ``ace-gui verify``, for the open base and experts."""
    opened.workspace.show_look()
    opened.workspace.comparison.show_look(TWO_MODELS)
    panel = opened.workspace.comparison.models
    assert not panel.verify.isEnabled()
    panel.choose(1, tmp_path / "merged")
    panel.verify.click()
    number = worker.newest(VerifyJob)
    inputs = opened.session.draft.inputs
    paths = tuple(str(expert.path) for expert in inputs.experts)
    merged = str(tmp_path / "merged")
    assert worker.jobs[number] == VerifyJob(base=str(inputs.base), experts=paths, merged=merged)
    contents = ModelContents(
        experts=("cola", "sst2"),
        coefficients=(0.5, 0.5),
        left_over=0.0,
        rounding=0.0,
        relative_change=0.1,
        shares=(0.5, 0.5),
        layers=(),
    )
    worker.say(JobProgress(done=1, total=4), contents, JobDone(), job=number)
    assert panel.contained.text() == "It is the mean of “cola” and “sst2”."
    panel.choose(1, tmp_path / "another")
    assert not panel.contained.isVisible()
    panel.verify.click()
    error = CheckpointError("There is no model here.", path=tmp_path)
    worker.say(JobFailed(error=error), job=worker.newest(VerifyJob))
    assert panel.problem.text() == error.sentence
