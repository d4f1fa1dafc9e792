"""Handlers for uncaught exceptions and for Ctrl+C in the terminal."""

from __future__ import annotations

import signal
import socket
import sys
import traceback
from collections.abc import Callable
from types import TracebackType

from PySide6.QtCore import QObject, QSocketNotifier, Signal

from ace_gui.errors import WorkbenchError


class Guard(QObject):
    """Emits ``broken`` with a WorkbenchError for every uncaught exception."""

    broken = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._before = sys.excepthook
        sys.excepthook = self._report

    def release(self) -> None:
        """Restore the previous hook."""
        sys.excepthook = self._before

    def _report(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        self._before(kind, error, trace)
        if isinstance(error, WorkbenchError):
            self.broken.emit(error)
            return
        details = "".join(traceback.format_exception(kind, error, trace))
        sentence = f"An unexpected error occurred: {kind.__name__}: {error}."
        self.broken.emit(WorkbenchError(sentence, details=details))


class Interrupts(QObject):
    """Calls back on SIGINT and SIGTERM.

    Python alone would handle them only when Qt next calls into it.
    """

    def __init__(self, action: Callable[[], object], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._receiver, self._sender = socket.socketpair()
        for end in (self._receiver, self._sender):
            end.setblocking(False)
        self._action = action
        wanted = (signal.SIGINT, signal.SIGTERM)
        self._handlers = {each: signal.signal(each, lambda *_: None) for each in wanted}
        self._wakeup = signal.set_wakeup_fd(self._sender.fileno())
        kind = QSocketNotifier.Type.Read
        self._notifier = QSocketNotifier(self._receiver.fileno(), kind, self)
        self._notifier.activated.connect(self._heard)

    def release(self) -> None:
        """Restore the previous handler."""
        self._notifier.setEnabled(False)
        signal.set_wakeup_fd(self._wakeup)
        for each, handler in self._handlers.items():
            signal.signal(each, handler)
        self._receiver.close()
        self._sender.close()

    def _heard(self) -> None:
        self._receiver.recv(64)
        self._action()
