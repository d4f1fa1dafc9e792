"""Every event reaches who asked, and nobody else; every operation hears how it ended, once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ace_gui.engine.contract.events import Job, JobCancelled, JobDone, JobFailed
from ace_gui.engine.contract.jobs import (
    AnalyseJob,
    CompareJob,
    ExportJob,
    MergeJob,
    PlanJob,
    ReportJob,
    ScanJob,
)
from ace_gui.errors import EngineError, MismatchError
from ace_gui.gui.control.engine_client import End, EngineClient, RunningJob
from ace_gui.gui.state.activity import ActivityState
from ace_gui.gui.state.session import Session
from tests.gui.fakes import COLA, ENGINE, FakeWorker, finished_tensor, recipe

STORE = Path("/cache/store")
MERGE = MergeJob(recipe=recipe(COLA), store=STORE)
STATES: list[tuple[Job, ActivityState]] = [
    (PlanJob(recipe=recipe(COLA)), ActivityState.PLANNING),
    (AnalyseJob(recipe=recipe(COLA)), ActivityState.ANALYSING),
    (MERGE, ActivityState.MERGING),
    (CompareJob(variants=()), ActivityState.MERGING),
    (ExportJob(store=STORE, folder=STORE), ActivityState.EXPORTING),
    (ReportJob(store=STORE, file=STORE), ActivityState.REPORTING),
]
ENDS = (
    JobDone(),
    JobCancelled(),
    JobFailed(error=MismatchError("It does not fit.", path=STORE)),
)


class Asked:
    """An operation, and what it heard."""

    def __init__(self, engine: EngineClient, job: Job = MERGE) -> None:
        self.events: list[object] = []
        self.ends: list[End] = []
        self.operation: RunningJob = engine.run(job, self.events.append, self.ends.append)


@pytest.fixture
def engine(session: Session, worker: FakeWorker) -> Iterator[EngineClient]:
    engine = EngineClient(session, worker)
    yield engine
    engine.deleteLater()


def test_events_reach_who_asked_and_nobody_else(engine, worker):
    first = Asked(engine)
    second = Asked(engine)
    event = finished_tensor("q")
    worker.say(event, job=1)
    worker.say(JobDone(), job=2)
    worker.say(ENGINE, job=0)
    worker.say(event, JobDone(), job=99)
    assert (first.events, first.ends) == ([event], [])
    assert (second.events, second.ends) == ([], [JobDone()])


@pytest.mark.parametrize("end", ENDS, ids=lambda end: type(end).__name__)
def test_an_end_is_heard_once_and_nothing_after_it(end, engine, worker):
    listener = Asked(engine)
    worker.say(end, finished_tensor("q"), JobDone())
    assert (listener.events, listener.ends) == ([], [end])
    listener.operation.cancel()
    listener.operation.drop()
    assert not worker.cancelled
    assert not worker.withdrawn


@pytest.mark.parametrize("quiet", [True, False])
@pytest.mark.parametrize("end", ENDS, ids=lambda end: type(end).__name__)
@pytest.mark.parametrize("job", [job for job, _ in STATES], ids=lambda job: type(job).__name__)
def test_every_end_of_every_job_is_announced_once(job, end, quiet, engine, worker):
    ended: list[tuple[Job, End]] = []
    engine.ended.connect(lambda *job_and_end: ended.append(job_and_end))
    engine.run(job, quiet=quiet)
    worker.say(end)
    engine.run(job, quiet=quiet)
    error = EngineError("The engine is gone.")
    worker.engine_lost.emit(error)
    assert ended == [(job, end), (job, JobFailed(error=error))]


def test_a_cancelled_operation_hears_when_it_stops_a_dropped_one_nothing(engine, worker):
    cancelled = Asked(engine)
    dropped = Asked(engine)
    replaced = Asked(engine)
    cancelled.operation.cancel()
    dropped.operation.drop()
    replaced.operation.drop(enforced=True)
    assert (worker.cancelled, worker.withdrawn) == ([1, 3], [2])
    for number in (1, 2, 3):
        worker.say(finished_tensor("q"), JobCancelled(), job=number)
    assert [len(listener.events) for listener in (cancelled, dropped, replaced)] == [1, 0, 0]
    assert [listener.ends for listener in (cancelled, dropped, replaced)] == [
        [JobCancelled()],
        [],
        [],
    ]


def test_a_lost_engine_ends_every_operation_and_is_told_once(engine, session, worker):
    reported: list[object] = []
    session.problem.connect(reported.append)
    several = [Asked(engine, job) for job, _ in STATES]
    error = EngineError("The engine is gone.")
    worker.engine_lost.emit(error)
    assert [listener.ends for listener in several] == [[JobFailed(error=error)]] * len(STATES)
    assert [str(message) for message in reported] == [
        f"{error} Merge again to resume from the last finished tensor."
    ]
    assert not engine.is_busy
    assert session.state is ActivityState.EMPTY


@pytest.mark.parametrize(("job", "state"), STATES)
def test_the_session_is_in_a_state_until_the_last_job_of_its_kind_ends(
    job, state, engine, session, worker
):
    Asked(engine, job), Asked(engine, job)
    worker.say(JobDone(), job=1)
    assert session.state is state
    worker.say(JobDone(), job=2)
    assert session.state is ActivityState.EMPTY


def test_a_job_may_be_asked_for_where_another_ends(engine, session, worker):
    received: list[End] = []
    engine.run(
        MERGE,
        on_end=lambda _: engine.run(ScanJob(paths=()), on_end=received.append),
    )
    with_idle: list[bool] = []
    engine.idle.connect(lambda: with_idle.append(True))
    worker.say(JobDone(), job=1)
    assert engine.is_busy
    assert not with_idle
    worker.say(JobDone(), job=2)
    assert received == [JobDone()]
    assert with_idle == [True]


def test_a_delayed_action_happens_once_and_then_all_is_idle(engine, qtbot):
    done: list[bool] = []
    timer = engine.delayed(20, lambda: done.append(True))
    with qtbot.waitSignal(engine.idle):
        for _ in range(3):
            timer.start()
        assert engine.is_busy
    assert done == [True]


def test_an_error_is_told_unless_who_asked_shows_it(engine, session, worker):
    reported: list[object] = []
    session.problem.connect(reported.append)
    failed = ENDS[-1]
    engine.run(MERGE, quiet=True)
    worker.say(failed)
    assert not reported
    engine.run(MERGE)
    worker.say(failed)
    assert reported == [failed.error]
