"""Everything can be reached by keyboard, in the order in which one reads, and says what it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import pytest
from PySide6.QtCore import QItemSelectionModel, Qt
from PySide6.QtGui import QAccessible, QAccessibleInterface
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QLineEdit,
    QPushButton,
    QSpinBox,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from ace_gui.engine.contract.events import JobDone
from ace_gui.gui.state.activity import ActivityState
from tests.gui.fakes import finished_merge, started
from tests.helpers.windows import stops

Choose = QItemSelectionModel.SelectionFlag
MARKUP = re.compile(r"<\w+[ >/]")


def test_tab_goes_as_one_reads(loaded, qtbot):
    reached = stops(loaded, qtbot)
    workspace = loaded.workspace
    parts = [
        loaded.header,
        workspace.experts,
        workspace.method,
        workspace.layers,
        workspace.inspector,
        workspace.heterogeneity,
        loaded.statusBar(),
    ]
    indices = [[i for i, stop in enumerate(reached) if part.isAncestorOf(stop)] for part in parts]
    assert all(indices), "every part is reached"
    assert workspace.heterogeneity.plot in reached
    for before, after in pairwise(indices):
        assert max(before) < min(after)


def test_a_tab_that_is_made_late_has_its_place(loaded, qtbot):
    tabs = loaded.workspace.heterogeneity.tabs
    tabs.setCurrentIndex(1)
    made = tabs.content(1)
    qtbot.waitUntil(made.isVisible)
    reached = stops(loaded, qtbot)
    inside = [i for i, stop in enumerate(reached) if made is stop or made.isAncestorOf(stop)]
    assert inside
    assert inside[0] > reached.index(tabs.bar)
    assert inside[-1] < reached.index(loaded.statusBar().device)


def test_names_and_tips_are_plain_text(loaded):
    for widget in loaded.findChildren(QWidget):
        for text in (widget.accessibleName(), widget.accessibleDescription(), widget.toolTip()):
            assert not MARKUP.search(text), (widget, text)


def nameless(interface: QAccessibleInterface) -> Iterator[str]:
    """What takes the focus or is a button, and has nothing that a screen reader could say."""
    if interface.state().invisible:
        return
    stops = interface.state().focusable or interface.role() is QAccessible.Role.Button
    if stops and not interface.text(QAccessible.Text.Name).strip():
        yield f"{interface.object()} in {interface.parent().object()}"
    for index in range(interface.childCount()):
        yield from nameless(interface.child(index))


def test_all_that_a_screen_reader_comes_to_has_a_name(loaded):
    for space in range(3):
        loaded.workspace.show_space(space)
        assert not list(nameless(QAccessible.queryAccessibleInterface(loaded)))


def test_return_presses_the_button_with_the_focus(loaded, qtbot):
    button = loaded.header.primary.main
    button.setFocus()
    qtbot.keyClick(button, Qt.Key.Key_Return)
    assert loaded.session.activity.is_running(ActivityState.MERGING)


def test_the_main_button_keeps_the_focus_through_a_merge(loaded, worker, qtbot):
    main = loaded.header.primary.main
    loaded.activateWindow()
    main.setFocus()
    qtbot.waitUntil(main.hasFocus)
    main.click()
    worker.say(started(), finished_merge(), JobDone())
    worker.say(JobDone())
    assert main.text() == "Export…"
    assert main.hasFocus()


@pytest.mark.parametrize("chosen", [False, True])
def test_tables_show_where_the_focus_is(loaded, qtbot, chosen):
    workspace = loaded.workspace
    loaded.activateWindow()
    qtbot.keyClick(loaded, Qt.Key.Key_Tab)  # rings are shown to who uses the keyboard
    tables = (workspace.experts.table, workspace.layers.table)
    for table in tables[:1] if chosen else tables:  # the first rows of the other are titles
        workspace.layers.text.setFocus()
        qtbot.waitUntil(workspace.layers.text.hasFocus)
        for column in (0, 2):
            index = table.model().index(0, column)
            table.selectionModel().setCurrentIndex(
                index, (Choose.ClearAndSelect if chosen else Choose.NoUpdate) | Choose.Rows
            )
            before = table.grab().toImage()
            table.setFocus(Qt.FocusReason.TabFocusReason)
            assert table.selectionModel().hasSelection() is chosen
            assert table.grab().toImage() != before, table.accessibleName()
            workspace.layers.text.setFocus()


@pytest.mark.parametrize("kind", ["", "primary", "again", "start", "tinted", "ghost", "link"])
@pytest.mark.parametrize("control", [QPushButton, QToolButton, QCheckBox, QComboBox, QSpinBox])
def test_what_tab_reaches_shows_it(control, kind, qtbot):
    window = QWidget()
    qtbot.addWidget(window)
    layout = QVBoxLayout(window)
    first = QLineEdit()
    second = control()
    second.setProperty("kind", kind)
    second.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    layout.addWidget(first)
    layout.addWidget(second)
    window.show()
    window.activateWindow()
    first.setFocus()
    qtbot.waitUntil(first.hasFocus)
    before = second.grab().toImage()
    qtbot.keyClick(first, Qt.Key.Key_Tab)
    assert second.hasFocus()
    assert second.grab().toImage() != before


@pytest.mark.parametrize("by_key", [True, False])
def test_f11_or_a_double_click_shows_a_panel_alone_and_all_again(loaded, qtbot, by_key):
    workspace = loaded.workspace
    bar = loaded.workspace.heterogeneity.tabs.bar
    loaded.activateWindow()
    bar.setFocus()
    qtbot.waitUntil(bar.hasFocus)
    for alone in (True, False):
        centre = bar.tabRect(0).center()
        if by_key:
            loaded.actions_.maximise.trigger()
        else:
            qtbot.mouseClick(bar, Qt.MouseButton.LeftButton, pos=centre)
            qtbot.mouseDClick(bar, Qt.MouseButton.LeftButton, pos=centre)
        assert workspace.heterogeneity.isVisible()
        assert workspace.layers.isVisible() != alone
        assert workspace.inspector.isVisible() != alone
    assert not workspace.cards.in_turns


def test_the_inputs_fold_in_a_narrow_window_and_stay_as_the_person_wants(loaded, qtbot):
    column = loaded.workspace.left
    line = loaded.fontMetrics().height()
    loaded.resize(100 * line, 60 * line)
    assert not column.is_folded
    loaded.resize(80 * line, 60 * line)
    qtbot.waitUntil(lambda: column.is_folded)
    assert not loaded.actions_.inputs.isChecked()
    column.rail.buttons[0].click()
    assert not column.is_folded
    assert loaded.actions_.inputs.isChecked()
    loaded.resize(82 * line, 60 * line)
    qtbot.wait(20)  # it would fold a turn later
    assert not column.is_folded, "as the person wants it"


def test_where_there_is_no_room_panels_take_turns(loaded):
    cards = loaded.workspace.cards
    line = loaded.fontMetrics().height()
    loaded.setMinimumSize(0, 0)
    loaded.resize(60 * line, 24 * line)
    assert cards.in_turns
    assert loaded.workspace.layers.isVisible()
    assert not loaded.workspace.inspector.isVisible()
    loaded.workspace.show_checks()
    assert loaded.workspace.inspector.isVisible()
    assert not loaded.workspace.layers.isVisible()


def test_in_a_low_window_the_views_fold_beside_table_and_spectrum(loaded):
    workspace = loaded.workspace
    line = loaded.fontMetrics().height()
    cards = workspace.cards
    views = workspace.heterogeneity
    loaded.setMinimumSize(0, 0)
    loaded.resize(74 * line, 38 * line)
    assert not cards.in_turns
    assert cards.views_are_folded
    assert workspace.layers.isVisible()
    assert workspace.inspector.isVisible()
    assert views.tabs.bar.isVisible(), "the same tabs at all sizes"
    assert not views.plot.isVisible()
    cards.fold_button.click()
    assert views.plot.isVisible()
    assert "Fold" in cards.fold_button.accessibleName()
    cards.save(loaded.settings)
    cards.fold_button.click()
    assert not views.plot.isVisible()
    cards.restore(loaded.settings)
    assert views.plot.isVisible()
    cards.fold_button.click()
    workspace.show_health()
    assert not cards.views_are_folded
    loaded.resize(90 * line, 60 * line)
    cards.reset()
    assert not cards.views_are_folded
