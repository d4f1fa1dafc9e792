"""The interface of the main window for the parts of its shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QApplication, QPushButton, QToolButton

from ace_gui.gui.panels.notice import Notice
from ace_gui.gui.panels.welcome.welcome_page import WelcomePanel
from ace_gui.gui.shell.actions import Actions
from ace_gui.gui.shell.controlled_window import ControlledWindow
from ace_gui.gui.shell.projects.opener import Opener
from ace_gui.gui.shell.projects.project import Project
from ace_gui.gui.shell.window_header import Header

if TYPE_CHECKING:  # the workspace imports the plots, which the empty window does not need
    from ace_gui.gui.shell.layout.workspace import Workspace


class ShellWindow(ControlledWindow):
    """The main window as the help desk and the tours use it."""

    opener: Opener
    project: Project
    actions_: Actions
    header: Header
    notice: Notice
    welcome: WelcomePanel

    @property
    def workspace(self) -> Workspace:
        """The panels, created on first use."""
        raise NotImplementedError

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Let Return press the focused button, which Qt only does in dialogs."""
        button = QApplication.focusWidget()
        if event.key() not in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            super().keyPressEvent(event)
        elif isinstance(button, QToolButton) and button.menu() is not None:
            button.showMenu()
        elif isinstance(button, QPushButton | QToolButton):
            button.click()
        else:
            super().keyPressEvent(event)
