"""Small file tasks outside the GUI thread, in the order of the calls."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, QThreadPool, Signal


class Answer(QObject):
    """Carries a task's result back to the GUI thread with ``given``.

    The task holds a reference, so it lives even if the caller is gone.
    """

    given = Signal(object)


class Background:
    """Runs one task after another in a thread of the application's pool.

    An exception in a task is reported as uncaught, and the next task follows.
    """

    def __init__(self) -> None:
        self._tasks: deque[Callable[[], object]] = deque()
        self._change = threading.Condition()
        self._running = False

    def run(self, task: Callable[[], object]) -> None:
        """Run this task after all earlier ones."""
        with self._change:
            self._tasks.append(task)
            if not self._running:
                self._running = True
                QThreadPool.globalInstance().start(self._work)

    def ask(self, task: Callable[[], object], use: Callable[[Any], object]) -> None:
        """Run this task and pass its result to ``use``, a method of a QObject, in that object's
        thread."""
        answer = Answer()
        answer.given.connect(use)
        self.run(lambda: answer.given.emit(task()))

    def wait(self) -> None:
        """Wait until all tasks are done."""
        with self._change:
            self._change.wait_for(lambda: not self._running)

    def _work(self) -> None:
        while True:
            with self._change:
                if not self._tasks:
                    self._running = False
                    self._change.notify_all()
                    return
                task = self._tasks.popleft()
            try:
                task()
            except Exception:
                sys.excepthook(*sys.exc_info())
