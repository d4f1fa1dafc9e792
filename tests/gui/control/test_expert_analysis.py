"""The experts are compared whenever nothing more important runs, however that ended."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ace_gui.engine.contract.events import Event, JobCancelled, JobDone, JobFailed
from ace_gui.engine.contract.jobs import AnalyseJob, MergeJob, PlanJob, ScanJob
from ace_gui.errors import EngineError, MismatchError, NonFiniteError
from ace_gui.gui.control.conductor import Conductor
from ace_gui.gui.control.engine_client import EngineClient
from ace_gui.gui.control.merge_operation import MergeOperation, RunOperations
from ace_gui.gui.control.merge_stores import MergeStores
from ace_gui.gui.state.session import Session
from tests.gui.fakes import (
    COLA,
    ENGINE,
    GAMMAS,
    SST2,
    FakeWorker,
    analysed,
    finished_merge,
    load,
    started,
)

LOST = EngineError("The engine is gone.")
FAILURE = MismatchError("It does not fit.", path=Path("/models/broken"))
MERGE_ENDS: dict[str, tuple[Event, ...]] = {
    "done": (finished_merge(), JobDone()),
    "cancelled": (JobCancelled(),),
    "failed": (JobFailed(error=FAILURE),),
}


class Window:
    """What the window puts together over one engine client."""

    def __init__(self, session: Session, worker: FakeWorker, folder: Path) -> None:
        self.engine = EngineClient(session, worker)
        runs = RunOperations(self.engine, MergeStores(folder))
        self.merge = MergeOperation(self.engine, runs)
        self.conductor = Conductor(self.engine, runs)

    @property
    def compares(self) -> bool:
        return bool(self.engine.running(AnalyseJob))


@pytest.fixture
def window(session: Session, worker: FakeWorker, tmp_path: Path) -> Iterator[Window]:
    """A window whose experts are being compared."""
    window = Window(session, worker, tmp_path / "merges")
    worker.say(ENGINE, job=0)
    window.conductor.open([Path("recipe.yaml")])
    load(worker, COLA, SST2)
    assert window.compares
    yield window
    window.engine.deleteLater()


@pytest.mark.parametrize("end", [*MERGE_ENDS, "lost"])
def test_it_goes_on_however_a_merge_ended(window, worker, session, end):
    window.merge.start()
    assert not window.compares, "a merge takes its place"
    worker.say(started(), job=worker.newest(MergeJob))
    if end == "lost":
        worker.engine_lost.emit(LOST)
    else:
        worker.say(*MERGE_ENDS[end], job=worker.newest(MergeJob))
    assert window.compares
    worker.say(*analysed(GAMMAS), job=worker.newest(AnalyseJob))
    assert session.layers.is_analysed
    assert not window.compares


def test_it_goes_on_if_a_proposed_plan_fails(window, worker):
    worker.say(JobCancelled())
    window.conductor.add_experts([FAILURE.path])
    worker.say(JobFailed(error=FAILURE), job=worker.newest(PlanJob))
    assert window.compares


def test_a_cancelled_comparison_waits_for_the_end_of_other_work(window, worker):
    worker.say(JobCancelled())
    assert not window.compares
    window.engine.run(ScanJob(paths=()))
    worker.say(JobDone())
    assert window.compares


def test_a_comparison_that_loses_the_engine_begins_again_once(window, worker):
    worker.engine_lost.emit(LOST)
    assert window.compares
    worker.engine_lost.emit(LOST)
    assert not window.compares
    window.engine.run(ScanJob(paths=()))
    worker.engine_lost.emit(LOST)
    assert not window.compares


@pytest.mark.parametrize(
    "error",
    [FAILURE, NonFiniteError("layer.0.q has NaN.", path=Path("/models/cola"), tensor="layer.0.q")],
    ids=lambda error: type(error).__name__,
)
def test_a_failed_comparison_is_told_once_and_tried_again_after_another_plan(
    window, worker, session, error
):
    told: list[object] = []
    session.problem.connect(told.append)
    worker.say(JobFailed(error=error))
    window.engine.run(ScanJob(paths=()))
    worker.say(JobDone())
    assert not window.compares
    assert told == [error]
    window.conductor.plan()
    load(worker, COLA, SST2)
    assert window.compares
