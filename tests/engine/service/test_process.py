"""The engine in its own process: answers, interleaves, cancels, dies with a sentence."""

import os
from collections.abc import Iterator
from itertools import count
from multiprocessing import Pipe
from pathlib import Path

import pytest

from ace_gui.engine.contract.engine_process import NICENESS, EngineProcess
from ace_gui.engine.contract.events import (
    EngineReady,
    Event,
    Job,
    JobCancelled,
    JobDone,
    JobFailed,
    LayerAnalysed,
    MergeFinished,
    MergeStarted,
    PlanReady,
    TensorFinished,
)
from ace_gui.engine.contract.findings import LayerSpectrum
from ace_gui.engine.contract.jobs import (
    AnalyseJob,
    ConfigureJob,
    LoadRecipeJob,
    MergeJob,
    PlanJob,
    SpectrumJob,
    TuneJob,
)
from ace_gui.engine.contract.plan import Disposition, Plan
from ace_gui.engine.contract.scored import ParameterRange
from ace_gui.engine.inspecting.compare_recipes import by_method
from ace_gui.engine.service import HEAD_START, JobScheduler, serve
from ace_gui.errors import CheckpointError, EngineError
from ace_gui.paths import Sample
from ace_gui.recipe import ModelEntry, Recipe
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.recipe.recommended import is_recommended
from tests.helpers.models import Family
from tests.helpers.recipes import recipe_of

ENDS = (JobDone, JobFailed, JobCancelled)


@pytest.fixture(scope="module")
def recipe(roberta: Family) -> Recipe:
    return recipe_of(roberta)


@pytest.fixture(scope="module")
def engine() -> Iterator[EngineProcess]:
    process = EngineProcess()
    yield process
    process.close()


NUMBERS = count(1)


def ask(engine: EngineProcess, job: Job) -> int:
    """Queue a job; its number."""
    number = next(NUMBERS)
    engine.submit(number, job)
    return number


def until(engine: EngineProcess, number: int) -> list[tuple[int, Event]]:
    """Everything the engine says until that job ends."""
    answers: list[tuple[int, Event]] = []
    while not answers or answers[-1][0] != number or not isinstance(answers[-1][1], ENDS):
        received = engine.receive(60)
        assert received is not None, "the engine fell silent"
        answers.append(received)
    return answers


def plan_of(engine: EngineProcess, recipe: Recipe) -> Plan:
    answers = until(engine, ask(engine, PlanJob(recipe=recipe)))
    return next(event.plan for _, event in answers if isinstance(event, PlanReady))


def test_it_introduces_itself_then_plans_and_analyses(engine: EngineProcess, recipe: Recipe):
    received = engine.receive(60)
    number, ready = received
    assert number == 0
    assert isinstance(ready, EngineReady)
    assert next(method.name for method in ready.methods) == "ace"
    assert ready.devices[0].name == "cpu"
    plan = plan_of(engine, recipe)
    answers = until(engine, ask(engine, AnalyseJob(recipe=recipe)))
    analysed = [event for _, event in answers if isinstance(event, LayerAnalysed)]
    combined = {Disposition.MERGED, Disposition.AVERAGED}
    assert len(analysed) == sum(row.disposition in combined for row in plan.rows)
    merged = sum(row.disposition == Disposition.MERGED for row in plan.rows)
    assert all(event.statistics.gamma is not None for event in analysed[:merged])


@pytest.mark.skipif(not hasattr(os, "nice"), reason="the system knows no niceness")
def test_it_stands_back_for_its_owner(engine: EngineProcess, recipe: Recipe):
    plan_of(engine, recipe)  # it is up
    assert engine.pid is not None
    here, there = (os.getpriority(os.PRIO_PROCESS, pid) for pid in (0, engine.pid))
    assert there == min(here + NICENESS, 19)


def test_it_uses_the_threads_and_the_disk_that_are_preferred(engine: EngineProcess, tmp_path):
    def configured(threads: int | None, scratch: Path | None) -> EngineReady:
        job = ConfigureJob(threads=threads, scratch=scratch)
        events = [event for _, event in until(engine, ask(engine, job))]
        return next(event for event in events if isinstance(event, EngineReady))

    defaults = configured(None, None)
    assert defaults.scratch is None
    for threads in (1, None):
        answer = configured(threads, tmp_path)
        assert answer.threads == (threads or defaults.threads)
        assert answer.scratch == tmp_path
    assert configured(None, None) == defaults


def test_a_look_goes_before_the_rest_of_a_merge(engine: EngineProcess, recipe: Recipe, tmp_path):
    plan = plan_of(engine, recipe)
    row = next(row for row in plan.rows if row.disposition == Disposition.MERGED)
    merge = ask(engine, MergeJob(recipe=recipe, store=tmp_path / "store"))
    look = ask(engine, SpectrumJob(recipe=recipe, row=row))
    events = [event for _, event in until(engine, merge)]
    kinds = [type(event) for event in events]
    assert kinds.index(LayerSpectrum) < kinds.index(MergeFinished)
    spectrum = next(event for event in events if isinstance(event, LayerSpectrum))
    assert spectrum.experts.keys() == {expert.name for expert in plan.experts}
    assert spectrum.merged.shape == (min(row.shape),)
    assert look > merge


def test_a_merge_is_cancelled_at_its_next_tensor_and_resumed(
    engine: EngineProcess, recipe: Recipe, tmp_path
):
    job = MergeJob(recipe=recipe, store=tmp_path / "store")
    number = ask(engine, job)
    while True:
        received = engine.receive(60)
        if isinstance(received[1], TensorFinished):
            break
    engine.cancel(number)
    answers = until(engine, number)
    assert isinstance(answers[-1][1], JobCancelled | JobDone)
    again = MergeJob(recipe=recipe, store=tmp_path / "store", resume=True)
    events = [event for _, event in until(engine, ask(engine, again))]
    started = next(event for event in events if isinstance(event, MergeStarted))
    assert started.done >= 1
    assert isinstance(events[-1], JobDone)


def test_errors_keep_their_type_and_place(engine: EngineProcess, recipe: Recipe):
    missing = Recipe(base_model=recipe.base_model, models=(ModelEntry(model=Path("nowhere")),))
    _, event = until(engine, ask(engine, PlanJob(recipe=missing)))[-1]
    assert isinstance(event, JobFailed)
    assert isinstance(event.error, CheckpointError)
    assert "nowhere" in event.error.sentence
    assert "Traceback" in event.error.details


def test_folders_that_are_opened_have_the_recommended_merge(engine: EngineProcess, roberta: Family):
    job = LoadRecipeJob(paths=(roberta.base, *roberta.experts.values()))
    events = [event for _, event in until(engine, ask(engine, job))]
    plan = next(event.plan for event in events if isinstance(event, PlanReady))
    assert [expert.name for expert in plan.experts] == list(roberta.experts)
    assert is_recommended(plan.recipe)


def test_folders_are_opened_with_chosen_settings(engine: EngineProcess, roberta: Family):
    chosen = Recipe(base_model=Path("elsewhere"), models=(), merge_method="linear")
    job = LoadRecipeJob(paths=(roberta.base, *roberta.experts.values()), chosen=chosen)
    events = [event for _, event in until(engine, ask(engine, job))]
    plan = next(event.plan for event in events if isinstance(event, PlanReady))
    assert plan.recipe.merge_method == "linear"
    assert plan.recipe.base_model == roberta.base
    assert [expert.name for expert in plan.experts] == list(roberta.experts)


def test_a_killed_engine_is_reported_in_a_sentence(forked_engines):
    process = EngineProcess()
    assert process.receive(60) is not None
    process.kill()
    with pytest.raises(EngineError, match="stopped by the system, probably for lack of memory"):
        process.receive(60)
    process.close()


def test_nothing_stays_of_one_that_is_killed_in_the_middle(forked_engines, tmp_path, monkeypatch):
    """What it merges to try parameters is in a folder that its owner takes away."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (recipe,) = by_method(load_recipe(Sample.TEXT.recipe), ["task_arithmetic"])
    ranges = (ParameterRange(name="scaling", low=0.1, high=1.0),)
    process = EngineProcess()
    process.submit(1, TuneJob(recipe=recipe, ranges=ranges, merges=9, limit=20, device="cpu"))
    while not list(tmp_path.glob("ace-engine-*/ace-tune-*/store")):
        process.receive(0.05)
    process.kill()
    process.close()
    assert not list(tmp_path.iterdir())


MERGE = 1


def run(seconds: float, look: float, merge: float) -> tuple[float, float]:
    """Seconds of the merge and of the looks while one look follows upon the other."""
    scheduler = JobScheduler()
    spent = {True: 0.0, False: 0.0}
    number = 2
    while sum(spent.values()) < seconds:
        active = {MERGE, number}
        turn = scheduler.next(active)
        took = merge if turn == MERGE else look
        scheduler.took(turn, took, active)
        spent[turn == MERGE] += took
        number += turn != MERGE
    return spent[True], spent[False]


def test_a_first_look_goes_before_the_merge():
    scheduler = JobScheduler()
    scheduler.took(MERGE, 60.0, {MERGE})
    assert scheduler.next({MERGE, 7}) == 7
    scheduler.took(7, HEAD_START, {MERGE, 7})
    assert scheduler.next({MERGE, 7}) == 7


def test_endless_looks_leave_the_merge_half_of_the_time_or_more():
    for look, merge in ((0.2, 0.05), (1.0, 3.0), (5.0, 0.1)):
        merging, looking = run(200.0, look, merge)
        assert merging >= looking - HEAD_START - 2 * look
        assert looking >= 200.0 * HEAD_START / (2 * (HEAD_START + look + merge))


def test_a_job_alone_always_has_its_turn():
    scheduler = JobScheduler()
    for number in (3, 4, 5):
        assert scheduler.next({number}) == number
        scheduler.took(number, 10.0, {number})
    assert scheduler.next({1, 2}) == 2


def test_an_owner_that_is_gone_before_the_engine_is_ready_ends_it_silently():
    ours, theirs = Pipe()
    ours.close()
    serve(theirs)
