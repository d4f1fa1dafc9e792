"""The worker's thread over a scripted engine; the real one is in tests/end2end."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from ace_gui.engine.contract.events import Event, Job, JobCancelled, JobDone, LayerAnalysed
from ace_gui.engine.contract.findings import LayerStatistics
from ace_gui.engine.contract.jobs import AnalyseJob, MergeJob, PlanJob
from ace_gui.errors import EngineError
from ace_gui.gui.control.engine_client import BATCH, EngineThread
from tests.gui.fakes import COLA, ENGINE, recipe

PLAN = PlanJob(recipe=recipe(COLA))
MERGE = MergeJob(recipe=recipe(COLA), store=Path("/cache/store"))
STEP = LayerAnalysed(statistics=LayerStatistics(name="q", energies={}), done=1, total=2)


class ScriptedEngine:
    """Answers jobs with the events given for their kind; hears cancellations if it is awake."""

    pid = 1

    def __init__(self, script: dict[type, list[Event]], *, deaf: bool = False) -> None:
        self.pipe, self._theirs = Pipe()
        self._script = script
        self._deaf = deaf
        self.jobs: list[Job] = []
        self.ended: list[str] = []
        self._theirs.send((0, ENGINE))

    def submit(self, number: int, job: Job) -> None:
        self.jobs.append(job)
        for event in self._script.get(type(job), []):
            self._theirs.send((number, event))

    def cancel(self, number: int) -> None:
        if not self._deaf:
            self._theirs.send((number, JobCancelled()))

    def receive(self, timeout: float | None = None) -> tuple[int, Event] | None:
        try:
            return self.pipe.recv() if self.pipe.poll(timeout) else None
        except (EOFError, OSError):
            raise EngineError("The engine was stopped by the system.") from None

    def terminate(self) -> None:
        self.ended.append("terminate")
        self._theirs.close()

    def kill(self) -> None:
        self.ended.append("kill")

    def close(self) -> None:
        self.ended.append("close")
        with suppress(OSError):  # the test may be closing it at this moment
            self._theirs.close()
        self.pipe.close()


class Heard:
    """What a worker said."""

    def __init__(self, worker: EngineThread) -> None:
        self.events: list[tuple[int, Event]] = []
        self.lost: list[EngineError] = []
        worker.reported.connect(lambda number, event: self.events.append((number, event)))
        self.starts = 0
        worker.engine_lost.connect(self.lost.append)
        worker.engine_starting.connect(self._count_start)

    def _count_start(self) -> None:
        self.starts += 1

    def of(self, number: int) -> list[Event]:
        return [event for its, event in self.events if its == number]


Start = Callable[..., tuple[EngineThread, list[ScriptedEngine], Heard]]


@pytest.fixture
def start(qtbot: QtBot) -> Iterator[Start]:
    workers: list[EngineThread] = []

    def make(
        script: dict[type, list[Event]], *, deaf: bool = False, running: bool = True
    ) -> tuple[EngineThread, list[ScriptedEngine], Heard]:
        engines: list[ScriptedEngine] = []

        def engine() -> ScriptedEngine:
            engines.append(ScriptedEngine(script, deaf=deaf))
            return engines[-1]

        worker = EngineThread(start_engine=engine, patience=0.05)
        workers.append(worker)
        received = Heard(worker)
        if running:
            worker.start()
            qtbot.waitUntil(lambda: received.of(0) == [ENGINE])
        return worker, engines, received

    yield make
    for worker in workers:
        if worker.isRunning():
            worker.stop()
        assert worker.wait(5000)


def test_jobs_submitted_before_the_engine_is_up_are_done(start, qtbot):
    worker, _, received = start({PlanJob: [JobDone()]}, running=False)
    first = worker.submit(PLAN)
    second = worker.submit(PLAN)
    worker.start()
    qtbot.waitUntil(lambda: received.of(second) == [JobDone()])
    assert received.of(first) == [JobDone()]


def test_events_arrive_in_order_with_their_jobs_number(start, qtbot):
    many = [STEP] * (BATCH + 10) + [JobDone()]
    worker, _, received = start({AnalyseJob: many, PlanJob: [JobDone()]})
    plan = worker.submit(PLAN)
    analysis = worker.submit(AnalyseJob(recipe=recipe(COLA)))
    qtbot.waitUntil(lambda: len(received.of(analysis)) == BATCH + 11)
    assert received.of(analysis)[-1] == JobDone()
    assert received.of(plan) == [JobDone()]


def test_a_job_that_listens_is_cancelled_gently(start, qtbot):
    worker, engines, received = start({})
    number = worker.submit(MERGE)
    worker.cancel(number)
    qtbot.waitUntil(lambda: received.of(number) == [JobCancelled()])
    assert engines[0].ended == []
    assert not received.lost


def test_a_job_that_does_not_listen_takes_its_engine_along(start, qtbot):
    worker, engines, received = start({}, deaf=True)
    analysis = worker.submit(AnalyseJob(recipe=recipe(COLA)))
    number = worker.submit(MERGE)
    worker.cancel(number)
    qtbot.waitUntil(lambda: len(engines) == 2)
    qtbot.waitUntil(lambda: received.of(number) == [JobCancelled()] == received.of(analysis))
    assert engines[0].ended[0] == "terminate"
    assert not received.lost  # it was wanted


def test_what_is_opened_instead_is_planned_by_the_next_engine(start, qtbot):
    worker, engines, received = start({}, deaf=True)
    stuck = worker.submit(PLAN)
    plan_number = worker.submit(PLAN)
    worker.cancel(stuck)
    qtbot.waitUntil(lambda: len(engines) == 2 and bool(engines[1].jobs))
    assert engines[1].jobs == [PLAN]
    assert received.of(stuck) == [JobCancelled()]
    engines[1]._theirs.send((plan_number, JobDone()))
    qtbot.waitUntil(lambda: received.of(plan_number) == [JobDone()])


def test_nobody_is_killed_for_a_job_that_was_only_withdrawn(start, qtbot):
    worker, engines, received = start({MERGE.__class__: [JobDone()]}, deaf=True)
    worker.cancel(worker.submit(PLAN), enforced=False)
    qtbot.wait(150)  # three times its patience
    number = worker.submit(MERGE)
    qtbot.waitUntil(lambda: received.of(number) == [JobDone()])
    assert len(engines) == 1


def test_a_lost_engine_is_told_and_replaced(start, qtbot):
    worker, engines, received = start({PlanJob: [JobDone()]})
    worker.submit(MERGE)
    qtbot.waitUntil(lambda: bool(engines[0].jobs))
    engines[0]._theirs.close()
    qtbot.waitUntil(lambda: len(engines) == 2 and bool(received.lost))
    assert "stopped by the system" in received.lost[0].sentence
    qtbot.waitUntil(lambda: received.starts == 2)
    number = worker.submit(PLAN)
    qtbot.waitUntil(lambda: received.of(number) == [JobDone()])


def test_an_engine_that_cannot_start_is_told(qtbot):
    def refuse() -> ScriptedEngine:
        raise OSError("no more processes")

    worker = EngineThread(start_engine=refuse)
    with qtbot.waitSignal(worker.engine_lost) as lost:
        worker.start()
    assert "cannot be started" in lost.args[0].sentence
    worker.stop()
    assert worker.wait(5000)


def test_an_engine_that_was_started_before_is_the_first(qtbot):
    first = ScriptedEngine({})
    later: list[ScriptedEngine] = []

    def another() -> ScriptedEngine:
        later.append(ScriptedEngine({}))
        return later[-1]

    worker = EngineThread(first=first, start_engine=another)
    received = Heard(worker)
    worker.start()
    qtbot.waitUntil(lambda: received.of(0) == [ENGINE])
    assert later == []
    first._theirs.close()
    qtbot.waitUntil(lambda: received.of(0) == [ENGINE, ENGINE])
    assert len(later) == 1
    worker.stop()
    assert worker.wait(5000)


def test_stopping_spares_an_engine_that_writes(start, qtbot):
    worker, engines, _ = start({})
    worker.submit(MERGE)
    qtbot.waitUntil(lambda: bool(engines[0].jobs))
    worker.stop()
    assert worker.wait(5000)
    assert engines[0].ended == ["close"]
    idle, idle_engines, _ = start({})
    idle.stop()
    assert idle.wait(5000)
    assert idle_engines[0].ended == ["terminate", "close"]


def test_a_thread_that_meets_the_unexpected_goes_on(start, qtbot):
    worker, engines, received = start({PlanJob: [JobDone()]})
    engines[0]._theirs.send_bytes(b"not a pickle")
    qtbot.waitUntil(lambda: len(engines) == 2 and bool(received.lost))
    assert "invalid message" in received.lost[0].sentence
    number = worker.submit(PLAN)
    qtbot.waitUntil(lambda: received.of(number) == [JobDone()])
