"""Tabs that stay in view: what room there is, they share."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from ace_gui.gui.widgets.layout.tab_bar import FittingTabBar

TITLES = ("Spectrum", "Subspaces", "Entries", "Energies", "Inputs", "Checks")


@pytest.fixture
def bar(qtbot: QtBot) -> FittingTabBar:
    bar = FittingTabBar()
    qtbot.addWidget(bar)
    for title in TITLES:
        bar.addTab(title)
    bar.show()
    return bar


def widths(bar: FittingTabBar) -> list[int]:
    return [bar.tabRect(index).width() for index in range(bar.count())]


def test_tabs_without_their_usual_room_share_what_there_is(bar: FittingTabBar) -> None:
    usual = sum(widths(bar))
    seen = []
    for room in range(usual, usual // 2, -7):
        bar.fit(room)
        assert sum(widths(bar)) <= room
        assert [bar.tabText(index) for index in range(bar.count())] == list(TITLES)
        seen.append(sum(widths(bar)))
    assert seen == sorted(seen, reverse=True), "less room is never filled with wider tabs"
    bar.fit(usual)
    assert sum(widths(bar)) == usual
    bar.fit(usual - 5)
    assert usual - 5 - sum(widths(bar)) < usual // 4, "the room that is left is shared"
