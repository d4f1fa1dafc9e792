"""What stands beside something else where there is room, and below it or elided where not."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QPushButton, QWidget

from ace_gui.gui.widgets.controls import ElidedCheckBox
from ace_gui.gui.widgets.layout import FlowLayout, TitleLine, split
from tests.helpers.windows import in_view

LONG = "variant published, ε 1e-9 & poolers: merge and 3 more"


@pytest.mark.parametrize("text", ["distil", "ACE, recommended", "a & b", LONG])
def test_a_box_shows_all_of_its_text_where_there_is_room(qtbot, text):
    box = ElidedCheckBox(text)
    size = box.sizeHint()
    in_view(qtbot, box, width=size.width(), height=size.height())
    assert box.text() == text.replace("&", "&&")
    assert box.accessibleName() == text
    box.resize(box.minimumSizeHint())
    assert (box.text() == text.replace("&", "&&")) is (text != LONG)
    assert abs(box.sizeHint().width() - size.width()) <= 1, "it asks for room for the whole text"
    box.resize(size)
    assert box.text() == text.replace("&", "&&")


def test_a_long_box_keeps_to_the_width_of_its_row(qtbot):
    rows = QWidget()
    flow = FlowLayout(rows, spacing=4)
    box = ElidedCheckBox(LONG)
    flow.addWidget(box)
    in_view(qtbot, rows, width=box.minimumSizeHint().width() + 10, height=60)
    assert box.width() == rows.width()
    assert "…" in box.text()


def test_controls_are_beside_a_title_or_below_it(qtbot):
    title = QLabel("A title")
    button = QPushButton("Do")
    line = TitleLine(title, button, lines=20)
    height = line.fontMetrics().height()
    in_view(qtbot, line, width=24 * height, height=100)
    qtbot.waitUntil(lambda: button.x() > title.x() + title.width() / 2)
    line.resize(16 * height, 100)
    qtbot.waitUntil(lambda: button.y() >= title.geometry().bottom())


def test_parts_are_stacked_below_their_width(qtbot):
    splitter = split(QLabel("one"), QLabel("two"), sizes=(1, 2), gap=4, lines=20)
    height = splitter.fontMetrics().height()
    in_view(qtbot, splitter, width=24 * height, height=100)
    assert splitter.orientation() is Qt.Orientation.Horizontal
    splitter.resize(16 * height, 100)
    assert splitter.orientation() is Qt.Orientation.Vertical
