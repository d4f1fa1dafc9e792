"""The end of long work: the title counts, and the desktop tells who has turned elsewhere."""

from __future__ import annotations

import time
from functools import partial
from typing import Final

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QApplication, QSystemTrayIcon, QWidget

from ace_gui.gui.state.activity import State
from ace_gui.gui.state.session import Session
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.theme import icon

LONG: Final = 10.0  # seconds
_SHOWN: Final = 10_000  # ms that the message of the desktop stays at most
_ENDED: Final = {
    State.MERGING: "The merge has ended.",
    State.EXPORTING: "The export has ended.",
    State.REPORTING: "The report has ended.",
    State.SCORING: "Scoring has ended.",
    State.COMPARING: "The covariances are compared.",
    State.TUNING: "Tuning has ended.",
}


class LongWork(QObject):
    """Follows what runs. ``counted``: ``share`` is another whole percent, None where nothing runs.

    ``notified`` carries the sentence that the desktop is asked to show.
    """

    counted = Signal()
    notified = Signal(str)

    def __init__(self, session: Session, settings: Settings, window: QWidget) -> None:
        super().__init__(window)
        self._session, self._settings, self._window = session, settings, window
        self._began: dict[State, float] = {}
        self._problem = ""
        self._tray: QSystemTrayIcon | None = None
        self.share: int | None = None
        session.activity.changed.connect(self._follow)
        session.activity.progressed.connect(self._count)
        session.problem.connect(self._note)

    def _note(self, error: Exception) -> None:
        self._problem = str(error)

    def _follow(self) -> None:
        """Note what begins; tell of what ended after a long time."""
        now = time.monotonic()
        for state, sentence in _ENDED.items():
            if self._session.activity.is_running(state):
                if state not in self._began:
                    self._began[state], self._problem = now, ""
            elif now - self._began.pop(state, now) > LONG:
                # The job's error, if any, is told in this turn as well, after its state ended.
                QTimer.singleShot(0, self, partial(self._tell, sentence))
        self._count()

    def _count(self) -> None:
        activity = self._session.activity
        progress, foremost = activity.progress, activity.foremost
        known = progress is not None and progress.state is foremost and foremost in _ENDED
        share = None
        if known and progress is not None and progress.total > 0:
            share = int(100 * progress.done / progress.total)
        if share != self.share:
            self.share = share
            self.counted.emit()

    def _tell(self, sentence: str) -> None:
        """Where nobody looks at the window: mark it, and ask the desktop to say so."""
        if self._window.isActiveWindow():
            return
        QApplication.alert(self._window)
        if self._settings.notifies:
            said = self._problem or sentence
            self.notified.emit(said)
            self._show(said)

    def _show(self, sentence: str) -> None:
        if not (QSystemTrayIcon.isSystemTrayAvailable() and QSystemTrayIcon.supportsMessages()):
            return
        if self._tray is None:
            self._tray = QSystemTrayIcon(icon("app"), self)
            self._tray.messageClicked.connect(self._bring)
        self._tray.show()
        self._tray.showMessage("ACE Workbench", sentence, icon("app"), _SHOWN)
        QTimer.singleShot(_SHOWN, self._tray, self._tray.hide)

    def _bring(self) -> None:
        self._window.raise_()
        self._window.activateWindow()
