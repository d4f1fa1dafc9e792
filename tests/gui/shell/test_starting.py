"""While the engine starts, which takes seconds, the window says so and its bar moves."""

import pytest

from ace_gui.engine.contract.events import JobDone, JobProgress
from ace_gui.gui.control.engine_client import EngineClient
from ace_gui.gui.shell.window_frame import Footer
from ace_gui.gui.widgets.controls import ProgressBar
from tests.gui.fakes import BASE, COLA, ENGINE, SST2, adopt_two, load


def footer_of(window) -> Footer:
    footer = window.statusBar()
    assert isinstance(footer, Footer)
    return footer


@pytest.mark.parametrize("loaded", [False, True], ids=["welcome page", "models loaded"])
def test_an_opening_says_that_it_waits_for_the_engine(window, worker, loaded):
    if loaded:
        adopt_two(window.session)
    footer = footer_of(window)
    subtitle = window.welcome.subtitle
    window.conductor.open([BASE, COLA, SST2])
    assert footer.text.full_text.startswith("Starting the engine …")
    assert subtitle.text().startswith("Starting the engine …")
    assert not footer.device.isVisible(), "it would say the same again"
    assert footer.stop.isVisible()
    worker.say(ENGINE, job=0)
    assert footer.text.full_text.startswith("Reading headers …")
    assert subtitle.text().startswith("Reading headers …")
    assert footer.device.isVisible()
    load(worker, COLA, SST2)
    assert not subtitle.text().startswith("Reading")


def test_a_lost_engine_is_started_again_and_that_is_said(loaded, worker):
    footer = footer_of(loaded)
    worker.engine_starting.emit()
    assert footer.device.text() == "Starting the engine …"
    loaded.conductor.plan()
    assert footer.text.full_text.startswith("Starting the engine …")
    worker.say(ENGINE, job=0)
    assert footer.text.full_text.startswith("Reading headers …")
    load(worker, COLA, SST2)


def test_the_bar_moves_while_nothing_is_known_and_stops_with_the_work(window, worker, qtbot):
    bar = footer_of(window).bar
    window.opener.open_paths([BASE, COLA, SST2])
    places: set[float] = set()

    def moved() -> bool:
        places.add(bar.place)
        return len(places) > 3

    qtbot.waitUntil(moved)
    assert bar.accessibleName() == "Progress"
    worker.say(ENGINE, JobProgress(done=1, total=4, title="reading"), job=1)
    qtbot.waitUntil(lambda: bar.maximum() > 0)
    place = bar.place
    qtbot.wait(200)
    assert bar.place == place
    load(worker, COLA, SST2)


def test_a_moving_bar_is_painted_where_it_is_and_rests_while_hidden(qtbot, light):
    bar = ProgressBar("Progress", None)
    qtbot.addWidget(bar)
    bar.resize(120, 6)
    bar.show_share(0, 0)
    bar.show()
    bar._timer.stop()
    pictures = []
    for place in (0.0, 0.5, 1.0):
        bar.place = place
        pictures.append(bar.grab().toImage())
    accent = [
        [image.pixelColor(x, 3) == pictures[1].pixelColor(60, 3) for x in (5, 60, 115)]
        for image in pictures
    ]
    assert accent == [[True, False, False], [False, True, False], [False, False, True]]
    bar.hide()
    assert not bar._timer.isActive()
    bar.show()
    assert bar._timer.isActive()
    bar.show_share(1, 2)
    assert not bar._timer.isActive()


def test_the_activity_says_in_any_state_that_the_engine_starts(session, worker):
    engine = EngineClient(session, worker)
    activity = session.activity
    changes: list[bool] = []
    activity.changed.connect(lambda: changes.append(activity.engine_is_starting))
    assert activity.engine_is_starting
    worker.say(ENGINE, job=0)
    worker.engine_starting.emit()
    worker.engine_starting.emit()
    worker.say(ENGINE, JobDone(), job=0)
    assert changes == [False, True, False]
    engine.deleteLater()
