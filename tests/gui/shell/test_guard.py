import os
import signal
import sys

import pytest

from ace_gui.errors import CheckpointError
from ace_gui.gui.app import Guard, Interrupts


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (CheckpointError("The file is empty."), "The file is empty."),
        (ZeroDivisionError("oops"), "An unexpected error occurred: ZeroDivisionError: oops."),
    ],
)
def test_what_nothing_caught_is_told(qtbot, monkeypatch, error, sentence):
    printed: list[object] = []
    monkeypatch.setattr(sys, "excepthook", lambda *parts: printed.append(parts))
    guard = Guard()
    try:
        with qtbot.waitSignal(guard.broken) as reported:
            sys.excepthook(type(error), error, None)
    finally:
        guard.release()
    assert reported.args[0].sentence == sentence
    assert len(printed) == 1


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_a_wish_to_end_is_heard_while_qt_waits(qtbot, kind):
    received: list[bool] = []
    before = signal.getsignal(kind)
    interrupts = Interrupts(lambda: received.append(True))
    try:
        os.kill(os.getpid(), kind)
        qtbot.waitUntil(lambda: received == [True])
    finally:
        interrupts.release()
    assert signal.getsignal(kind) is before
