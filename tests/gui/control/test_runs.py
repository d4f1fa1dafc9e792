"""The list of runs: nothing that was merged is lost, and what was merged is found again."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ace_gui.engine.contract.distilled import Distilled, TaskDivergence
from ace_gui.engine.contract.events import Exported, JobCancelled, JobDone, PlanReady, StoreRead
from ace_gui.engine.contract.findings import LayerReport
from ace_gui.engine.contract.jobs import MergeJob, PlanJob, ReadStoresJob
from ace_gui.formatting import human_bytes
from ace_gui.gui.control.merge_operation import read_all, stored_bytes
from ace_gui.gui.control.merge_stores import (
    MergeStores,
    read_record,
    record_of,
    write_record,
)
from ace_gui.gui.control.persistence import project_name
from ace_gui.gui.panels.models_and_runs import RunsPanel
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.run_names import run_titles
from ace_gui.gui.state.settings import Settings
from ace_gui.output_files import STORE_COMPLETE
from ace_gui.recipe.output_forms import ModelExport, Output
from tests.gui.fakes import (
    BASE,
    COLA,
    ENGINE,
    GAMMAS,
    SST2,
    FakeWorker,
    analysed,
    answer,
    finished_merge,
    load,
    make_store,
    plan,
    started,
)

NORMS = {"layer.0.q": 3.0, "layer.2.q": 4.0}


@pytest.fixture
def merge(loaded: MainWindow, worker: FakeWorker) -> Callable[[], MergeRun]:
    """Merge what is chosen, as the engine would."""

    def merged() -> MergeRun:
        loaded.merge.start()
        run = loaded.session.results.merge
        assert run is not None
        make_store(run.store)
        worker.say(started(), job=worker.newest(MergeJob))
        for name, norm in NORMS.items():
            loaded.session.record_report(LayerReport(name=name, delta_norm=norm))
        (run.store / STORE_COMPLETE).touch()
        worker.say(finished_merge(run.store), JobDone(), job=worker.newest(MergeJob))
        return run

    return merged


@pytest.fixture
def other_window(tmp_path: Path) -> Iterator[tuple[MainWindow, FakeWorker]]:
    """A later window over the same folder of merges."""
    worker = FakeWorker()
    window = MainWindow(worker, Settings(), MergeStores(tmp_path / "merges"))
    yield window, worker
    window.close_unasked()
    window.deleteLater()


def choose(window: MainWindow, worker: FakeWorker, tau: float | None) -> None:
    window.conductor.set_parameter("tau", tau)


def test_settings_of_before_find_their_merge(loaded, worker, merge):
    first = merge()
    choose(loaded, worker, 0.7)
    assert loaded.header.primary.outdated.isVisible()
    second = merge()
    assert loaded.session.results.runs.all == (first, second)
    choose(loaded, worker, None)
    assert loaded.session.results.merge is first
    assert loaded.session.merge_is_current
    assert not loaded.header.primary.outdated.isVisible()
    assert loaded.session.can_export


def test_a_name_that_is_also_the_folders_makes_no_other_merge(loaded, merge):
    run = merge()
    models = zip(run.recipe.models, run.recipe.expert_names, strict=True)
    named = tuple(replace(entry, name=name) for entry, name in models)
    assert run.recipe.models != named
    assert replace(run, recipe=replace(run.recipe, models=named)).key == run.key
    assert loaded.session.draft.recipe_key() == run.key


def test_a_merge_that_is_made_again_takes_the_earlier_ones_place_once_it_is_done(
    loaded, worker, merge
):
    first = merge()
    loaded.runs.rename(first, "the best")
    loaded.merge.start()
    worker.say(JobCancelled())
    assert loaded.session.results.merge is first, "cancelled: the finished one is still there"
    assert first.store.exists()
    second = merge()
    assert loaded.session.results.runs.all == (second,)
    assert second.name == "the best"
    assert not first.store.exists()


def test_the_norm_is_of_all_tensors_by_the_experts_mean(merge):
    # Over both tensors ‖Δ‖ = 5; the experts' energies are 1 and 2 in each.
    assert merge().norm == pytest.approx(5.0 / ((2**0.5 + 4**0.5) / 2))


def test_a_later_window_knows_the_kept_merges(loaded, merge, other_window, qtbot):
    run = merge()
    loaded.runs.rename(run, "the best")
    loaded.close_unasked()
    loaded.runs.stores.close()
    window, worker = other_window
    worker.say(ENGINE, job=0)
    window.opener.open_paths([BASE, COLA, SST2])
    answer(window.opener.box, "New project")
    load(worker, COLA, SST2)
    qtbot.waitUntil(lambda: bool(window.session.results.runs.all))
    (reopened,) = window.session.results.runs.all
    assert (reopened.store, reopened.name, reopened.norm, reopened.key) == (
        run.store,
        "the best",
        run.norm,
        run.key,
    )
    assert window.session.results.merge is None, "not before its files are known to be the same"
    number = worker.newest(ReadStoresJob)
    assert worker.jobs[number] == ReadStoresJob(stores=(run.store,))
    reports = (LayerReport(name="layer.0.q", delta_norm=1.0),)
    read = StoreRead(store=run.store, reports=reports, outdated=False)
    worker.say(read, JobDone(), job=number)
    assert window.session.results.merge is reopened
    assert window.session.can_export
    worker.say(*analysed(GAMMAS), job=len(worker.jobs))


def test_a_kept_merge_of_changed_models_is_shown_and_never_taken_for_current(loaded, worker, merge):
    run = merge()
    choose(loaded, worker, 0.7)
    run.outdated = True
    choose(loaded, worker, None)
    assert loaded.session.results.runs.find(run.key) is None
    panel = loaded.workspace.runs
    assert "models changed since" in panel.model.index(0, 0).data(0x0100).line


def test_a_run_is_restored_with_all_of_its_settings(loaded, worker, merge):
    first = merge()
    colours = [expert.colour for expert in loaded.session.draft.inputs.experts]
    loaded.conductor.change(loaded.session.draft.inputs.without_experts([0]))
    run_plan = plan(loaded.session.draft.inputs.recipe())
    worker.say(PlanReady(plan=run_plan), JobDone(), job=worker.newest(PlanJob))
    choose(loaded, worker, 0.9)
    loaded.runs.restore(first)
    inputs = loaded.session.draft.inputs
    assert inputs.recipe() == first.recipe
    assert [expert.colour for expert in inputs.experts] == colours
    worker.say(PlanReady(plan=plan(first.recipe)), JobDone(), job=worker.newest(PlanJob))
    assert loaded.session.results.merge is first
    loaded.actions_.undo.trigger()
    assert loaded.session.draft.inputs.touched == {"tau": 0.9}
    worker.say(PlanReady(plan=plan(loaded.session.draft.inputs.recipe())), JobDone())


def test_the_panel_renames_compares_and_deletes(loaded, worker, merge):
    panel: RunsPanel = loaded.workspace.runs
    assert not panel.isVisible()
    first = merge()
    choose(loaded, worker, 0.7)
    second = merge()
    assert panel.isVisible()
    assert [panel.model.run_at(row) for row in range(2)] == [second, first]
    assert panel.model.index(0, 0).data() == "tau 0.7"
    panel.model.setData(panel.model.index(0, 0), "sharper")
    assert second.name == "sharper"
    panel.list.setCurrentIndex(panel.model.index(1, 0))
    panel.compare.trigger()
    assert loaded.session.results.comparison.pair == (first, second)
    panel.delete.trigger()
    box = loaded.dialogs.question
    assert box is not None
    next(button for button in box.buttons() if "Delete" in button.text()).click()
    assert loaded.session.results.runs.all == (second,)
    assert not first.store.exists()


def test_an_exported_run_says_so_and_goes_unasked(loaded, worker, merge, tmp_path):
    run = merge()
    loaded.output.export(tmp_path / "out", Output.MODEL, ModelExport())
    worker.say(Exported(folder=tmp_path / "out", files=(), bytes=1), JobDone())
    loaded.runs.finish()
    record = read_record(record_of(run.store))
    assert record is not None
    assert record.exported
    loaded.dialogs.delete_runs([run])
    assert loaded.session.results.runs.all == ()
    assert not record_of(run.store).exists()


def test_a_reopened_run_knows_each_task_before_and_after_the_alignment(loaded, merge):
    run = merge()
    task = TaskDivergence(
        task="SST-2", expert="SST-2", inputs=51, kept_back=13, before=0.4, after=0.1
    )
    distilled = Distilled(
        what="biases and norms",
        tensors=2,
        numbers=20,
        learning_rate=1e-3,
        steps=5,
        best_step=5,
        tasks=(task,),
        curve={0: {"SST-2": 0.4}, 5: {"SST-2": 0.1}},
    )
    write_record(replace(run, finished=replace(run.finished, distilled=distilled)))
    again = read_record(record_of(run.store))
    assert again is not None
    assert again.finished is not None
    assert again.finished.distilled == distilled


def test_kept_merges_of_any_base_are_cleaned_up_by_consent(loaded, worker, merge, qtbot):
    run = merge()
    loaded.runs.finish()
    elsewhere = run.store.with_name("e" * 32)
    shutil.copytree(run.store, elsewhere)
    foreign = replace(run, recipe=replace(run.recipe, base_model=SST2), exported=True, bytes=7)
    write_record(replace(foreign, store=elsewhere))
    loaded.actions_.clean_up.trigger()
    dialog = loaded.dialogs.clean_up
    assert dialog is not None
    qtbot.waitUntil(lambda: dialog.tree.topLevelItemCount() == 2)
    rows = [dialog.tree.topLevelItem(row) for row in range(2)]
    (title,) = run_titles([run], loaded.session.draft.methods)
    assert {row.text(0) for row in rows} == {title}, "as in the list of runs"
    assert {row.text(1) for row in rows} == {project_name(run.recipe), project_name(foreign.recipe)}
    assert dialog.remove.text() == "&Delete 1", "what was exported is ticked"
    dialog.remove.click()
    assert not elsewhere.exists()
    assert run.store.exists()


def test_what_is_kept_is_measured_on_the_disk(loaded, worker, merge, qtbot):
    """However a run came into the list, and whatever its record said."""
    runs = [merge()]
    for tau in (0.7, 0.8):
        choose(loaded, worker, tau)
        runs.append(merge())
        (runs[-1].store / "heads").mkdir()
        (runs[-1].store / "heads" / "cola.safetensors").write_bytes(b"x" * 1000 * len(runs))
        loaded.runs.add(runs[-1])
        loaded.runs.finish()  # its own record is written in the background
        write_record(replace(runs[-1], bytes=7))
    tried = replace(runs[0], store=make_store(runs[0].store.with_name("f" * 32)), bytes=0)
    tried.recipe = replace(tried.recipe, merge_method="linear")
    tried.kept = False
    loaded.runs.add(tried)
    sizes = [
        sum(f.stat().st_size for f in r.store.rglob("*") if f.is_file()) for r in (*runs, tried)
    ]
    assert sorted(run.bytes for run in loaded.session.results.runs.all) == sorted(sizes)
    assert loaded.workspace.runs.used.text() == f"4 on disk, {human_bytes(sum(sizes))}"
    loaded.runs.finish()
    recorded = {run.store: run.bytes for run in read_all(runs[0].store.parent)}
    assert recorded == {run.store: size for run, size in zip(runs, sizes, strict=False)}


def test_records_say_everything_and_damaged_ones_are_passed_over(merge, tmp_path):
    run = replace(merge(), name="a", accuracies={"cola": 0.5}, bytes=9)
    store = tmp_path / "kept" / "store"
    make_store(store)
    write_record(replace(run, store=store))
    (tmp_path / "kept" / "other.json").write_text("{}")
    (again,) = read_all(tmp_path / "kept")
    assert again.key == run.key
    assert (again.name, again.accuracies, again.bytes) == ("a", {"cola": 0.5}, stored_bytes(store))
    assert read_all(tmp_path / "nowhere") == []
