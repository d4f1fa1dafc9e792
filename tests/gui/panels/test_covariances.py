"""ACE's covariances beside the measured ones: what the window asks, says and offers."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ace_gui.engine.contract.events import (
    CovariancesCompared,
    JobCancelled,
    JobDone,
    JobFailed,
    PassProgress,
)
from ace_gui.engine.contract.findings import CovarianceMatch, LayerCovariances
from ace_gui.engine.contract.jobs import CovariancesJob, DescribeTasksJob, LayerCovariancesJob
from ace_gui.errors import TaskError
from ace_gui.gui.panels.inspector import CovariancesPanel
from ace_gui.gui.panels.tasks_tab import TasksTab
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.recipe.values import Task
from tests.gui.fakes import FakeWorker
from tests.helpers.windows import timers_rest

QUERY = "layer.0.q"
KEY = "layer.10.q"
EXPERTS = ("cola", "sst2")
CALIBRATED = tuple(
    Task(data=Path(f"/data/{name}.csv"), expert=name, calibration=Path(f"/data/{name}-in.csv"))
    for name in EXPERTS
)


def covariances(name: str, *, on_own: float = 0.6, on_others: float = 0.2) -> LayerCovariances:
    """Two experts' of a matrix of four inputs; the second agrees most with the first's inputs."""
    figures = {
        "cosine": 0.7,
        "centred": on_own,
        "others": on_others,
        "overlap": 0.5,
        "chance": 0.25,
    }
    matches = tuple(
        CovarianceMatch(name=name, role="query", expert=expert, **figures) for expert in EXPERTS
    )
    return LayerCovariances(
        name=name,
        experts=EXPERTS,
        matches=matches,
        centred_TT=np.array([[on_own, on_others], [on_own, on_others]]),
    )


@pytest.fixture
def panel(loaded, worker, qtbot) -> Iterator[CovariancesPanel]:
    tabs = loaded.workspace.inspector.tabs
    indices = range(tabs.count())
    index = next(n for n in indices if isinstance(tabs.content(n), CovariancesPanel))
    loaded.session.select(QUERY)
    tabs.setCurrentIndex(index)
    content = tabs.content(index)
    assert isinstance(content, CovariancesPanel)
    yield content
    qtbot.waitUntil(lambda: timers_rest(loaded.engine))
    for number, job in worker.jobs.items():
        if isinstance(job, DescribeTasksJob | LayerCovariancesJob | CovariancesJob):
            worker.say(JobDone(), job=number)


def test_without_data_it_offers_to_choose_them(panel, loaded, worker):
    assert panel.button.text() == "Choose data…"
    assert "calibration inputs" in panel.plot.message()
    panel.button.click()
    page = loaded.workspace.scores
    assert isinstance(page.tabs.current, TasksTab)
    assert not worker.jobs_of(CovariancesJob)


def test_a_task_takes_calibration_inputs(panel, loaded):
    loaded.session.draft.set_tasks(tuple(replace(task, calibration=None) for task in CALIBRATED))
    tab = loaded.workspace.show_scores().show_tab(TasksTab)
    assert tab.editor.calibration.full_text == "none"
    tab.editor.calibrate([Path("/data/other.csv")])
    (first, _) = loaded.session.draft.inputs.tasks
    assert first.calibration == Path("/data/other.csv")
    assert tab.editor.calibration.full_text == "/data/other.csv"
    tab.editor.without.trigger()
    assert loaded.session.draft.inputs.tasks[0].calibration is None


def test_what_was_measured_before_is_shown_without_asking_for_more(panel, loaded, worker, qtbot):
    loaded.session.draft.set_tasks(CALIBRATED)
    assert panel.button.text() == "Measure and compare"
    qtbot.waitUntil(lambda: bool(worker.jobs_of(LayerCovariancesJob)))
    number = worker.newest(LayerCovariancesJob)
    assert worker.jobs[number].row.name == QUERY
    worker.say(covariances(QUERY), JobDone(), job=number)
    assert panel.plot.message() is None
    assert panel.plot.caption.full_text.startswith("1 of 2 estimates match their own")
    assert panel.button.text() == "Compare all layers"
    panel.button.click()
    job = worker.jobs[worker.newest(CovariancesJob)]
    assert (job.first, job.recipe.tasks) == (QUERY, CALIBRATED)


def test_measuring_is_followed_stopped_and_ended(panel, loaded, worker, qtbot):
    loaded.session.draft.set_tasks(CALIBRATED)
    panel.button.click()
    number = worker.newest(CovariancesJob)
    progress = PassProgress(title="measuring the inputs of cola", done=3, total=10)
    worker.say(progress, job=number)
    assert panel.message.text() == "Measuring the inputs of cola: 3 of 10"
    assert loaded.actions_.cancel.isEnabled()
    assert panel.button.text() == "Stop"
    panel.button.click()
    assert number in worker.cancelled
    worker.say(JobCancelled(), job=number)
    assert panel.button.text() == "Measure and compare"
    panel.button.click()
    number = worker.newest(CovariancesJob)
    worker.say(CovariancesCompared(layer=covariances(QUERY), done=1, total=2), job=number)
    assert panel.button.text() == "Stop"
    worker.say(CovariancesCompared(layer=None, done=2, total=2), JobDone(), job=number)
    assert not panel.button.isVisible()
    loaded.session.select(KEY)
    qtbot.waitUntil(lambda: "do not reach this layer" in (panel.plot.message() or ""))


def test_an_error_stands_in_the_panel(panel, loaded, worker):
    loaded.session.draft.set_tasks(CALIBRATED)
    panel.button.click()
    error = TaskError("The calibration data of cola have no texts.", key="calibration")
    worker.say(JobFailed(error=error), job=worker.newest(CovariancesJob))
    assert panel.message.text() == "The calibration data of cola have no texts."
    assert panel.button.text() == "Measure again"


def test_other_data_are_another_question(panel, loaded, worker):
    measured(panel, loaded, worker)
    assert panel.plot.message() is None
    other_tasks = tuple(replace(task, calibration=Path("/data/x.csv")) for task in CALIBRATED)
    loaded.session.draft.set_tasks(other_tasks)
    assert panel.plot.message()
    loaded.session.draft.set_tasks(CALIBRATED)
    assert panel.plot.message() is None


def test_figures_are_a_table_and_the_measured_variant_is_one_click_away(panel, loaded, worker):
    measured(panel, loaded, worker)
    sheet = {column.title: list(column.values) for column in panel.sheet.columns}
    assert sheet["sst2"] == [0.5, 0.25, 0.6, 0.2, 0.7]
    panel.use.click()
    inputs = loaded.session.draft.inputs
    assert (inputs.method, dict(inputs.touched)) == ("ace", {"variant": "measured"})
    assert not panel.use.isEnabled()
    assert "is chosen" in panel.use.toolTip()


def measured(panel: CovariancesPanel, window: MainWindow, worker: FakeWorker) -> None:
    window.session.draft.set_tasks(CALIBRATED)
    panel.button.click()
    number = worker.newest(CovariancesJob)
    for done, name in enumerate((QUERY, KEY), 1):
        layer = covariances(name) if done == 1 else covariances(name, on_own=0.1, on_others=0.3)
        worker.say(CovariancesCompared(layer=layer, done=done, total=2), job=number)
    worker.say(JobDone(), job=number)
