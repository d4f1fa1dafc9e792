"""All commands of the window, collected from its menus and panels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu, QMenuBar

from ace_gui.gui.models.command_search import Command
from ace_gui.gui.shell.actions import WHY
from ace_gui.gui.shell.window_header import WORKSPACES

if TYPE_CHECKING:
    from ace_gui.gui.panels.job_page import JobPage
    from ace_gui.gui.shell.layout.workspace import Workspace

_NATIVE = QKeySequence.SequenceFormat.NativeText


def commands_of_menus(bar: QMenuBar) -> list[Command]:
    """One command for every entry of every menu."""
    seen: set[QAction] = set()
    return [command for action in bar.actions() for command in _of_action(action, "", seen)]


def _of_action(action: QAction, where: str, seen: set[QAction]) -> Iterator[Command]:
    """``seen`` skips actions that are in two menus."""
    title = _plain(action)
    menu = action.menu()
    if isinstance(menu, QMenu):
        inside = f"{where} › {title}" if where else title
        for entry in menu.actions():
            yield from _of_action(entry, inside, seen)
    elif title and not action.isSeparator() and action not in seen:
        seen.add(action)
        why = str(action.property(WHY) or "Not available now.")
        tip = action.toolTip().partition("\n")[0]
        yield Command(
            title=title,
            menu=where,
            run=action.trigger,
            shortcut=action.shortcut().toString(_NATIVE),
            tip=tip if tip != title else "",
            why="" if action.isEnabled() else why,
        )


def commands_of_panels(workspace: Callable[[], Workspace], why: str) -> list[Command]:
    """One command per workspace and panel. ``why`` is the reason if none can be shown now."""
    from ace_gui.gui.panels.compare.compare_page import LOOKS
    from ace_gui.gui.panels.scores.scores_page import TABS
    from ace_gui.gui.shell.layout.workspace import COMPARE, SCORES

    def show(title: str, where: str, tip: str, run: Callable[[], object]) -> Command:
        return Command(title=f"Show {title}", menu=where, run=run, tip=tip, why=why)

    def show_space(index: int) -> None:
        workspace().show_space(index)

    def show_part(kind: type[JobPage]) -> None:
        workspace().show_scores().show_tab(kind)

    def compare(index: int) -> None:
        workspace().show_space(COMPARE)
        workspace().comparison.show_look(index)

    made = [
        show(title, "Workspace", tip, partial(show_space, index))
        for index, (title, tip) in enumerate(WORKSPACES)
    ]
    if not why:
        made += _of_tabs(workspace(), show)
    for kind, title, tip in TABS:
        made.append(show(title, WORKSPACES[SCORES][0], tip, partial(show_part, kind)))
    for index, (title, tip) in enumerate(LOOKS):
        made.append(show(title, WORKSPACES[COMPARE][0], tip, partial(compare, index)))
    return made


def _of_tabs(workspace: Workspace, show: Callable[..., Command]) -> Iterator[Command]:
    for where, tabs in workspace.panels_with_tabs():
        for index in range(tabs.count()):
            run = partial(workspace.bring, tabs, index)
            yield show(tabs.tabText(index), where, tabs.tabToolTip(index), run)


def _plain(action: QAction) -> str:
    return action.text().replace("&&", "\0").replace("&", "").replace("\0", "&")
