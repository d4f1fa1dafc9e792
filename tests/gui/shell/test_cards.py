"""The cards of the layers' workspace: alone, in windows of their own, and as they were left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QWidget

from ace_gui.gui.control.merge_stores import MergeStores
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.shell.window_layout import INSPECTOR, LAYERS, VIEWS, Cards
from ace_gui.gui.state.settings import Settings
from tests.gui.fakes import FakeWorker


@pytest.fixture
def cards(loaded: MainWindow) -> Cards:
    return loaded.workspace.cards


def focus(loaded: MainWindow, panel: QWidget) -> None:
    loaded.activateWindow()
    panel.setFocus()


def test_a_panel_stands_in_a_window_of_its_own_and_comes_back(loaded, cards, qtbot):
    sizes = cards.top.sizes(), cards.rows.sizes()
    layers = loaded.workspace.layers
    focus(loaded, layers.table)
    loaded.actions_.detach.trigger()
    window = layers.window()
    assert window is not loaded
    assert window.windowTitle() == "Layers"
    assert layers.isVisible()
    assert loaded.workspace.inspector.isVisible()
    loaded.session.select("layer.2.q")
    assert layers.selected == ["layer.2.q"], "it goes on following"
    window.close()
    assert layers.window() is loaded
    assert (cards.top.sizes(), cards.rows.sizes()) == sizes


def test_the_last_panel_stays(loaded, cards):
    for card in (LAYERS, INSPECTOR, VIEWS):
        cards.bring(card)
        cards._current = card
        focus(loaded, loaded)
        cards.toggle_detached()
    assert len(cards._detached) == 2
    cards.put_back()
    assert all(panel.window() is loaded for panel in cards._cards)
    assert cards.top.indexOf(cards._cards[LAYERS]) == 0
    assert cards.rows.indexOf(cards._cards[VIEWS]) == 1


def test_another_start_finds_panels_where_they_were(loaded, cards, again):
    cards._take_apart(VIEWS).setGeometry(120, 90, 640, 320)
    cards._toggle(INSPECTOR)
    loaded.workspace.left.fold(True)
    loaded.close()
    assert not cards._detached, "no window stays behind"
    workspace = again.workspace
    again._pages.setCurrentWidget(workspace)
    again.show()
    window = workspace.heterogeneity.window()
    assert window is not again
    assert window.size().toTuple() == (640, 320)
    assert workspace.inspector.isVisible()
    assert not workspace.layers.isVisible()
    assert workspace.left.is_folded
    again.workspace.reset_layout()
    assert workspace.heterogeneity.window() is again
    assert workspace.layers.isVisible()
    assert not workspace.left.is_folded


@pytest.fixture
def again(loaded: MainWindow, tmp_path: Path) -> Iterator[MainWindow]:
    """A later start with the same settings, not shown yet."""
    made = MainWindow(FakeWorker(), Settings(), MergeStores(tmp_path / "other"))
    made.resize(loaded.size())
    yield made
    made.close()
    made.deleteLater()


def test_the_inspector_alone_needs_no_more_than_its_card(loaded, cards, qtbot):
    inspector = loaded.workspace.inspector
    loaded.resize(1600, 1000)
    qtbot.waitUntil(lambda: not cards.in_turns)
    assert inspector.minimumWidth() > 20 * inspector.fontMetrics().height()
    loaded.resize(900, 600)
    loaded.workspace.left.fold(False)
    cards.bring(INSPECTOR)
    qtbot.waitUntil(lambda: cards.in_turns)
    assert inspector.minimumWidth() == 0
    assert inspector.width() <= cards.width()
