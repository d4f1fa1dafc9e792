from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from ace_gui.engine.contract.events import (
    Exported,
    JobCancelled,
    JobDone,
    JobFailed,
    JobProgress,
    PlanReady,
    Reported,
)
from ace_gui.engine.contract.jobs import (
    AnalyseJob,
    ConvertJob,
    ExportJob,
    LoadRecipeJob,
    MergeJob,
    PlanJob,
    ReportJob,
    SpectrumJob,
)
from ace_gui.errors import (
    EngineError,
    MismatchError,
    PickleConsentError,
    ResumeError,
    WorkbenchError,
)
from ace_gui.gui.control.conductor import Conductor
from ace_gui.gui.control.engine_client import EngineClient
from ace_gui.gui.control.layer_queries import DELAY, LayerQueries
from ace_gui.gui.control.merge_operation import MergeOperation, OutputOperations, RunOperations
from ace_gui.gui.control.merge_stores import MergeStores
from ace_gui.gui.state.activity import ActivityState
from ace_gui.gui.state.session import Session
from ace_gui.recipe.output_forms import ModelExport, Output
from tests.gui.fakes import (
    COLA,
    ENGINE,
    GAMMAS,
    SST2,
    FakeWorker,
    analysed,
    finished_merge,
    finished_tensor,
    load,
    make_store,
    plan,
    recipe,
    spectrum,
    started,
)

BROKEN = Path("/models/broken")


@dataclass
class Control:
    """What the window puts together over one engine client."""

    engine: EngineClient
    merge: MergeOperation
    output: OutputOperations
    conductor: Conductor
    queries: LayerQueries


@pytest.fixture
def control(session: Session, worker: FakeWorker, tmp_path: Path) -> Iterator[Control]:
    engine = EngineClient(session, worker)
    runs = RunOperations(engine, MergeStores(tmp_path / "merges"))
    merge = MergeOperation(engine, runs)
    output = OutputOperations(engine, runs)
    conductor = Conductor(engine, runs)
    worker.say(ENGINE, job=0)
    yield Control(engine, merge, output, conductor, LayerQueries(engine))
    engine.deleteLater()


@pytest.fixture
def ready(control: Control, worker: FakeWorker, qtbot: QtBot) -> Control:
    """Two experts, compared."""
    with qtbot.waitSignal(control.engine.idle):
        control.conductor.open([Path("recipe.yaml")])
        load(worker, COLA, SST2)
        worker.say(*analysed(GAMMAS))
    return control


@pytest.fixture
def merging(ready: Control, session: Session, worker: FakeWorker) -> Control:
    """The same, with one tensor of two merged."""
    ready.merge.start()
    make_store(session.results.merge.store)
    worker.say(started(), finished_tensor("layer.0.q"))
    return ready


def test_opening_plans_and_then_compares(ready, worker):
    assert [type(job) for job in worker.jobs.values()] == [LoadRecipeJob, AnalyseJob]


def test_an_expert_that_does_not_fit_changes_nothing(ready, session, worker, qtbot):
    before = session.draft.inputs
    ready.conductor.add_experts([BROKEN])
    assert session.state is ActivityState.PLANNING
    error = MismatchError("broken is another architecture.", path=BROKEN)
    with qtbot.waitSignals([session.problem, ready.engine.idle]):
        worker.say(JobFailed(error=error))
    assert session.draft.inputs == before
    assert session.layers.is_analysed
    assert session.state is ActivityState.READY


def test_of_several_experts_those_that_fit_are_added(ready, session, worker):
    told: list[WorkbenchError] = []
    session.problem.connect(told.append)
    folders = [BROKEN.with_name(name) for name in ("small", "good", "wide")]
    ready.conductor.add_experts(folders)
    for path in (folders[0] / "config.json", folders[2]):
        worker.say(JobFailed(error=MismatchError(f"{path} does not fit.", path=path)))
    assert [expert.path for expert in session.draft.inputs.experts] == [COLA, SST2, folders[1]]
    load(worker, COLA, SST2, folders[1])
    assert told[-1].sentence == "`small`, `wide` do not fit this base, and were not added."
    assert session.draft.planned == session.draft.inputs


def test_if_no_added_expert_fits_one_sentence_names_them_all(ready, session, worker, qtbot):
    told: list[WorkbenchError] = []
    session.problem.connect(told.append)
    before = session.draft.inputs
    folders = [BROKEN.with_name(name) for name in ("small", "wide")]
    ready.conductor.add_experts(folders)
    for path in folders:
        worker.say(JobFailed(error=MismatchError(f"{path} does not fit.", path=path)))
    qtbot.waitUntil(lambda: len(told) == 3)
    assert told[-1].sentence == "`small`, `wide` do not fit this base, and were not added."
    assert session.draft.inputs == before


def test_adding_a_good_expert_compares_again(ready, session, worker, qtbot):
    ready.conductor.change(session.draft.inputs.without_experts([1]))
    load(worker, COLA)
    assert isinstance(worker.jobs[len(worker.jobs)], AnalyseJob)
    with qtbot.waitSignal(ready.engine.idle):
        worker.say(*analysed(GAMMAS))
    assert session.layers.is_analysed


def test_only_the_latest_of_several_plans_counts(ready, session, worker, qtbot):
    ready.conductor.change(session.draft.inputs.with_method("linear"))
    first = worker.newest(PlanJob)
    ready.conductor.change(replace(session.draft.inputs, scope="authors-vit"))
    assert worker.cancelled == [first]
    worker.say(PlanReady(plan=plan(recipe(COLA, SST2))), JobDone(), job=first)
    assert session.draft.inputs.scope == "authors-vit"
    with qtbot.waitSignal(ready.engine.idle):
        load(worker, COLA, SST2)
        worker.say(*analysed(GAMMAS))  # the scope says which tensors have γ
    assert session.draft.inputs.method == "linear"
    assert session.draft.inputs.scope == "authors-vit"


def test_opening_is_stopped_at_once_and_what_was_loaded_stays(ready, session, worker):
    loaded = session.draft.inputs
    ready.conductor.change(replace(session.draft.inputs, base=BROKEN))
    proposed = worker.newest(PlanJob)
    ready.conductor.cancel()
    assert proposed in worker.cancelled
    assert session.draft.inputs == loaded
    assert session.state is ActivityState.READY
    worker.say(PlanReady(plan=plan(recipe(COLA))), JobDone(), job=proposed)  # too late
    assert session.draft.inputs == loaded
    ready.conductor.open([BROKEN])
    ready.conductor.stop_opening()
    assert worker.newest(LoadRecipeJob) in worker.cancelled
    assert session.state is ActivityState.READY


def test_something_else_is_opened_in_the_place_of_what_is_being_opened(ready, session, worker):
    loaded = session.draft.inputs
    ready.conductor.change(replace(session.draft.inputs, base=BROKEN))
    ready.conductor.open([COLA])
    assert worker.newest(PlanJob) in worker.cancelled
    assert session.draft.inputs == loaded, "what was proposed is not wanted any more"
    assert session.activity.is_running(ActivityState.PLANNING)
    load(worker, SST2)
    assert [expert.path for expert in session.draft.inputs.experts] == [SST2]


def test_no_merge_is_lost_for_a_plan_that_is_not_wanted(ready, session, worker):
    ready.merge.start()
    ready.conductor.change(session.draft.inputs.with_method("linear"))
    first = worker.newest(PlanJob)
    ready.conductor.change(session.draft.inputs.with_method("ace"))
    assert first in worker.withdrawn
    assert first not in worker.cancelled


def test_the_threshold_needs_no_plan_other_parameters_one_in_a_while(ready, session, worker, qtbot):
    with qtbot.waitSignal(ready.engine.idle):
        ready.conductor.set_parameter("tau", 0.6)
    assert session.draft.inputs.touched == {"tau": 0.6}
    assert not any(isinstance(job, PlanJob) for job in worker.jobs.values())
    for value in (1e-4, 1e-3, 1e-2):
        ready.conductor.set_parameter("epsilon", value)
    qtbot.waitUntil(lambda: any(isinstance(job, PlanJob) for job in worker.jobs.values()))
    plans = [job for job in worker.jobs.values() if isinstance(job, PlanJob)]
    assert [job.recipe.parameters for job in plans] == [{"tau": 0.6, "epsilon": 1e-2}]
    with qtbot.waitSignal(ready.engine.idle):
        load(worker, COLA, SST2)


def test_a_parameter_set_while_planning_is_not_undone_by_the_plan(ready, session, worker, qtbot):
    ready.conductor.add_experts([BROKEN])
    ready.conductor.set_parameter("tau", 0.8)
    worker.say(PlanReady(plan=plan(recipe(COLA, SST2, BROKEN))), JobDone())
    assert session.draft.inputs.touched == {"tau": 0.8}
    with qtbot.waitSignal(ready.engine.idle):
        worker.say(*analysed(GAMMAS))


def test_a_merge_from_start_to_end(merging, session, worker):
    assert session.state is ActivityState.MERGING
    assert (session.activity.progress.done, session.activity.progress.total) == (1, 2)
    worker.say(finished_tensor("layer.2.q", done=2), finished_merge(), JobDone())
    assert session.state is ActivityState.MERGED
    assert session.merge_is_current
    assert set(session.results.merge.reports) == {"layer.0.q", "layer.2.q"}
    assert session.activity.progress is None


def test_merging_takes_the_place_of_comparing(control, session, worker, qtbot):
    with qtbot.waitSignal(control.engine.idle):
        control.conductor.open([Path("recipe.yaml")])
        load(worker, COLA, SST2)
        analysis = worker.newest(AnalyseJob)
        control.merge.start()
        assert worker.withdrawn == [analysis]
        worker.say(started(), finished_tensor("layer.0.q"), finished_merge(), JobDone())
        assert worker.newest(AnalyseJob) > analysis  # it is not complete
        worker.say(*analysed(GAMMAS))
    assert session.state is ActivityState.MERGED


def test_a_cancelled_merge_is_continued_in_its_store(merging, session, worker, qtbot):
    first = worker.newest(MergeJob)
    merging.conductor.cancel()
    assert worker.cancelled == [first]
    assert session.state is ActivityState.MERGING  # until the engine says so
    with qtbot.waitSignal(session.advice):
        worker.say(JobCancelled())
    assert session.state is ActivityState.READY
    assert session.can_resume
    merging.merge.start()
    again = worker.jobs[worker.newest(MergeJob)]
    assert again == replace(worker.jobs[first], resume=True)
    assert set(session.results.merge.reports) == {"layer.0.q"}


def test_other_parameters_begin_a_new_merge(merging, session, worker):
    first = worker.jobs[worker.newest(MergeJob)]
    worker.say(JobCancelled())
    merging.conductor.set_parameter("tau", 0.9)
    merging.merge.start()
    again = worker.jobs[worker.newest(MergeJob)]
    assert not again.resume
    assert again.store != first.store
    assert again.recipe.parameters == {"tau": 0.9}


def test_a_store_of_changed_files_is_given_up(merging, session, worker):
    worker.say(JobCancelled())
    merging.merge.start()
    worker.say(JobFailed(error=ResumeError("The files have changed; merge again.")))
    assert session.results.merge is None
    merging.merge.start()
    assert not worker.jobs[worker.newest(MergeJob)].resume


def test_a_lost_engine_costs_no_more_than_the_running_step(merging, session, worker, qtbot):
    with qtbot.waitSignal(session.problem) as reported:
        worker.engine_lost.emit(EngineError("The engine was stopped by the system."))
    assert "stopped" in reported.args[0].sentence
    assert "resume" in reported.args[0].sentence
    assert len(session.draft.inputs.experts) == 2
    assert session.state is ActivityState.READY
    assert session.can_resume
    assert not merging.engine.is_busy


def test_an_idle_engine_that_is_lost_asks_for_nothing(merging, session, worker, qtbot):
    worker.say(finished_merge(), JobDone())
    with qtbot.waitSignal(session.problem) as reported:
        worker.engine_lost.emit(EngineError("The engine was stopped by the system."))
    assert "resume" not in reported.args[0].sentence
    assert session.can_export


def test_a_spectrum_is_asked_for_once_and_only_of_the_last_selection(ready, session, worker, qtbot):
    session.select("layer.0.q")
    session.select("layer.10.q")
    qtbot.waitUntil(lambda: any(isinstance(job, SpectrumJob) for job in worker.jobs.values()))
    jobs = [job for job in worker.jobs.values() if isinstance(job, SpectrumJob)]
    assert [job.row.name for job in jobs] == ["layer.10.q"]
    with qtbot.waitSignal(ready.engine.idle):
        worker.say(spectrum("layer.10.q"), JobDone())
    assert session.spectrum("layer.10.q") is not None
    with qtbot.waitSignal(ready.engine.idle):
        session.select("layer.0.q.bias")  # not merged by the method: it has no spectrum
    with qtbot.waitSignal(ready.engine.idle):
        session.select("layer.10.q")  # known already
    assert sum(isinstance(job, SpectrumJob) for job in worker.jobs.values()) == 1


def test_of_a_method_that_learns_a_spectrum_is_asked_for_once_it_has_merged(
    merging, session, worker, qtbot
):
    session.draft.set_methods([replace(method, learns=True) for method in session.draft.methods])
    assert session.must_learn
    session.select("layer.10.q")
    qtbot.wait(3 * DELAY)
    assert not [job for job in worker.jobs.values() if isinstance(job, SpectrumJob)]
    worker.say(finished_merge(), JobDone())
    assert not session.must_learn
    qtbot.waitUntil(lambda: any(isinstance(job, SpectrumJob) for job in worker.jobs.values()))


def test_a_spectrum_may_be_taken_from_a_finished_merge_of_the_same_recipe(
    merging, session, worker, qtbot
):
    def store_asked(name: str) -> Path | None:
        count = len(worker.jobs)
        session.select(name)
        qtbot.waitUntil(lambda: len(worker.jobs) > count)
        job = worker.jobs[worker.newest(SpectrumJob)]
        assert job.row.name == name
        return job.store

    assert store_asked("layer.0.q") is None, "the merge is under way"
    worker.say(finished_merge(), JobDone(), job=worker.newest(MergeJob))
    assert store_asked("layer.2.q") == session.results.merge.store
    session.draft.set_parameter("tau", 0.9)
    assert store_asked("layer.10.q") is None
    session.draft.set_parameter("tau", None)
    assert store_asked("layer.0.q") == session.results.merge.store


def test_an_export_tells_its_progress_and_its_end(merging, session, worker, qtbot, tmp_path):
    worker.say(finished_merge(), JobDone())
    chosen = ModelExport(dtype="bfloat16")
    merging.output.export(tmp_path / "out", Output.MODEL, chosen)
    job = worker.jobs[worker.newest(ExportJob)]
    assert (job.store, job.chosen) == (session.results.merge.store, chosen)
    worker.say(JobProgress(done=1, total=4))
    assert session.activity.progress.state is ActivityState.EXPORTING
    with qtbot.waitSignal(merging.output.exported):
        worker.say(Exported(folder=tmp_path / "out", files=("a",), bytes=4), JobDone())
    assert session.results.merge.exported
    assert session.state is ActivityState.MERGED


def test_a_report_is_of_the_finished_merge_and_one_at_a_time(
    merging, session, worker, tmp_path, qtbot
):
    merging.output.report(tmp_path / "report.html")
    assert not any(isinstance(job, ReportJob) for job in worker.jobs.values())
    worker.say(finished_merge(), JobDone())
    merging.output.report(tmp_path / "report.html")
    number = worker.newest(ReportJob)
    job = worker.jobs[number]
    assert (job.store, job.file) == (session.results.merge.store, tmp_path / "report.html")
    assert not session.can_report
    worker.say(JobProgress(title="the report: spectra", done=1, total=4), job=number)
    assert session.state is ActivityState.REPORTING
    assert session.activity.progress.title == "the report: spectra"
    with qtbot.waitSignal(session.written) as said:
        worker.say(Reported(file=job.file, bytes=4), JobDone(), job=number)
    assert "report.html" in said.args[0]
    assert session.can_report


def test_closing_the_models_keeps_their_merge_on_the_disk(merging, session, worker):
    worker.say(finished_merge(), JobDone())
    store = session.results.merge.store
    merging.conductor.close()
    assert session.results.merge is None
    assert session.state is ActivityState.EMPTY
    assert store.exists()


def test_what_an_earlier_run_merged_is_shown_as_merged(ready, session, worker):
    ready.merge.start()
    begun = replace(started(), done=1, reports=(finished_tensor("layer.2.q").report,))
    worker.say(begun, finished_tensor("layer.0.q", done=2))
    assert set(session.results.merge.reports) == {"layer.0.q", "layer.2.q"}


def test_an_interrupted_merge_waits_while_another_is_made(merging, session, worker):
    first = worker.jobs[worker.newest(MergeJob)]
    worker.say(JobCancelled())
    merging.conductor.set_parameter("tau", 0.9)
    merging.merge.start()
    make_store(session.results.merge.store)
    worker.say(finished_merge(), JobDone(), job=worker.newest(MergeJob))
    merging.conductor.set_parameter("tau", None)
    assert merging.merge.can_continue
    merging.merge.start()
    again = worker.jobs[worker.newest(MergeJob)]
    assert (again.store, again.resume) == (first.store, True)


def test_a_pickle_is_converted_on_consent_and_then_added(ready, session, worker, qtbot):
    ready.conductor.add_experts([BROKEN])
    job = worker.jobs[worker.newest(PlanJob)]
    with qtbot.waitSignal(session.problem):
        worker.say(JobFailed(error=PickleConsentError("A PyTorch pickle.", path=BROKEN)))
    assert not any(isinstance(job, ConvertJob) for job in worker.jobs.values())
    ready.conductor.convert(BROKEN)
    assert worker.jobs[worker.newest(ConvertJob)] == ConvertJob(path=BROKEN)
    worker.say(JobDone())
    assert worker.jobs[worker.newest(PlanJob)] == job
