from pytestqt.qtbot import QtBot

from ace_gui.engine.contract.events import JobDone, SampleAccuracy
from ace_gui.engine.contract.jobs import LoadRecipeJob, MergeJob, SampleAccuracyJob
from ace_gui.gui.panels.layer.accuracies_panel import AccuraciesPanel
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.shell.sample_tour import Demo
from ace_gui.paths import Sample
from tests.gui.fakes import (
    COLA,
    ENGINE,
    GAMMAS,
    SST2,
    FakeWorker,
    analysed,
    finished_merge,
    finished_tensor,
    load,
    started,
)


def test_the_demo_does_what_a_person_would(
    window: MainWindow, worker: FakeWorker, qtbot: QtBot
) -> None:
    Demo(window, Sample.IMAGES.recipe)
    worker.say(ENGINE, job=0)
    assert worker.jobs[1].paths[0].name == "sample.yaml"
    load(worker, COLA, SST2)
    worker.say(*analysed(GAMMAS))
    merge = worker.newest(MergeJob)
    worker.say(started(), finished_tensor("layer.0.q"), finished_merge(), JobDone())
    assert window.session.selection == "layer.10.q"
    accuracy = SampleAccuracy(model="ACE", by_task={"digits": 0.5, "signs": 0.75})
    worker.say(accuracy, JobDone(), job=worker.newest(SampleAccuracyJob))
    inspector = window.workspace.inspector
    inspector.tabs.setCurrentIndex(inspector.tabs.count() - 1)
    panel = inspector.panel
    assert isinstance(panel, AccuraciesPanel)
    table = panel.table
    assert [table.item(0, column).text() for column in range(3)] == ["0.625", "0.500", "0.750"]
    kinds = [type(job) for job in worker.jobs.values()]
    assert kinds.count(LoadRecipeJob) == kinds.count(SampleAccuracyJob) == 1
    assert worker.newest(MergeJob) == merge  # once is enough
    qtbot.waitUntil(lambda: not any(timer.isActive() for timer in window.engine._timers))
    worker.say(JobDone())
