"""Work outside the window's thread goes on, whatever one task of it raises."""

import sys
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QObject

from ace_gui.errors import OutputError
from ace_gui.gui.app import Guard
from ace_gui.gui.control.background import Background

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
        self.answers: list[object] = []

    def take(self, answer: object) -> None:
        self.answers.append(answer)


def raising(error: Exception) -> Callable[[], object]:
    def task() -> object:
        raise error

    return task


@pytest.mark.parametrize("with_receiver", [False, True])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_tasks_after_one_that_raises_are_done_and_the_error_is_reported(
    qtbot, monkeypatch, error, with_receiver
):
    monkeypatch.setattr(sys, "excepthook", lambda *_: None)
    guard = Guard()
    evaluator = Evaluator()
    background = Background()
    try:
        with qtbot.waitSignal(guard.broken, timeout=5000) as received:
            for task in (raising(error), lambda: 7):
                if with_receiver:
                    background.ask(task, evaluator.take)
                else:
                    background.start(lambda task=task: evaluator.answers.append(task()))
        background.start(lambda: evaluator.answers.append(8))
        background.waitForDone()
        qtbot.waitUntil(lambda: sorted(evaluator.answers) == [7, 8])
        assert str(error) in str(received.args[0])
    finally:
        guard.release()


def test_what_carries_an_answer_ends_in_the_windows_thread_after_it_is_taken(qtbot):
    evaluator = Evaluator()
    background = Background()
    computed = threading.Event()
    background.ask(partial(computed.wait, 5), evaluator.take)
    [answer] = background.findChildren(QObject)
    ends: list[int] = []
    answer.destroyed.connect(lambda: ends.append(threading.get_ident()))
    del answer
    computed.set()
    background.waitForDone()
    assert ends == []
    qtbot.waitUntil(lambda: evaluator.answers == [True])
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    assert ends == [threading.get_ident()]
    assert background.findChildren(QObject) == []


def test_a_pool_that_goes_away_waits_for_its_answers(qtbot):
    evaluator = Evaluator()
    background = Background()
    background.ask(partial(time.sleep, 0.1), evaluator.take)
    background.ask(lambda: 7, evaluator.take)
    del background
    QCoreApplication.processEvents()
    assert evaluator.answers == [None, 7]
