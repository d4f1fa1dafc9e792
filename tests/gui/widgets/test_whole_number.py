"""A double click selects the whole number, in every numeric field: the style sees to it."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QIntValidator, QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QApplication,
    QDoubleSpinBox,
    QLineEdit,
    QSpinBox,
    QWidget,
)

from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.widgets.fields.scientific import ScientificSpinBox
from tests.helpers.windows import in_view


def double_click(line: QLineEdit, at: int) -> None:
    """As a hand does it: the mouse moves a little before the button is let go."""
    line.setCursorPosition(at)
    index = QPointF(line.cursorRect().center())
    left, none = Qt.MouseButton.LeftButton, Qt.MouseButton.NoButton
    kinds = QEvent.Type
    for kind, button, held, by in (
        (kinds.MouseButtonPress, left, left, 0),
        (kinds.MouseButtonRelease, left, none, 0),
        (kinds.MouseButtonDblClick, left, left, 0),
        (kinds.MouseMove, none, left, 3),
        (kinds.MouseButtonRelease, left, none, 3),
    ):
        where = index + QPointF(by, 0)
        event = QMouseEvent(
            kind, where, line.mapToGlobal(where), button, held, Qt.KeyboardModifier.NoModifier
        )
        QApplication.sendEvent(line, event)


def numeric_fields() -> dict[str, tuple[QWidget, object]]:
    """A field of each kind with a number of several digits; its text with affixes."""
    digits = QLineEdit()
    digits.setValidator(QIntValidator(digits))
    return {
        "375": (QSpinBox(maximum=1000), 375),
        "a 375 mm": (QSpinBox(maximum=1000, prefix="a ", suffix=" mm"), 375),
        "0.375": (QDoubleSpinBox(decimals=3), 0.375),
        "3.5e-5": (ScientificSpinBox(0.0, 2.0), 3.5e-5),
        "376": (digits, "376"),
    }


@pytest.mark.parametrize("text", ["375", "a 375 mm", "0.375", "3.5e-5", "376"])
def test_a_double_click_selects_the_number_and_typing_replaces_it(qtbot, text: str) -> None:
    box, value = numeric_fields()[text]
    in_view(qtbot, box, width=160, height=30)
    line = box.lineEdit() if isinstance(box, QAbstractSpinBox) else box
    prefix, suffix = (getattr(box, name, str)() for name in ("prefix", "suffix"))
    for at in range(8):
        box.setText(value) if box is line else box.setValue(value)
        assert line.text() == text
        double_click(line, min(at + len(prefix), len(text)))
        assert line.selectedText() == text.removeprefix(prefix).removesuffix(suffix)
        QTest.keyClick(line, "1")
        assert line.text() == f"{prefix}1{suffix}"


@pytest.mark.parametrize("row", [0, 1])
def test_a_double_click_selects_the_weight_of_an_expert(loaded: MainWindow, row: int) -> None:
    table = loaded.workspace.experts.table
    model = table.model()
    column = next(
        c
        for c in range(model.columnCount())
        if "eight" in str(model.headerData(c, Qt.Orientation.Horizontal))
    )
    table.edit(model.index(row, column))
    (box,) = table.findChildren(QDoubleSpinBox)
    double_click(box.lineEdit(), 1)
    assert box.lineEdit().selectedText() == box.cleanText()
