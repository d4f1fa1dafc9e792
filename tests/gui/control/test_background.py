"""Work outside the window's thread goes on, whatever one task of it raises."""

import sys
from collections.abc import Callable

import pytest
from PySide6.QtCore import QObject

from ace_gui.errors import OutputError
from ace_gui.gui.app import Guard
from ace_gui.gui.control.engine_client import Background

ERRORS = (
    OSError(36, "File name too long"),
    PermissionError(13, "Permission denied"),
    ValueError("embedded null byte"),
    OutputError("The disk is full."),
    RuntimeError("anything"),
)


class Evaluator(QObject):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[object] = []

    def take(self, found: object) -> None:
        self.found.append(found)


def raising(error: Exception) -> Callable[[], object]:
    def task() -> object:
        raise error

    return task


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_tasks_after_one_that_raises_are_done_and_the_error_is_reported(
    qtbot, monkeypatch, error, asked
):
    monkeypatch.setattr(sys, "excepthook", lambda *_: None)
    guard, evaluator, background = Guard(), Evaluator(), Background()
    try:
        with qtbot.waitSignal(guard.broken, timeout=5000) as received:
            for task in (raising(error), lambda: 7):
                if asked:
                    background.ask(task, evaluator.take)
                else:
                    background.start(lambda task=task: evaluator.found.append(task()))
        background.start(lambda: evaluator.found.append(8))
        background.waitForDone()
        qtbot.waitUntil(lambda: sorted(evaluator.found) == [7, 8])
        assert str(error) in str(received.args[0])
    finally:
        guard.release()
