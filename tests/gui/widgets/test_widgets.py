"""Small controls that Qt does not have."""

from __future__ import annotations

import math

import pytest
from PySide6.QtGui import QColor
from PySide6.QtWidgets import (
    QCheckBox,
    QLabel,
    QMenu,
    QPlainTextEdit,
    QStyleOptionComboBox,
    QVBoxLayout,
    QWidget,
)
from pytestqt.qtbot import QtBot

from ace_gui.gui.theme import DARK, LIGHT, Tokens, current_theme, icon, set_scheme
from ace_gui.gui.widgets.controls import Choice
from ace_gui.gui.widgets.labels import plain_label
from ace_gui.gui.widgets.layout import WrappedColumn
from ace_gui.gui.widgets.lazy import LazyTabs
from ace_gui.gui.widgets.tables import FigureRow
from tests.helpers.contrast import contrast


def test_tabs_are_made_when_they_are_first_looked_at(qtbot: QtBot) -> None:
    made: list[str] = []
    tabs = LazyTabs("Tabs")
    qtbot.addWidget(tabs)

    def make(name: str) -> QWidget:
        made.append(name)
        return QLabel(name)

    for name in ("one", "two", "three"):
        tabs.add(name, f"The tab {name}", lambda name=name: make(name))
    assert made == ["one"]
    tabs.setCurrentIndex(1)
    tabs.setCurrentIndex(0)
    tabs.setCurrentIndex(2)
    assert made == ["one"]  # not in the same turn of the event loop
    qtbot.waitUntil(lambda: made == ["one", "three"])
    third = tabs.current
    tabs.setCurrentIndex(0)
    tabs.setCurrentIndex(2)
    assert tabs.current is third
    assert made == ["one", "three"]
    assert [content.text() for content in tabs.contents()] == ["one", "three"]
    assert tabs.content(1).text() == "two"
    assert tabs.tabToolTip(1) == "The tab two"


@pytest.fixture
def titled(qtbot: QtBot) -> LazyTabs:
    tabs = LazyTabs("Tabs")
    qtbot.addWidget(tabs)
    for title in ("Spectrum", "Subspaces", "Entries", "Energies", "Checks"):
        tabs.add(title, title, lambda: QLabel("content"))
    tabs.resize(900, 200)
    tabs.show()
    return tabs


def test_every_tab_is_in_view_in_little_room(titled: LazyTabs) -> None:
    def titles() -> list[str]:
        return [titled.bar.tabText(index) for index in range(titled.count())]

    def width() -> int:
        return titled.bar.tabRect(titled.count() - 1).right() + 1

    all_titles = titles()
    roomy = width()
    assert all_titles[0] == "Spectrum"
    size = titled.bar.font().pointSizeF()
    titled.resize(roomy - 10, 200)  # the room round the titles goes first
    assert titles() == all_titles
    assert titled.bar.font().pointSizeF() == size
    assert 0 < width() <= titled.width()
    for room in (roomy // 2, 120):
        titled.resize(room, 200)
        assert titles() == all_titles, "a tab keeps its name at every width"
        assert width() <= room
        assert not titled.grab().isNull()
    titled.resize(900, 200)
    assert (titles(), width()) == (all_titles, roomy)
    titled.resize(titled.bar.tabRect(4).right() + 2, 200)
    titled.setTabText(4, "Checks (12)")  # a longer title makes them fit again
    assert titled.bar.tabRect(4).right() < titled.width()


def test_the_icon_of_a_tab_is_beside_its_title(titled: LazyTabs) -> None:
    titled.setTabIcon(4, icon("warning"))
    rect = titled.bar.tabRect(4)
    size = titled.bar.iconSize().width()
    picture = titled.bar.grab(rect).toImage()
    inked = [
        x
        for x in range(picture.width())
        for y in range(picture.height())
        if QColor(picture.pixel(x, y)).name() == current_theme().warn.lower()
    ]
    assert inked
    assert max(inked) <= size + 4
    assert max(inked) - min(inked) < size


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_a_check_box_is_seen_on_its_background(theme: Tokens, qtbot: QtBot) -> None:
    set_scheme("dark" if theme.dark else "light")
    box = QCheckBox("on")
    qtbot.addWidget(box)
    box.resize(box.sizeHint())
    for checked in (False, True):
        box.setChecked(checked)
        picture = box.grab().toImage()
        row = [QColor(picture.pixel(x, picture.height() // 2)).name() for x in range(12)]
        assert max(contrast(colour, theme.canvas) for colour in row) >= 3  # WCAG 2.2, graphics
    set_scheme("system")


def test_the_corners_of_a_text_box_are_round(qtbot: QtBot) -> None:
    ground = QWidget()
    qtbot.addWidget(ground)
    box = QPlainTextEdit(ground)
    box.setGeometry(10, 10, 200, 80)
    ground.resize(220, 100)
    ground.show()
    picture = ground.grab().toImage()
    outside = picture.pixel(2, 2)
    inside = picture.pixel(110, 70)
    assert outside != inside
    assert picture.pixel(11, 11) != inside
    assert picture.pixel(208, 88) != inside


def test_a_choice_gives_up_the_middle_of_what_does_not_fit(qtbot: QtBot) -> None:
    choice = Choice("Merge", {1: ("ACE-Merging · τ 0.2 · ε 1e-9", ""), 2: ("TIES-Merging", "")})
    qtbot.addWidget(choice)
    choice.setFixedWidth(4 * choice.fontMetrics().horizontalAdvance("ACE-"))
    option = QStyleOptionComboBox()
    choice.initStyleOption(option)
    assert option.currentText.startswith("ACE")
    assert "…" in option.currentText
    assert option.currentText.endswith("9")
    assert choice.currentText() == "ACE-Merging · τ 0.2 · ε 1e-9"


def test_labels_give_back_the_height_that_they_needed_when_narrower(qtbot: QtBot) -> None:
    column = WrappedColumn()
    qtbot.addWidget(column)
    layout = QVBoxLayout(column)
    layout.setContentsMargins(0, 0, 0, 0)
    label = plain_label("No overrides. Add one, or select layers in the table and open their menu.")
    layout.addWidget(label)
    column.resize(120, 300)
    column.show()
    qtbot.waitUntil(lambda: label.minimumHeight() > 3 * label.fontMetrics().height())
    column.resize(2000, 300)
    qtbot.waitUntil(lambda: column.minimumHeight() <= 1.5 * label.fontMetrics().height())


def test_a_line_of_a_menu_is_lower_than_its_rows(qtbot: QtBot) -> None:
    menu = QMenu()
    qtbot.addWidget(menu)
    row = menu.addAction("Open")
    line = menu.addSeparator()
    _ = menu.addAction("Quit")
    menu.ensurePolished()
    assert 0 < menu.actionGeometry(line).height() <= menu.actionGeometry(row).height() / 2


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ((1.0, 0.95, math.nan), ["1.00", "0.950", "–"]),
        ((12.0, 7.0, math.nan), ["12", "7", "–"]),
        ((0.0, 0.5), ["0", "0.500"]),
    ],
)
def test_a_row_has_whole_numbers_only_where_it_counts(values, texts):
    assert FigureRow("kept", "What is kept.", values).texts() == texts
