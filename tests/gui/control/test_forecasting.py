"""How far a merge will move the model: asked in quiet, given up for anything else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from ace_gui.engine.contract.events import JobDone, JobFailed
from ace_gui.engine.contract.findings import LayerReport, LayerStatistics
from ace_gui.engine.contract.jobs import ExportJob, SampleMergesJob
from ace_gui.errors import MethodError
from ace_gui.gui.control import what_if
from ace_gui.gui.control.engine_client import EngineClient
from ace_gui.gui.control.what_if import Forecasting
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.session import Session
from tests.gui.fakes import ENGINE, GAMMAS, FakeWorker, adopt_two, finished_merge

LAYERS = tuple(GAMMAS)
DELAY = 100  # ms


@pytest.fixture
def engine(session: Session, worker: FakeWorker) -> Iterator[EngineClient]:
    engine = EngineClient(session, worker)
    yield engine
    engine.deleteLater()


@pytest.fixture
def forecasting(
    session: Session, engine: EngineClient, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Forecasting]:
    monkeypatch.setattr(what_if, "FORECAST_DELAY", DELAY)
    made = Forecasting(engine)
    made.set_visible(True)
    session.set_engine(ENGINE)
    adopt_two(session)
    yield made
    made.set_visible(False)
    made.deleteLater()


def analyse(session: Session) -> None:
    for name in LAYERS:
        statistics = LayerStatistics(
            name=name, energies={"cola": 9.0, "sst2": 16.0}, base_energy=1e4
        )
        session.layers.record_statistics(statistics)
    session.finish_analysis()


def job_number(worker: FakeWorker, qtbot: QtBot, count: int = 1) -> int:
    """The number of the newest question, when there are so many."""
    qtbot.waitUntil(lambda: len(worker.jobs) == count)
    number = worker.newest(SampleMergesJob)
    assert number == count
    return number


def report(name: str, length: float) -> LayerReport:
    return LayerReport(name=name, delta_norm=length)


def test_it_is_asked_once_the_experts_are_compared_and_told_when_all_is_said(
    forecasting, session, worker, qtbot
):
    qtbot.wait(2 * DELAY)
    assert not worker.jobs
    analyse(session)
    number = job_number(worker, qtbot)
    worker.say(report(LAYERS[0], 7.0), job=number)
    assert forecasting.current is None
    worker.say(JobDone(), job=number)
    assert forecasting.current is not None
    assert (forecasting.current.known, forecasting.current.total) == (1, 3)
    assert forecasting.current.relative_norm == pytest.approx(7 / 3.5)
    qtbot.wait(2 * DELAY)
    assert len(worker.jobs) == 1


def test_another_recipe_makes_it_stale_and_is_asked_about(forecasting, session, worker, qtbot):
    analyse(session)
    first = job_number(worker, qtbot)
    session.draft.set_parameter("tau", 0.7)
    assert worker.withdrawn == [first]
    second = job_number(worker, qtbot, 2)
    worker.say(report(LAYERS[0], 9.0), JobDone(), job=first)  # late, and of another recipe
    assert forecasting.current is None
    worker.say(report(LAYERS[0], 7.0), JobDone(), job=second)
    assert forecasting.current is not None
    session.draft.set_parameter("tau", 0.8)
    assert forecasting.current is None


def test_it_gives_way_to_work_that_the_person_wants(forecasting, session, engine, worker, qtbot):
    analyse(session)
    number = job_number(worker, qtbot)
    engine.run(ExportJob(store=Path("/cache/store"), folder=Path("/out")))
    assert worker.withdrawn == [number]
    qtbot.wait(2 * DELAY)
    assert len(worker.jobs) == 2  # not while that goes on
    worker.say(JobDone(), job=2)
    job_number(worker, qtbot, 3)


def test_after_the_merge_its_own_reports_take_its_place(forecasting, session, worker, qtbot):
    analyse(session)
    worker.say(report(LAYERS[0], 7.0), JobDone(), job=job_number(worker, qtbot))
    run = MergeRun(
        recipe=session.draft.inputs.recipe(),
        parameters=session.draft.resolved_parameters(),
        store=Path("/s"),
    )
    session.results.start_merge(run)
    for name in LAYERS:
        session.record_report(LayerReport(name=name, delta_norm=3.5))
    session.results.finish_merge(finished_merge())
    assert forecasting.current is not None
    assert forecasting.current.exact
    assert forecasting.current.relative_norm == pytest.approx(1.0)


def test_a_failure_is_not_told_and_not_tried_again(forecasting, session, worker, qtbot):
    analyse(session)
    with qtbot.assertNotEmitted(session.problem):
        worker.say(JobFailed(error=MethodError("No.")), job=job_number(worker, qtbot))
    qtbot.wait(2 * DELAY)
    assert len(worker.jobs) == 1
    assert forecasting.current is None


def test_nobody_looks_and_nothing_is_asked(forecasting, session, worker, qtbot):
    forecasting.set_visible(False)
    analyse(session)
    qtbot.wait(2 * DELAY)
    assert not worker.jobs
    forecasting.set_visible(True)
    number = job_number(worker, qtbot)
    forecasting.set_visible(False)
    assert worker.withdrawn == [number]


def test_the_sentence_stands_where_the_settings_are(opened, worker, qtbot):
    panel = opened.workspace.method
    opened.show()
    qtbot.waitExposed(opened)
    for name in LAYERS:
        statistics = LayerStatistics(
            name=name, energies={"cola": 9.0, "sst2": 16.0}, base_energy=1e4
        )
        opened.session.layers.record_statistics(statistics)
    assert not panel.forecast.isVisible()
    opened.session.finish_analysis()
    for number in range(1, len(worker.jobs) + 1):
        worker.say(JobDone(), job=number)
    qtbot.waitUntil(lambda: any(isinstance(job, SampleMergesJob) for job in worker.jobs.values()))
    number = worker.newest(SampleMergesJob)
    worker.say(report(LAYERS[0], 7.0), JobDone(), job=number)
    assert panel.forecast.isVisible()
    assert panel.forecast.text().endswith("Estimated from 1 of 3 matrices.")
