"""Work outside the window's thread and outside the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, QThreadPool, Signal, SignalInstance


class _Answer(QObject):
    """Carries a result to the GUI thread.

    Its parent is the pool: with its task alone it would be destroyed in the pool's thread, while
    the GUI thread may be using it.
    """

    delivered = Signal(object)


class Background(QThreadPool):
    """A single thread. An exception in a task is reported as uncaught, and the next one follows."""

    def __init__(self) -> None:
        super().__init__()
        self.setMaxThreadCount(1)

    def ask(
        self, task: Callable[[], object], use: Callable[[Any], object] | SignalInstance
    ) -> None:
        """Run this task and pass its result to ``use``, a method or a signal of a QObject, in that
        object's thread."""
        answer = _Answer(self)
        answer.delivered.connect(use)
        answer.delivered.connect(answer.deleteLater)
        self.start(lambda: answer.delivered.emit(task()))
