"""A double click selects the whole number, in every numeric field of the window."""

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QIntValidator, QMouseEvent, QRegularExpressionValidator
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QApplication,
    QDoubleSpinBox,
    QLineEdit,
    QSpinBox,
    QWidget,
)

from ace_gui.field_info import Option
from ace_gui.gui.panels.tune_tab import TuneTab
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.shell.window_frame import Space
from ace_gui.gui.widgets.form import ParameterField, ScientificSpinBox
from ace_gui.gui.widgets.lazy import LazyTabs
from ace_gui.recipe.values import Task
from tests.gui.fakes import BASE, FakeWorker, field
from tests.helpers.windows import timers_rest
from tests.walk.states import newest_dialog, openers

KINDS = ("float", "int")
_WITHOUT_NUMBERS = {"closing", "commands", "help pages", "glossary", "about", "log"}


def numeric_fields(root: QWidget) -> list[QWidget]:
    """Boxes, and lines that only take digits."""
    digits = (QIntValidator, QRegularExpressionValidator)
    lines = [line for line in root.findChildren(QLineEdit) if isinstance(line.validator(), digits)]
    return [*root.findChildren(QAbstractSpinBox), *lines]


def in_the_window(window: MainWindow) -> Iterator[QWidget]:
    """Of all panels, the list of experts and every dialog, while it is open."""
    window.session.draft.set_tasks((Task(data=BASE, expert="cola"),))
    page = window.workspace.show_scores()
    page.show_tab(TuneTab)
    for space in Space:
        window.workspace.show_space(space)
    for tabs in window.findChildren(LazyTabs):
        for index in range(tabs.bar.count()):
            tabs.content(index)
    yield from numeric_fields(window)
    for kind in KINDS:
        for logarithmic in (False, True):
            made = ParameterField(field("x", kind=kind, logarithmic=logarithmic, default=1), window)
            made.show_value(1, "", touched=True)
            yield from numeric_fields(made)
    digits = ParameterField(Option(name="x", label="x", kind="digits"), window)
    yield from numeric_fields(digits)
    for name, open_it in openers(window).items():
        if name not in _WITHOUT_NUMBERS:
            open_it()
            dialog = newest_dialog()
            assert dialog is not None, name
            yield from numeric_fields(dialog)
            dialog.close()


def double_click(line: QLineEdit, at: int) -> None:
    """As a hand does it: the mouse moves a little before the button is let go."""
    line.setCursorPosition(at)
    centre = QPointF(line.cursorRect().center())
    left_button = Qt.MouseButton.LeftButton
    none = Qt.MouseButton.NoButton
    kinds = QEvent.Type
    for kind, button, held, by in (
        (kinds.MouseButtonPress, left_button, left_button, 0),
        (kinds.MouseButtonRelease, left_button, none, 0),
        (kinds.MouseButtonDblClick, left_button, left_button, 0),
        (kinds.MouseMove, none, left_button, 3),
        (kinds.MouseButtonRelease, left_button, none, 3),
    ):
        where = centre + QPointF(by, 0)
        event = QMouseEvent(
            kind, where, line.mapToGlobal(where), button, held, Qt.KeyboardModifier.NoModifier
        )
        QApplication.sendEvent(line, event)


def show_digits(box: QWidget) -> None:
    """A number of several digits, where the field has room for it."""
    if isinstance(box, ScientificSpinBox):
        box.setValue(3.5e-5)
    elif isinstance(box, QDoubleSpinBox):
        box.setValue(min(box.maximum(), max(box.minimum(), 0.375)))
    elif isinstance(box, QSpinBox):
        box.setValue(min(box.maximum(), 375))
    elif isinstance(box, QLineEdit):
        box.setText("375")


def test_a_double_click_selects_the_number_and_typing_replaces_it(
    loaded: MainWindow, worker: FakeWorker, qtbot
) -> None:
    seen: list[str] = []
    for box in in_the_window(loaded):
        line = box.lineEdit() if isinstance(box, QAbstractSpinBox) else box
        if line.isReadOnly() or not line.isEnabled():
            continue
        box.ensurePolished()
        affixes = [getattr(box, name, str)() for name in ("prefix", "suffix")]
        for at in range(8):
            box.blockSignals(True)
            show_digits(box)
            number = line.text().removeprefix(affixes[0]).removesuffix(affixes[1])
            double_click(line, min(at + len(affixes[0]), len(line.text())))
            who = f"{box.accessibleName()} {line.text()!r} at {at}"
            assert line.selectedText() == number, who
            if getattr(box, "maximum", lambda: 1)() >= 1:
                QTest.keyClick(line, "1")
                assert line.text() == f"{affixes[0]}1{affixes[1]}", who
            show_digits(box)
            box.blockSignals(False)
        seen.append(type(box).__name__)
    assert {"QSpinBox", "QDoubleSpinBox", "ScientificSpinBox", "_Line"} <= set(seen)
    assert len(seen) >= 12
    qtbot.waitUntil(lambda: timers_rest(loaded.engine))


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
