"""Asks before the window closes, where something would be lost by it."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QMessageBox, QWidget

from ace_gui.gui.state.activity import State
from ace_gui.gui.state.session import Session

WORTH_KEEPING: Final = 30.0  # seconds of merging that are not thrown away without asking


class Closing(QObject):
    """``agreed`` follows when the person closes the window all the same. ``box``: the question."""

    agreed = Signal()

    def __init__(self, session: Session, window: QWidget) -> None:
        super().__init__(window)
        self._session = session
        self._window = window
        self.box: QMessageBox | None = None

    @property
    def worry(self) -> str:
        """Why the person should be asked before the window closes; empty if nothing is lost."""
        session = self._session
        if session.activity.is_running(State.EXPORTING):
            return "An export is running. Cancel it and close the window?"
        if session.activity.is_running(State.MERGING):
            return "A merge is running. Cancel it and close the window?"
        run = session.results.merge
        if run is None or run.finished is None or run.exported:
            return ""
        if run.finished.seconds < WORTH_KEEPING:
            return ""
        return "The merged model has not been exported and will be lost. Close the window?"

    def ask(self, question: str) -> None:
        """Ask, unless the question stands already."""
        if self.box is not None:
            return
        buttons = QMessageBox.StandardButton
        box = QMessageBox(QMessageBox.Icon.Question, "ACE Workbench", question, parent=self._window)
        box.setStandardButtons(buttons.Close | buttons.Cancel)
        box.setDefaultButton(buttons.Cancel)
        box.finished.connect(self._answer)
        self.box = box
        box.open()

    def _answer(self, answer: int) -> None:
        if self.box is not None:
            self.box.deleteLater()
            self.box = None
        if answer == QMessageBox.StandardButton.Close:
            self.agreed.emit()
