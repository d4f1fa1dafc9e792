"""Recent recipes, and recovery after a crash."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from ace_gui.gui.panels.welcome_page import last_use
from ace_gui.gui.shell.actions import set_allowed
from ace_gui.gui.shell.projects import RECIPE, RECIPES_KIND
from ace_gui.gui.state.activity import Level
from ace_gui.gui.state.session import WAIT
from ace_gui.gui.state.settings import RecentProject
from ace_gui.gui.text import plain, short_name
from ace_gui.gui.widgets.file_dialogs import ask_files

if TYPE_CHECKING:
    from ace_gui.gui.shell.main_window import MainWindow


class RecentProjects(QObject):
    """Shows recent projects in the menu and on the welcome page, and reopens them."""

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        settings, opener = window.settings, window.opener
        self._window, self._settings = window, settings
        self._opener, self._menus, self._help = opener, window.menus, window.help
        self._shown: tuple[RecentProject, ...] | None = None
        self._is_known = False  # whether there is anything to reopen
        self._recovered = next(iter(window.sessions.recover()), None)
        if self._recovered is not None:
            settings.remember(self._recovered)
        for chosen in (window.menus.recent_chosen, window.welcome.recent.chosen):
            chosen.connect(lambda path: opener.open_paths([path]))
        window.welcome.recent.lost.connect(self.locate)
        window.project.changed.connect(self.refresh)
        window.session.activity.changed.connect(self._allow)
        window.actions_.connect(window.actions_.reopen, self.reopen)
        self.refresh()
        if self._recovered is not None:
            self._show_crash({"Reopen last session": self.reopen})

    def refresh(self) -> None:
        projects, reopen = self._settings.recent_projects, self._window.actions_.reopen
        self._is_known = bool(projects)
        self._allow()
        if projects == self._shown:
            return
        self._shown = projects
        self._menus.set_recent([project.path for project in projects])
        self._allow()
        self._window.welcome.recent.show_projects(projects)
        if projects:
            name = plain(short_name(projects[0].path))
            reopen.setToolTip(f"Open {name}")
            text = ", ".join(filter(None, (name, last_use(projects[0]))))
            self._window.welcome.starts.say(reopen, text)

    def _allow(self) -> None:
        busy = self._window.session.activity.is_writing
        why = WAIT if busy else "" if self._is_known else "There is no last session."
        set_allowed(self._window.actions_.reopen, why)
        self._menus.recent.setEnabled(bool(self._shown) and not busy)

    def reopen(self) -> None:
        """Reopen what a crashed window left, or else the latest recipe."""
        recovered, self._recovered = self._recovered, None
        if recovered is not None:
            self._window.notice.hide()  # it offers what is open now
            self._opener.open_paths([recovered])
        elif self._settings.recent:
            self._opener.open_paths(self._settings.recent[:1])

    def locate(self, gone: Path) -> None:
        """Ask for the new path of a recent recipe, and open it."""

        def take(paths: list[Path]) -> None:
            self._settings.replace_recent(gone, paths[0])
            self._opener.open_paths(paths)

        ask_files(self._window, f"Locate {gone}", RECIPE, RECIPES_KIND, take)

    def show_crash(self, words: str) -> None:
        """Report that an earlier window crashed, with its last output; "" means that none did."""
        if not words:
            return
        self._help.crash = words
        reopen = {"Reopen last session": self.reopen} if self._recovered else {}
        self._show_crash({**reopen, "Report a problem": self._help.report_problem})

    def _show_crash(self, answers: Mapping[str, Callable[[], object]]) -> None:
        if self._recovered:
            text = "The last session crashed. Its project and its merges are kept."
        else:
            text = "The last session crashed."
        self._window.notice.ask(Level.WARNING, text, self._help.crash, answers)
