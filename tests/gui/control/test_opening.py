"""What is asked for while models are being opened neither stops the opening nor is lost."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ace_gui.engine.contract.events import JobDone, JobFailed, PlanReady
from ace_gui.engine.contract.jobs import ConvertJob, LoadRecipeJob, PlanJob
from ace_gui.errors import MismatchError, PickleConsentError
from ace_gui.gui.control.conductor import Conductor
from ace_gui.gui.control.engine_client import EngineClient
from ace_gui.gui.control.merge_operation import RunOperations
from ace_gui.gui.control.merge_stores import MergeStores
from ace_gui.gui.state.session import Session
from tests.gui.fakes import COLA, ENGINE, SST2, TWO, FakeWorker, adopt_two, load, plan, recipe

NEW = Path("/models/new")
MNLI = Path("/models/mnli")
FAILURE = JobFailed(error=MismatchError("It cannot be opened.", path=NEW))
MEANWHILE: dict[str, Callable[[Conductor, Session], object]] = {
    "experts": lambda conductor, _: conductor.add_experts([MNLI]),
    "a method": lambda conductor, s: conductor.change(s.draft.inputs.with_method("linear")),
    "a parameter": lambda conductor, _: conductor.set_parameter("epsilon", 1e-3),
    "a plan": lambda conductor, _: conductor.plan(),
}


@pytest.fixture
def conductor(session: Session, worker: FakeWorker, tmp_path: Path) -> Iterator[Conductor]:
    engine = EngineClient(session, worker)
    worker.say(ENGINE, job=0)
    yield Conductor(engine, RunOperations(engine, MergeStores(tmp_path / "merges")))
    engine.deleteLater()


def answer(worker: FakeWorker, *experts: Path, base: Path = NEW) -> None:
    """The end of the opening, with a plan over another base."""
    planned = plan(replace(recipe(*experts), base_model=base))
    worker.say(PlanReady(plan=planned), JobDone(), job=worker.newest(LoadRecipeJob))


@pytest.mark.parametrize("loaded", [False, True], ids=["nothing loaded", "loaded"])
@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_an_opening_goes_on_whatever_is_asked_for(
    conductor, session, worker, qtbot, meanwhile, loaded
):
    if loaded:
        adopt_two(session)
    conductor.open([NEW])
    MEANWHILE[meanwhile](conductor, session)
    qtbot.waitUntil(lambda: not conductor._plan_timer.isActive())
    assert worker.jobs_of(PlanJob) == []
    assert worker.newest(LoadRecipeJob) not in (*worker.cancelled, *worker.withdrawn)
    assert conductor.opening == (NEW,)
    answer(worker)
    assert session.draft.inputs.base == NEW
    assert not session.activity.plan_is_due


@pytest.mark.parametrize("loaded", [False, True], ids=["nothing loaded", "loaded"])
def test_experts_added_to_an_opening_are_tried_on_its_base(conductor, session, worker, loaded):
    told: list[str] = []
    session.advice.connect(told.append)
    if loaded:
        adopt_two(session)
    conductor.open([NEW])
    conductor.add_experts([MNLI])
    conductor.add_experts([SST2])
    assert told == [
        "As soon as the base is open, `mnli` will be added.",
        "As soon as the base is open, `mnli`, `sst2` will be added.",
    ]
    answer(worker, COLA)
    (job,) = worker.jobs_of(PlanJob)
    assert job.recipe.paths == (NEW, COLA, MNLI, SST2)


def test_if_the_base_cannot_be_opened_its_experts_are_named(conductor, session, worker):
    told: list[str] = []
    session.advice.connect(told.append)
    adopt_two(session)
    conductor.open([NEW])
    conductor.add_experts([MNLI])
    worker.say(FAILURE)
    assert told[1:] == ["Without its base, `mnli` could not be added."]
    assert session.draft.inputs == TWO
    assert worker.jobs_of(PlanJob) == []


def test_experts_wait_for_a_base_that_must_be_converted_first(conductor, session, worker):
    conductor.open([NEW])
    conductor.add_experts([MNLI])
    worker.say(JobFailed(error=PickleConsentError("A PyTorch pickle.", path=NEW)))
    conductor.convert(NEW)
    worker.say(JobDone(), job=worker.newest(ConvertJob))
    answer(worker, COLA)
    (job,) = worker.jobs_of(PlanJob)
    assert job.recipe.paths == (NEW, COLA, MNLI)


def test_a_change_of_what_is_loaded_is_planned_if_nothing_else_can_be_opened(
    conductor, session, worker
):
    adopt_two(session)
    conductor.open([NEW])
    conductor.change(TWO.with_method("linear"))
    worker.say(FAILURE)
    (job,) = worker.jobs_of(PlanJob)
    assert job.recipe.merge_method == "linear"


def test_what_was_asked_for_is_forgotten_with_a_stopped_opening(conductor, session, worker):
    adopt_two(session)
    conductor.open([NEW])
    conductor.add_experts([MNLI])
    conductor.change(TWO.with_method("linear"))
    conductor.stop_opening()
    assert session.draft.inputs == TWO
    conductor.open([NEW])
    load(worker)
    assert worker.jobs_of(PlanJob) == []


def test_another_base_takes_the_place_of_the_opening(conductor, session, worker):
    adopt_two(session)
    conductor.open([NEW])
    conductor.change(replace(TWO, base=MNLI))
    assert conductor.opening == ()
    (job,) = worker.jobs_of(PlanJob)
    assert job.recipe.base_model == MNLI
