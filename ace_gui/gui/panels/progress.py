"""The status bar's right and left: what is going on, how far, how long still."""

from __future__ import annotations

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QLabel, QProgressBar, QStatusBar, QWidget

from ace_gui.formatting import duration, human_bytes
from ace_gui.gui.state.activity import State
from ace_gui.gui.state.session import Session
from ace_gui.gui.widgets.plain_label import plain_label

_BAR = 220  # px
_REFRESH = 60  # ms between two looks at the progress: the bar repaints the window each time
_WORDS = {
    State.PLANNING: "reading headers",
    State.ANALYSING: "comparing the experts",
    State.MERGING: "merging",
    State.EXPORTING: "exporting",
    State.REPORTING: "writing the report",
}


class ProgressBar(QStatusBar):
    """Follows the session: ``2 threads · merging, layer 31 of 72 · 0:41 left · 0.9 GB``."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.setAccessibleName("Status")
        self.text: QLabel = plain_label("", self, wrap=False)
        self.text.setContentsMargins(8, 0, 8, 0)
        self.bar = QProgressBar(self)
        self.bar.setFixedWidth(_BAR)
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(12)
        self.bar.setAccessibleName("Progress")
        self.addWidget(self.text, 1)
        self.addPermanentWidget(self.bar)
        for signal in (
            session.engine_changed,
            session.activity.changed,
            session.results.changed,
            session.draft.changed,
        ):
            signal.connect(self.refresh)
        self._timer = QTimer(self, singleShot=True, interval=_REFRESH)
        self._timer.timeout.connect(self.refresh)
        session.activity.progressed.connect(self._plan_refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show the session's state."""
        self._timer.stop()
        self.text.setText(" · ".join(self._parts()))
        self._show_bar()

    def _plan_refresh(self) -> None:
        if not self._timer.isActive():
            self._timer.start()

    def _parts(self) -> list[str]:
        session = self._session
        if session.engine is None:
            parts = ["starting the engine …"]
        else:
            count = session.engine.threads
            parts = [f"{count} thread{'s' if count != 1 else ''}"]
        parts += self._activity()
        if session.draft.plan is not None and session.draft.plan.experts:
            parts.append(f"needs about {human_bytes(session.draft.plan.peak_bytes)} of memory")
        return parts

    def _activity(self) -> list[str]:
        session, progress = self._session, self._session.activity.progress
        state = session.state
        if state not in _WORDS:
            return self._result()
        if progress is None or progress.state is not state:
            return [f"{_WORDS[state]} …"]
        if state is State.EXPORTING:
            return [f"exporting, {human_bytes(progress.done)} of {human_bytes(progress.total)}"]
        word = progress.title or _WORDS[state]
        parts = [f"{word}, layer {progress.done} of {progress.total}"]
        if progress.seconds_left is not None:
            parts.append(f"{duration(progress.seconds_left)} left")
        return parts

    def _result(self) -> list[str]:
        session = self._session
        if session.results.merge is None:
            return ["ready"] if session.can_merge else []
        if session.results.merge.finished is None:
            return ["merge interrupted" if session.merge_is_current else "ready"]
        if not session.merge_is_current:
            return ["the merge is of earlier parameters"]
        return [f"merged in {duration(session.results.merge.finished.seconds)}"]

    def _show_bar(self) -> None:
        """Without updates: a bar repaints itself at once, and whatever waits for it as well."""
        progress, state = self._session.activity.progress, self._session.state
        self.bar.setUpdatesEnabled(False)
        self.bar.setVisible(state in _WORDS)
        if progress is None or progress.state is not state or progress.total <= 0:
            self.bar.setRange(0, 0)
        else:
            self.bar.setRange(0, 1000)
            self.bar.setValue(round(1000 * progress.done / progress.total))
        self.bar.setUpdatesEnabled(True)
