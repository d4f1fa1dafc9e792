from dataclasses import replace
from pathlib import Path

from ace_gui.engine.contract.events import (
    Evaluated,
    JobCancelled,
    JobDone,
    MethodCompared,
    PlanReady,
)
from ace_gui.engine.contract.jobs import CompareJob, EvaluateJob, LoadRecipeJob, MergeJob
from ace_gui.engine.contract.scored import TaskScore
from ace_gui.gui.control.scoring import WHILE_MERGING
from ace_gui.gui.panels.scores_page import ScoresTab
from ace_gui.gui.shell.tours import COMPARED
from ace_gui.gui.state.activity import MergeRun
from ace_gui.recipe.recommended import TITLE, with_recommended
from ace_gui.recipe.values import After, Task
from tests.gui.fakes import (
    BASE,
    COLA,
    ENGINE,
    GAMMAS,
    SST2,
    analysed,
    finished_merge,
    finished_tensor,
    plan,
    recipe,
    started,
    task_score,
)
from tests.helpers.windows import timers_rest


def _scores_of(merge: str) -> list[TaskScore]:
    return [
        task_score("base", "cola", 0.25),
        task_score("base", "sst2", 0.25),
        task_score("cola", "cola", 1.0, on_own_task=True),
        task_score("sst2", "sst2", 1.0, on_own_task=True),
        task_score(merge, "cola", 0.5, normalised=0.5),
        task_score(merge, "sst2", 1.0, normalised=1.0),
    ]


def test_merge_the_sample_does_all_that_a_person_would(window, worker, qtbot):
    window.actions_.sample.trigger()
    worker.say(ENGINE, job=0)
    assert worker.jobs[1].paths[0].name == "sample.yaml"
    tasks = (Task(data=Path("/data/cola.csv")), Task(data=Path("/data/sst2.csv")))
    worker.say(
        PlanReady(plan=plan(with_recommended(replace(recipe(COLA, SST2), tasks=tasks)))), JobDone()
    )
    worker.say(*analysed(GAMMAS))
    merge = worker.newest(MergeJob)
    store = worker.jobs[merge].store
    worker.say(started(), finished_tensor("layer.0.q"), finished_merge(store), JobDone())
    assert window.session.selection == "layer.10.q"
    comparing = worker.newest(CompareJob)
    page = window.workspace.scores.tabs.current
    assert isinstance(page, ScoresTab)
    page.refresh()
    assert page.no_scores.sentence.text() == WHILE_MERGING
    current, *variants = worker.jobs[comparing].variants
    assert current.store == store, "it is measured beside the others"
    worker.say(MethodCompared(title="current", variant=current, index=0), job=comparing)
    assert tuple(variant.recipe.merge_method for variant in variants) == COMPARED
    assert all(variant.recipe.after == After() for variant in variants)
    for index, variant in enumerate(variants):
        row = MethodCompared(title=COMPARED[index], variant=variant, index=index + 1)
        worker.say(row, job=comparing)
    worker.say(JobDone(), job=comparing)

    evaluating = worker.newest(EvaluateJob)
    job = worker.jobs[evaluating]
    assert set(job.stores) == {store, *(variant.store for variant in variants)}
    scores = _scores_of(str(store))
    worker.say(*scores, Evaluated(scores=tuple(scores)), JobDone(), job=evaluating)
    assert window.workspace.scores.tabs.current is page
    page.refresh()
    assert page.title.text() == f"{TITLE} keeps 75 % of what the experts reach"
    assert "merged and evaluated" in window.notice.message_text
    window.notice.answers[0].click()
    assert window.header.workspaces.current == 0
    kinds = [type(job) for job in worker.jobs.values()]
    assert kinds.count(LoadRecipeJob) == kinds.count(EvaluateJob) == 1
    assert worker.newest(MergeJob) == merge  # once is enough
    qtbot.waitUntil(lambda: timers_rest(window.engine))
    worker.say(JobDone())


def test_a_sample_that_was_merged_before_is_compared_at_once(window, worker, tmp_path):
    made = with_recommended(recipe(COLA, SST2))
    session = window.session
    window.actions_.sample.trigger()
    worker.say(ENGINE, job=0)
    worker.say(PlanReady(plan=plan(made)), JobDone())
    parameters = session.draft.resolved_parameters()
    store = tmp_path / "store"
    run = MergeRun(recipe=made, parameters=parameters, store=store, finished=finished_merge(store))
    session.results.start_merge(run)  # kept by an earlier window
    worker.say(*analysed(GAMMAS))
    assert worker.jobs_of(CompareJob)
    assert not worker.jobs_of(MergeJob)


def test_models_opened_in_its_place_are_not_merged(window, worker, qtbot):
    worker.say(ENGINE, job=0)
    window.actions_.sample.trigger()
    worker.say(JobCancelled())
    window.opener.open_paths([BASE, COLA, SST2])
    worker.say(PlanReady(plan=plan(recipe(COLA, SST2))), JobDone())
    worker.say(*analysed(GAMMAS))
    assert not any(isinstance(job, MergeJob) for job in worker.jobs.values())
