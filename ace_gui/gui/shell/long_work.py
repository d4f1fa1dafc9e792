"""Progress in the window title, and a desktop notification at the end of long work."""

from __future__ import annotations

import time
from functools import partial
from typing import Final

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QApplication, QSystemTrayIcon

from ace_gui.gui.shell.controlled_window import ControlledWindow
from ace_gui.gui.state.activity import State
from ace_gui.gui.theme import icon

LONG: Final = 10.0  # seconds
_SHOWN: Final = 10_000  # ms that the desktop notification stays at most
_ENDED: Final = {
    State.MERGING: "The merge has ended.",
    State.EXPORTING: "The export has ended.",
    State.REPORTING: "The report has ended.",
    State.SCORING: "Scoring has ended.",
    State.COMPARING: "The covariances are compared.",
    State.TUNING: "Tuning has ended.",
}


class LongWork(QObject):
    """Follows running work. ``counted``: ``share`` changed by a whole percent; None if nothing
    runs.

    ``notified`` carries the text of the desktop notification.
    """

    counted = Signal()
    notified = Signal(str)

    def __init__(self, window: ControlledWindow) -> None:
        super().__init__(window)
        session = window.session
        self._session, self._settings, self._window = session, window.settings, window
        self._began: dict[State, float] = {}
        self._problem = ""
        self._tray: QSystemTrayIcon | None = None
        self.share: int | None = None
        session.activity.changed.connect(self._follow)
        session.activity.progressed.connect(self._count)
        session.problem.connect(lambda error: setattr(self, "_problem", str(error)))

    def _follow(self) -> None:
        """Record the start of work, and announce the end of long work."""
        now = time.monotonic()
        for state, sentence in _ENDED.items():
            if self._session.activity.is_running(state):
                if state not in self._began:
                    self._began[state], self._problem = now, ""
            elif now - self._began.pop(state, now) > LONG:
                # A job's error arrives in the same turn, after the job's state has ended.
                QTimer.singleShot(0, self, partial(self._announce, sentence))
        self._count()

    def _count(self) -> None:
        activity = self._session.activity
        progress = activity.counted(activity.foremost)
        known = progress is not None and progress.state in _ENDED
        share = int(100 * progress.done / progress.total) if known and progress else None
        if share != self.share:
            self.share = share
            self.counted.emit()

    def _announce(self, sentence: str) -> None:
        """If the window is not active, mark it and send a desktop notification."""
        if self._window.isActiveWindow():
            return
        QApplication.alert(self._window)
        if self._settings.notifies:
            text = self._problem or sentence
            self.notified.emit(text)
            self._show(text)

    def _show(self, sentence: str) -> None:
        if not (QSystemTrayIcon.isSystemTrayAvailable() and QSystemTrayIcon.supportsMessages()):
            return
        if self._tray is None:
            self._tray = QSystemTrayIcon(icon("app"), self)
            self._tray.messageClicked.connect(self._window.raise_)
            self._tray.messageClicked.connect(self._window.activateWindow)
        self._tray.show()
        self._tray.showMessage("ACE Workbench", sentence, icon("app"), _SHOWN)
        QTimer.singleShot(_SHOWN, self._tray, self._tray.hide)
