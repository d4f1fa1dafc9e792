"""The messages of the window in its floating notice: questions, and what follows a merge. On
the desktop, it also announces the end of long work."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QApplication, QSystemTrayIcon

from ace_gui.engine.contract.plan import DISK, Check, CheckVerdict
from ace_gui.errors import NonFiniteError, PickleConsentError, WorkbenchError
from ace_gui.gui.shell.base_window import Window
from ace_gui.gui.shell.window_frame import Space
from ace_gui.gui.state.activity import ActivityState, Level, MergeRun
from ace_gui.gui.state.session import count_of
from ace_gui.gui.text import error_details
from ace_gui.gui.theme import icon
from ace_gui.recipe.values import NonFinite


class Questions:
    """Asks questions in the notice, one at a time. A later question replaces an earlier one."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._notice = window.notice
        self._session = window.session
        self._conductor = window.conductor
        self._question = ""
        window.session.checks.changed.connect(self._follow_checks)
        window.actions_.connect(window.actions_.merge, self.merge)

    def merge(self) -> None:
        """Start a merge, after the user has accepted the checks' warnings once. An error of the
        checks prevents it."""
        goes_on = self._window.merge.can_continue  # its disk space is already reserved
        errors = [c for c in self._session.checks.errors if not (goes_on and c.title == DISK)]
        warnings = [c for c in self._session.checks.worries if c.verdict is CheckVerdict.WARNING]

        def merge_anyway() -> None:
            self._session.checks.accept()
            self.merge()

        if errors:
            again = {"Check again": self._conductor.plan}
            self._ask_about_checks(Level.ERROR, errors, again)
        elif warnings:
            self._ask_about_checks(Level.WARNING, warnings, {"Merge anyway": merge_anyway})
        else:
            self._notice.hide()
            self._window.merge.start()

    def come_back(self) -> None:
        """The person is in the window again: a disk that was full may have room by now."""
        activity = self._session.activity
        full = any(check.title == DISK for check in self._session.checks.errors)
        if full and not activity.is_running(
            ActivityState.PLANNING, ActivityState.MERGING, ActivityState.EXPORTING
        ):
            self._conductor.plan()

    def _follow_checks(self) -> None:
        """Remove a question that the checks no longer ask."""
        is_question = self._question and self._notice.sentence.text() == self._question
        if is_question and not self._session.checks.worries:
            self._notice.hide()
            self._question = ""

    def asks_about(self, error: WorkbenchError) -> bool:
        """Ask how to handle an error that offers a choice. False if it offers none."""
        if isinstance(error, PickleConsentError) and error.path is not None:
            answers = {"Convert and open": partial(self._conductor.convert, error.path)}
            self._notice.ask(Level.WARNING, error.sentence, error.details, answers)
            return True
        if isinstance(error, NonFiniteError) and error.key == "non_finite":
            self._ask_about_non_finite(error)
            return True
        return False

    def _ask_about_non_finite(self, error: NonFiniteError) -> None:
        def choose(choice: NonFinite) -> None:
            self._conductor.change(replace(self._session.draft.inputs, non_finite=choice))

        answers = {
            "Keep the base's tensor": partial(choose, NonFinite.KEEP_BASE),
            "Leave the expert out of it": partial(choose, NonFinite.SKIP_EXPERT),
        }
        self._notice.ask(Level.ERROR, error.sentence, error_details(error), answers)

    def _ask_about_checks(
        self, level: Level, checks: Sequence[Check], answers: Mapping[str, Callable[[], object]]
    ) -> None:
        sentence = f"{count_of(checks)}. {checks[0].line}"
        self._notice.ask(level, sentence, "\n".join(check.line for check in checks), answers)
        self._question = self._notice.sentence.text()
        self._window.workspace.show_checks()


class MergeNews:
    """Shows what to do next after a finished merge of a window, but not after a restored one.

    The strip above the layers says what was found. A model that writes is asked next.
    """

    def __init__(self, window: Window) -> None:
        self._window = window
        self._last: MergeRun | None = None
        window.session.results.changed.connect(self._look)

    def _look(self) -> None:
        session = self._window.session
        run = session.results.merge
        merging = session.activity.is_running(ActivityState.MERGING)
        if run is None or run.finished is None or not merging or run is self._last:
            return
        self._last = run
        if self._window.notice.passes:
            self._window.notice.hide()
        if session.writes_text:
            self._window.workspace.show_space(Space.TRY)


LONG: Final = 10.0  # seconds
SHARE_STEP: Final = 5  # percent
_SHOWN: Final = 10_000  # ms that the desktop notification stays at most
_ENDED: Final = {
    ActivityState.MERGING: "The merge has ended.",
    ActivityState.EXPORTING: "The export has ended.",
    ActivityState.REPORTING: "The report has ended.",
    ActivityState.SCORING: "Scoring has ended.",
    ActivityState.COMPARING: "The covariances are compared.",
    ActivityState.TUNING: "Tuning has ended.",
}


class LongWork(QObject):
    """Follows running work. ``counted``: ``share`` is another one. Without work it is None.

    It has steps of ``SHARE_STEP`` percent: window managers and screen readers take note of each.

    ``notified`` carries the text of the desktop notification.
    """

    counted = Signal()
    notified = Signal(str)

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        session = window.session
        self._session = session
        self._settings = window.settings
        self._window = window
        self._began: dict[ActivityState, float] = {}
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
                    self._began[state] = now
                    self._problem = ""
            elif now - self._began.pop(state, now) > LONG:
                # The error of a job arrives in the same turn as its end, but later.
                QTimer.singleShot(0, self, partial(self._announce, sentence))
        self._count()

    def _count(self) -> None:
        activity = self._session.activity
        progress = activity.counted(activity.foremost)
        has_ended = progress is not None and progress.state in _ENDED
        if has_ended and progress:
            share = 100 * progress.done // progress.total // SHARE_STEP * SHARE_STEP
        else:
            share = None
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
