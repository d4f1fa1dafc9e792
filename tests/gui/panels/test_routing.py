"""The table that shows which expert a merge with a router takes for which examples."""

from dataclasses import replace
from pathlib import Path

import pytest

from ace_gui.engine.contract.events import EvaluationProgress, JobCancelled, JobDone, JobFailed
from ace_gui.engine.contract.jobs import RoutesJob
from ace_gui.engine.contract.scored import RoutesFound, TaskRoutes
from ace_gui.errors import TaskError
from ace_gui.gui.panels.score_figures import LIMIT, RoutesTable
from ace_gui.gui.panels.scores_page import ScoresPage, ScoresTab
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.recipe.values import Task
from tests.gui.fakes import FakeWorker, merged, task_score

TASKS = tuple(Task(data=Path(f"/data/{name}.csv"), expert=name) for name in ("cola", "sst2"))
LAYERS = tuple(f"bert.encoder.layer.{block}.{part}" for block in range(4) for part in ("q", "k"))


def routes(task: str, *means: float) -> TaskRoutes:
    return TaskRoutes(
        model="store",
        task=task,
        owner=task,
        layers=LAYERS,
        experts=("cola", "sst2"),
        share_LT=(means,) * len(LAYERS),
        n=10,
        seconds=0.02,
        plain_seconds=0.005,
        module_bytes=3_000_000,
    )


@pytest.fixture(autouse=True)
def routed(loaded) -> None:
    """Two tasks, and methods whose merges have a router."""
    loaded.session.draft.set_tasks(TASKS)
    routing = [replace(method, routes=True) for method in loaded.session.draft.methods]
    loaded.session.draft.set_methods(routing)


def table_of(page: ScoresPage) -> RoutesTable:
    tab = page.show_tab(ScoresTab)
    tab.refresh()
    return tab.routes


def scored(window: MainWindow, worker: FakeWorker) -> Path:
    store = merged(window, worker)
    scores = window.session.results.scores
    scores.record([task_score("base", "cola", 0.5), task_score(str(store), "cola", 0.75)])
    return store


def test_a_merge_without_a_router_has_no_table(page, loaded, worker):
    methods = loaded.session.draft.methods
    loaded.session.draft.set_methods([replace(m, routes=m.name != "ace") for m in methods])
    scored(loaded, worker)
    assert table_of(page).isHidden()


def test_shares_by_task_and_by_layer(page, loaded, worker):
    store = scored(loaded, worker)
    table = table_of(page)
    assert not table.isHidden()
    assert table.shares.isHidden()
    table.button.click()
    number = worker.newest(RoutesJob)
    job = worker.jobs[number]
    assert (job.stores, job.limit) == ((store,), LIMIT)
    worker.say(EvaluationProgress(model="m", task="cola", done=3, total=20), job=number)
    assert table.button.text() == "Stop"
    answer = RoutesFound(routes=(routes("cola", 0.75, 0.25), routes("sst2", 0.625, 0.375)))
    worker.say(answer, JobDone(), job=number)
    assert table.sentence.text() == "1 of 2 tasks mainly use their own expert."
    assert "3.0 MB" in table.cost.text()
    assert "20.0 ms with them and 5.0 ms without" in table.cost.text()
    shares = table.shares.model()
    assert shares.rowCount() == 2
    assert shares.index(0, 0).data() == "75.0 %"
    table.task.choose("sst2")
    assert shares.rowCount() == len(LAYERS)
    assert shares.index(0, 1).data() == "37.5 %"
    table.refresh()
    assert table.task.current == "sst2"


def test_no_router_after_all_an_error_and_a_stop(page, loaded, worker):
    scored(loaded, worker)
    table = table_of(page)
    table.button.click()
    worker.say(RoutesFound(routes=()), JobDone(), job=worker.newest(RoutesJob))
    assert table.sentence.text() == "This merge has no router."
    assert table.shares.isHidden()
    table.button.click()
    worker.say(JobFailed(error=TaskError("No data.")), job=worker.newest(RoutesJob))
    assert table.sentence.text() == "No data."
    table.button.click()
    table.button.click()
    number = worker.newest(RoutesJob)
    assert number in worker.cancelled
    worker.say(JobCancelled(), job=number)
    assert table.button.text() == "Compute"
