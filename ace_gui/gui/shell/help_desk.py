"""The help, the log and the problem reports, and all commands of the window, collected from its
menus and panels. Each dialog is created on first use."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from PySide6.QtGui import QAction, QGuiApplication, QKeySequence
from PySide6.QtWidgets import QApplication, QMenu, QMenuBar
from shiboken6 import isValid

from ace_gui.gui.dialogs.command_palette import Command
from ace_gui.gui.panels.notice import Severity
from ace_gui.gui.shell.actions import WHY
from ace_gui.gui.shell.shell_window import ShellWindow
from ace_gui.gui.shell.window_dialogs import show_once
from ace_gui.gui.shell.window_header import WORKSPACES
from ace_gui.gui.state.log import Level, Source
from ace_gui.gui.state.session import NO_MODEL
from ace_gui.gui.widgets.labels import term_of

if TYPE_CHECKING:
    from ace_gui.gui.shell.layout.workspace import Workspace
    from ace_gui.gui.shell.tours.tutorial import Tour

_COPIED: Final = "Versions, device, memory and platform are copied, but nothing about your models."
_LEVELS: Final = {
    Severity.INFO: Level.INFO,
    Severity.WARNING: Level.WARNING,
    Severity.ERROR: Level.ERROR,
}


class HelpDesk:
    """Connects the actions of the Help menu. ``crash`` is the crash text of an earlier window."""

    def __init__(self, window: ShellWindow) -> None:
        self._window, self._session = window, window.session
        self._tour: Tour | None = None
        self.crash = ""
        window.notice.shown.connect(self._note)
        actions = window.actions_
        for action, slot in {
            actions.palette: self.show_palette,
            actions.tutorial: self.begin_tutorial,
            actions.help: self.show_help,
            actions.glossary: lambda: self.show_page("glossary"),
            actions.shortcuts: self.show_shortcuts,
            actions.log: self.show_log,
            actions.diagnostics: self.copy_diagnostics,
            actions.problem: self.report_problem,
            actions.about: self.show_about,
        }.items():
            actions.connect(action, slot)

    def show_palette(self) -> None:
        from ace_gui.gui.dialogs.command_palette import CommandPalette

        show_once(CommandPalette(self.commands(), self._window))

    def commands(self) -> list[Command]:
        """The commands that the menus and panels offer now."""
        loaded = self._session.draft.inputs.base is not None
        panels = commands_of_panels(lambda: self._window.workspace, "" if loaded else NO_MODEL)
        return [*commands_of_menus(self._window.menuBar()), *panels]

    @property
    def is_touring(self) -> bool:
        return self._tour is not None and isValid(self._tour) and self._tour.is_running

    def begin_tutorial(self) -> Tour:
        """Start the tutorial on the sample, or restart it from its first step."""
        from ace_gui.gui.shell.tours.tutorial import tutorial

        self.end_tutorial()
        self._tour = tutorial(self._window)
        return self._tour

    def end_tutorial(self) -> None:
        if self.is_touring and self._tour is not None:
            self._tour.end()

    def show_help(self) -> None:
        """Show the help pages, or the glossary entry for the focused widget if there is one."""
        term = term_of(QApplication.focusWidget())
        self.show_page("glossary" if term else "start", term)

    def show_page(self, name: str, term: str = "") -> None:
        from ace_gui.gui.dialogs.help_dialogs import HelpDialog

        dialog = HelpDialog(self._window)
        dialog.open_page(name, term)
        show_once(dialog, modal=False)

    def show_shortcuts(self) -> None:
        from ace_gui.gui.dialogs.help_dialogs import ShortcutsDialog

        show_once(ShortcutsDialog(self.commands(), self._window), modal=False)

    def show_log(self) -> None:
        from ace_gui.gui.dialogs.help_dialogs import LogDialog

        show_once(LogDialog(self._session.log, self._window), modal=False)

    def copy_diagnostics(self) -> None:
        from ace_gui.gui.control.diagnostics import diagnostics

        QGuiApplication.clipboard().setText(diagnostics(self._session))
        self._session.advice.emit(_COPIED)

    def report_problem(self) -> None:
        from ace_gui.gui.control.diagnostics import problem_text
        from ace_gui.gui.dialogs.help_dialogs import ProblemDialog

        text = problem_text(self._session, self.crash)
        show_once(ProblemDialog(text, self._window), modal=False)

    def show_about(self) -> None:
        from ace_gui.gui.dialogs.help_dialogs import AboutDialog

        show_once(AboutDialog(self._window))

    def _note(self) -> None:
        """Add the window's message to the log."""
        notice = self._window.notice
        level, details = _LEVELS[notice.severity], notice.details.toPlainText()
        self._session.log.add(level, Source.WINDOW, notice.message_text, details)


_NATIVE = QKeySequence.SequenceFormat.NativeText


def commands_of_menus(bar: QMenuBar) -> list[Command]:
    """One command for every entry of every menu; an action in two menus has one."""
    found: dict[QAction, Command] = {}

    def visit(actions: list[QAction], where: str) -> None:
        for action in actions:
            title = action.text().replace("&&", "\0").replace("&", "").replace("\0", "&")
            menu = action.menu()
            if isinstance(menu, QMenu):
                visit(menu.actions(), f"{where} › {title}" if where else title)
            elif title and not action.isSeparator() and action not in found:
                why = str(action.property(WHY) or "Not available now.")
                tip = action.toolTip().partition("\n")[0]
                found[action] = Command(
                    title=title,
                    menu=where,
                    run=action.trigger,
                    shortcut=action.shortcut().toString(_NATIVE),
                    tip=tip if tip != title else "",
                    why="" if action.isEnabled() else why,
                )

    visit(bar.actions(), "")
    return list(found.values())


def commands_of_panels(workspace: Callable[[], Workspace], why: str) -> list[Command]:
    """One command per workspace and panel. ``why`` is the reason if none can be shown now."""
    from ace_gui.gui.panels.compare.compare_page import LOOKS
    from ace_gui.gui.panels.scores.scores_page import TABS
    from ace_gui.gui.shell.layout.workspace import COMPARE, SCORES, Workspace

    made: list[Command] = []

    def add(title: str, where: str, tip: str, show: Callable[[Workspace], object]) -> None:
        run = lambda: show(workspace())  # noqa: E731
        made.append(Command(title=f"Show {title}", menu=where, run=run, tip=tip, why=why))

    for index, (title, tip) in enumerate(WORKSPACES):
        add(title, "Workspace", tip, partial(Workspace.show_space, index=index))
    for where, tabs in ({} if why else workspace().panels_with_tabs()).items():
        for index in filter(tabs.isTabVisible, range(tabs.count())):
            show = partial(Workspace.bring, tabs=tabs, index=index)
            add(tabs.tabText(index), where, tabs.tabToolTip(index), show)
    for kind, title, tip in TABS:
        add(title, WORKSPACES[SCORES][0], tip, partial(Workspace.show_scores, tab=kind))
    for index, (title, tip) in enumerate(LOOKS):
        add(title, WORKSPACES[COMPARE][0], tip, partial(Workspace.show_look, index=index))
    return made
