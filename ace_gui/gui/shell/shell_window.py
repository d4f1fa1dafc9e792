"""The parts of the main window that its news, questions, help and tours use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace_gui.gui.panels.notice import Notice
from ace_gui.gui.panels.welcome_page import WelcomePanel
from ace_gui.gui.shell.actions import Actions, Menus
from ace_gui.gui.shell.controlled_window import ControlledWindow
from ace_gui.gui.shell.projects import Opener, Project
from ace_gui.gui.shell.window_frame import Header

if TYPE_CHECKING:  # the workspace imports the plots, which the empty window does not need
    from ace_gui.gui.shell.workspace import Workspace


class ShellWindow(ControlledWindow):
    """The main window without what is made from these parts."""

    project: Project
    opener: Opener
    actions_: Actions
    header: Header
    menus: Menus
    notice: Notice
    welcome: WelcomePanel

    @property
    def workspace(self) -> Workspace:
        """The panels, created on first use."""
        raise NotImplementedError
