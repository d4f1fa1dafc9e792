"""Widgets that show a changing state, but work only while they are visible."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QTimer, SignalInstance
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QWidget


class Following(QWidget):
    """Calls ``refresh`` when it is shown, and while it is visible after what it follows.

    ``delay``: at most one refresh in so many ms; 0: at once.
    """

    delay = 0

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._stale = True
        self._timer = QTimer(self, singleShot=True, interval=self.delay)
        self._timer.timeout.connect(self._update)

    def follow(self, *signals: SignalInstance) -> None:
        """Refresh after each of these signals."""
        for signal in signals:
            signal.connect(self.plan_refresh)

    def plan_refresh(self, *_: object) -> None:
        """Refresh now or after the delay, or when the widget is shown."""
        self._stale = True
        if not self.isVisible():
            return
        if not self.delay:
            self._update()
        elif not self._timer.isActive():
            self._timer.start()

    def refresh(self) -> None:
        """Show the state."""
        raise NotImplementedError

    def _update(self) -> None:
        self._stale = False
        self.refresh()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._stale:
            self._update()


def on_visibility_change(widget: QWidget, report: Callable[[bool], object]) -> None:
    """Call ``report`` whenever the widget is shown or hidden, with whether it is visible."""
    widget.installEventFilter(_Visibility(widget, report))


class _Visibility(QObject):
    def __init__(self, widget: QWidget, report: Callable[[bool], object]) -> None:
        super().__init__(widget)
        self._report = report

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: ARG002
        if event.type() in (QEvent.Type.Show, QEvent.Type.Hide):
            self._report(event.type() == QEvent.Type.Show)
        return False
