import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from ace_gui.gui.widgets.form import ScientificSpinBox


@pytest.fixture
def box(qtbot: QtBot) -> ScientificSpinBox:
    box = ScientificSpinBox(0.0, 1.0, low_open=True)
    qtbot.addWidget(box)
    box.setValue(1e-5)
    return box


def type_in(box: ScientificSpinBox, qtbot: QtBot, text: str) -> None:
    box.selectAll()
    qtbot.keyClicks(box.lineEdit(), text)
    qtbot.keyClick(box.lineEdit(), Qt.Key.Key_Return)


def test_steps_go_through_one_two_five(box: ScientificSpinBox) -> None:
    seen = []
    assert box.text() == "1e-5"
    for _ in range(4):
        box.stepBy(1)
        seen.append(box.value())
    assert seen == [2e-5, 5e-5, 1e-4, 2e-4]
    box.stepBy(-4)
    assert box.value() == 1e-5
    box.setValue(1.0)
    box.stepBy(1)
    assert box.value() == 1.0


def test_a_typed_value_is_taken(box: ScientificSpinBox, qtbot: QtBot) -> None:
    with qtbot.waitSignal(box.valueChanged) as reported:
        type_in(box, qtbot, "3,5e-3")
    assert reported.args == [3.5e-3]


@pytest.mark.parametrize("text", ["0", "-1", "2", "nan", "inf", "many"])
def test_what_is_out_of_range_or_no_number_is_put_back(
    box: ScientificSpinBox, qtbot: QtBot, text: str
) -> None:
    with qtbot.assertNotEmitted(box.valueChanged):
        type_in(box, qtbot, text)
    assert box.value() == 1e-5
    assert box.text() == "1e-5"


@settings(deadline=None, max_examples=100, suppress_health_check=list(HealthCheck))
@given(value=st.floats(min_value=1e-9, max_value=0.1), steps=st.integers(1, 5))
def test_stepping_up_and_down_moves_the_value_that_way(
    box: ScientificSpinBox, value: float, steps: int
) -> None:
    box.setValue(value)
    box.stepBy(steps)
    assert box.value() > value or box.value() == 1.0
    box.setValue(value)
    box.stepBy(-steps)
    assert 0 < box.value() < value
