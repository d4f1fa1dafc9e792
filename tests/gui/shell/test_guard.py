import gc
import os
import signal
import sys
import threading
import weakref

import pytest
from PySide6.QtCore import QObject

from ace_gui.errors import CheckpointError
from ace_gui.gui.app import GarbageCollector, Guard, Interrupts
from ace_gui.gui.control.background import Background


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


def test_garbage_of_qt_is_collected_by_the_windows_thread(qtbot):
    places: list[int] = []
    collector = GarbageCollector()
    background = Background()
    gc.collect()
    gc.enable()
    collector.start()
    try:
        for _ in range(10):
            part = QObject()
            part.cycle = part  # type: ignore[attr-defined]
            weakref.finalize(part, lambda: places.append(threading.get_ident()))
        del part
        # In CPython this many lasting objects begin a collection where they are made.
        background.start(lambda: sum(map(len, [[number] for number in range(50_000)])))
        background.waitForDone()
        assert places == []
        made = [[number] for number in range(50_000)]
        qtbot.waitUntil(lambda: len(places) == 10)
        assert len(made) == 50_000
    finally:
        collector.stop()
    assert gc.isenabled()
    assert set(places) == {threading.get_ident()}
