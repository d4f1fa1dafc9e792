"""A pass over the whole model, before or after the merge, is said beside the progress."""

from ace_gui.engine.contract.events import PassProgress
from ace_gui.gui.shell.main_window import MainWindow
from tests.gui.fakes import COLA, ENGINE, GAMMAS, SST2, FakeWorker, analysed, load, started


def test_a_pass_has_its_own_words_and_count(window: MainWindow, worker: FakeWorker) -> None:
    worker.say(ENGINE, job=0)
    window.conductor.open([COLA.parent / "recipe.yaml"])
    load(worker, COLA, SST2)
    worker.say(*analysed(GAMMAS))
    window.merge.start()
    worker.say(PassProgress(title="looking at the whole model", done=3, total=7))
    index = window.header.primary
    index.refresh()  # progress is shown now and then only
    assert index.message.text() == "Looking at the whole model"
    assert index.main.text() == "3 of 7"
    worker.say(started())
    index.refresh()
    assert not index.message.text()
    assert index.main.text().startswith("0 of")
