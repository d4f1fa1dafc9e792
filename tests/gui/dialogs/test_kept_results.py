"""What is kept to save time is shown and emptied in the preferences."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from ace_gui.caches import CACHES
from ace_gui.gui.dialogs.preferences_dialog import PreferencesDialog
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.paths import scores_folder


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def opened(window: MainWindow) -> PreferencesDialog:
    window.actions_.preferences.trigger()
    return window.findChildren(PreferencesDialog)[-1]


def test_every_cache_has_its_size_and_is_emptied(window: MainWindow, qtbot: QtBot) -> None:
    scores_folder().mkdir(parents=True)
    (scores_folder() / "entry").write_bytes(bytes(2_000_000))
    dialog = opened(window)
    assert list(dialog.caches) == [cache.name for cache in CACHES]
    row = dialog.caches["scores"]
    qtbot.waitUntil(lambda: row.amount.text() == "2.0 MB")
    assert row.amount.accessibleName().endswith("2.0 MB")
    row.button.click()
    qtbot.waitUntil(lambda: row.amount.text() == "0 B")
    assert not row.button.isEnabled()
    assert not list(scores_folder().iterdir())
    dialog.close()


def test_what_cannot_be_emptied_says_why(window: MainWindow, qtbot: QtBot, tmp_path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "file").write_text("mine")
    scores_folder().parent.mkdir(parents=True, exist_ok=True)
    scores_folder().symlink_to(mine)
    dialog = opened(window)
    row = dialog.caches["scores"]
    qtbot.waitUntil(row.button.isEnabled)
    row.button.click()
    qtbot.waitUntil(lambda: row.amount.text() == "Cannot be emptied")
    assert "link" in row.amount.toolTip()
    assert (mine / "file").exists()
    dialog.close()
