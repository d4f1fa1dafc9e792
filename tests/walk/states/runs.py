"""The list of runs, what is asked about them, and the menus."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtWidgets import QMenu
from shiboken6 import isValid

from ace_gui.gui.picture import Studio
from tests.walk.states.doing import Step, opened


def runs(studio: Studio) -> Iterator[Step]:
    """Several runs, one of them with a name of its own, and the questions about them."""
    window, session = studio.window, studio.window.session
    panel, all_runs = window.workspace.runs, session.results.runs.all
    window.runs.rename(all_runs[-1], "less refined")
    panel.list.setCurrentIndex(panel.model.index(1))
    folded = window.workspace.left.is_folded
    window.workspace.left.fold(False)
    yield "runs", window
    window.workspace.left.fold(folded)
    yield from opened("delete runs", lambda: window.dialogs.delete_runs(list(all_runs[:2])))
    yield from opened("clean up", window.dialogs.clean_up_runs)
    yield from opened("save changes", lambda: window.project.before_leaving(lambda: None))


def menus(studio: Studio) -> Iterator[Step]:
    """Every menu of the menu bar, with those in it, and those of panels."""
    window = studio.window
    for entry in window.menuBar().actions():
        menu = entry.menu()
        assert isinstance(menu, QMenu)
        yield from _menu(studio, menu)
    yield from _menu(studio, window.workspace.layers.menu())


def _menu(studio: Studio, menu: QMenu) -> Iterator[Step]:
    title = menu.title().replace("&", "") or menu.accessibleName() or "of the layers"
    menu.popup(studio.window.mapToGlobal(studio.window.rect().topLeft()))
    yield f"menu {title}", menu
    inner = [found for action in menu.actions() if isinstance(found := action.menu(), QMenu)]
    menu.close()
    for each in inner:  # some menus are filled anew whenever they are shown
        if isValid(each) and each.actions():
            yield from _menu(studio, each)
