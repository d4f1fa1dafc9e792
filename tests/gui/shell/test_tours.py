"""The tutorial goes on by what the person does; marks stand beside what they point to."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from ace_gui.gui.shell.tours import Tour, TourStep
from ace_gui.gui.widgets.coach_mark import CoachMark, next_to
from ace_gui.gui.widgets.labels import DrawingLabel
from tests.gui.fakes import (
    COLA,
    ENGINE,
    GAMMAS,
    SST2,
    analysed,
    finished_tensor,
    load,
    merged,
)
from tests.helpers.windows import in_view


def ring_of(window: QWidget) -> QWidget:
    (ring,) = [
        widget for widget in window.findChildren(QWidget) if widget.property("kind") == "ring"
    ]
    return ring


def place_of(widget: QWidget) -> QRect:
    return QRect(widget.mapTo(widget.window(), QPoint(0, 0)), widget.size())


def test_the_tutorial_goes_on_by_what_is_done(window, worker, qtbot):
    worker.say(ENGINE, job=0)
    window.actions_.tutorial.trigger()
    tour = window.help.begin_tutorial()  # again: the first is ended
    qtbot.waitUntil(lambda: len(window.findChildren(CoachMark)) == 1)
    assert "Merge the sample" in tour.mark.sentence.text()
    assert tour.mark.counter.text() == "Step 1 of 8"
    window.actions_.sample.trigger()  # only opened: the person merges
    load(worker, COLA, SST2)
    worker.say(*analysed(GAMMAS))
    assert tour.step_index == 1
    assert ring_of(window).geometry().contains(place_of(window.workspace.layers.table).center())
    (picture,) = tour.mark.findChildren(DrawingLabel)
    assert picture.isVisible()
    window.session.select("layer.2.q")
    assert tour.step_index == 2
    assert picture.isHidden()
    tour.mark.next.click()
    assert tour.step_index == 3
    assert ring_of(window).geometry().contains(place_of(window.header.primary.main))
    load(worker, COLA, SST2)
    merged(window, worker, finished_tensor("layer.0.q"))
    assert tour.step_index == 4
    assert tour.mark.next.text() == "Next"
    tour.mark.next.click()
    assert tour.step_index == 5
    scores = window.header.workspaces.findChildren(QPushButton)[2]
    qtbot.mouseClick(scores, Qt.MouseButton.LeftButton)
    assert tour.step_index == 6
    assert window.session.results.merge is not None
    window.session.results.merge.accuracies = {"cola": 0.5}
    window.session.results.scores.changed.emit()
    assert tour.step_index == 7
    assert tour.mark.next.text() == "Done"
    tour.mark.next.click()
    assert not tour.is_running
    qtbot.waitUntil(lambda: not window.findChildren(CoachMark))


def test_a_tour_can_be_ended_at_any_step(loaded, qtbot):
    tour = loaded.help.begin_tutorial()
    tour.mark.end.click()
    assert not tour.is_running
    qtbot.waitUntil(lambda: not loaded.findChildren(CoachMark))
    loaded.session.select("layer.0.q")  # nothing listens any more


def test_a_mark_follows_what_it_points_to(qtbot):
    window = QWidget()
    row = QHBoxLayout(window)
    button = QPushButton("Press")
    row.addWidget(button)
    in_view(qtbot, window, width=600, height=400)
    tour = Tour(window, [TourStep(sentence="Press it.", target=lambda: button)])
    assert ring_of(window).geometry().contains(place_of(button))
    window.resize(700, 500)
    qtbot.waitUntil(lambda: ring_of(window).geometry().contains(place_of(button)))
    assert window.rect().contains(tour.mark.geometry())
    assert tour.mark.accessibleName() == "Step 1 of 1: Press it."
    button.hide()
    qtbot.waitUntil(lambda: not ring_of(window).isVisible())
    tour.end()


@pytest.mark.parametrize(
    ("where", "side"),
    [
        (QRect(300, 10, 80, 30), "below"),
        (QRect(300, 560, 80, 30), "above"),
        (QRect(10, 0, 100, 600), "right"),
        (QRect(690, 0, 100, 600), "left"),
    ],
)
def test_a_bubble_stands_beside_and_inside_of_the_window(where, side):
    bubble = QRect(next_to(where, QSize(200, 90), QRect(0, 0, 800, 600)), QSize(200, 90))
    assert QRect(0, 0, 800, 600).contains(bubble)
    assert not bubble.intersects(where)
    sides = {
        "below": bubble.top() > where.bottom(),
        "above": bubble.bottom() < where.top(),
        "right": bubble.left() > where.right(),
        "left": bubble.right() < where.left(),
    }
    assert sides[side]


def test_a_bubble_over_all_of_the_window_stays_inside():
    room = QRect(0, 0, 800, 600)
    assert room.contains(QRect(next_to(room, QSize(200, 90), room), QSize(200, 90)))
