"""The place that shows which expert a merge with a router takes for which examples."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from ace_gui.engine.contract.events import EvaluationProgress, JobCancelled, JobDone, JobFailed
from ace_gui.engine.contract.jobs import DescribeTasksJob, MergeJob, RoutesJob
from ace_gui.engine.contract.scored.routes import RoutesFound, TaskRoutes
from ace_gui.errors import TaskError
from ace_gui.gui.panels.scores.routing_tab import LIMIT, RoutingTab
from ace_gui.gui.panels.scores.scores_page import ROUTING, ScoresPage
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.recipe.tasks import Task
from tests.gui.fakes import FakeWorker, finished_merge, started

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


@pytest.fixture
def page(loaded: MainWindow, worker: FakeWorker, qtbot: QtBot) -> Iterator[ScoresPage]:
    loaded.session.draft.set_tasks(TASKS)
    routing = [replace(method, routes=True) for method in loaded.session.draft.methods]
    loaded.session.draft.set_methods(routing)
    yield loaded.workspace.show_scores()
    qtbot.waitUntil(lambda: not any(timer.isActive() for timer in loaded.engine._timers))
    for number, job in worker.jobs.items():
        if isinstance(job, DescribeTasksJob):
            worker.say(JobDone(), job=number)


def place_of(page: ScoresPage) -> RoutingTab:
    index = page.show_tab(ROUTING)
    assert isinstance(index, RoutingTab)
    return index


def merged(window: MainWindow, worker: FakeWorker) -> Path:
    window.actions_.merge.trigger()
    number = worker.newest(MergeJob)
    store: Path = worker.jobs[number].store
    worker.say(started(), finished_merge(store), JobDone(), job=number)
    return store


def test_before_there_is_a_merge_it_says_what_is_missing(page: ScoresPage) -> None:
    index = place_of(page)
    assert not index.button.isEnabled()
    assert "No merge here has a router." in index.said.text()
    assert index.button.toolTip().split() == index.said.text().split()  # in lines
    assert not index.tasks.isVisibleTo(index)


def test_shares_by_task_and_by_layer(
    page: ScoresPage, loaded: MainWindow, worker: FakeWorker
) -> None:
    store, index = merged(loaded, worker), place_of(page)
    index.button.click()
    number = worker.newest(RoutesJob)
    job = worker.jobs[number]
    assert (job.store, job.limit) == (store, LIMIT)
    worker.say(EvaluationProgress(model="m", task="cola", done=3, total=20), job=number)
    assert index.button.text() == "Stop"
    found = RoutesFound(routes=(routes("cola", 0.75, 0.25), routes("sst2", 0.625, 0.375)))
    worker.say(found, JobDone(), job=number)
    assert index.said.text() == "1 of 2 tasks mainly use their own expert."
    assert "3.0 MB" in index.cost.text()
    assert "20.0 ms instead of 5.0 ms" in index.cost.text()
    assert index.tasks.model().rowCount() == 2
    assert index.tasks.model().index(0, 0).data() == "75.0 %"
    assert index.layers.model().rowCount() == len(LAYERS)
    index.task.choose("sst2")
    assert index.layers.model().index(0, 1).data() == "37.5 %"
    index.recolour()
    assert index.task.current == "sst2"


def test_a_merge_without_a_router_an_error_and_a_stop(
    page: ScoresPage, loaded: MainWindow, worker: FakeWorker
) -> None:
    merged(loaded, worker)
    index = place_of(page)
    index.button.click()
    worker.say(RoutesFound(routes=()), JobDone(), job=worker.newest(RoutesJob))
    assert index.said.text() == "This merge has no router."
    assert not index.tasks.isVisibleTo(index)
    index.button.click()
    worker.say(JobFailed(error=TaskError("No data.")), job=worker.newest(RoutesJob))
    assert index.said.text() == "No data."
    index.button.click()
    index.button.click()
    number = worker.newest(RoutesJob)
    assert number in worker.cancelled
    worker.say(JobCancelled(), job=number)
    assert index.button.text() == "Compute"


def test_only_merges_with_a_router_are_looked_at(
    page: ScoresPage, loaded: MainWindow, worker: FakeWorker
) -> None:
    """ACE routes nothing: it is not offered, and a sentence says what would be."""
    methods = loaded.session.draft.methods
    loaded.session.draft.set_methods([replace(m, routes=m.name != "ace") for m in methods])
    merged(loaded, worker)
    index = place_of(page)
    assert not index.button.isEnabled()
    assert index.said.isVisibleTo(index)
    others = [method.title for method in methods if method.name != "ace"]
    assert index.said.text().endswith(f"methods: {', '.join(others)}.")
    assert index.merge.current == ""
