"""Small work on files outside the window's thread, in the order in which it was asked for."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, QThreadPool, Signal


class Answer(QObject):
    """Brings what a task found back to the window's thread; ``given`` carries it.

    The task holds it, so that it is there whatever became of who asked.
    """

    given = Signal(object)


class Background:
    """Does one task after another in a thread of the application's pool.

    A task that raises is reported as an exception that nothing caught; the next one follows.
    """

    def __init__(self) -> None:
        self._tasks: deque[Callable[[], object]] = deque()
        self._change = threading.Condition()
        self._running = False

    def run(self, task: Callable[[], object]) -> None:
        """Do this after what was asked for before."""
        with self._change:
            self._tasks.append(task)
            if not self._running:
                self._running = True
                QThreadPool.globalInstance().start(self._work)

    def ask(self, task: Callable[[], object], use: Callable[[Any], object]) -> None:
        """The same, and give what it finds to ``use``, a method of a QObject, in its thread."""
        answer = Answer()
        answer.given.connect(use)
        self.run(lambda: answer.given.emit(task()))

    def wait(self) -> None:
        """Until everything that was asked for is done."""
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
