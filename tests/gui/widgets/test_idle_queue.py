"""Long work lets the event loop go on between its pieces."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from PySide6.QtCore import QObject, QTimer
from pytestqt.qtbot import QtBot

from ace_gui.gui.widgets.lazy import IdleQueue


@pytest.fixture
def turns(qtbot: QtBot) -> Generator[IdleQueue, None, None]:
    owner = QObject()
    yield IdleQueue(owner)
    owner.deleteLater()


def test_what_is_posted_comes_between_two_pieces(turns: IdleQueue, qtbot: QtBot) -> None:
    done: list[str] = []

    def pieces() -> Generator[None, None, None]:
        for name in ("one", "two", "three"):
            done.append(name)
            QTimer.singleShot(0, turns, lambda name=name: done.append(f"after {name}"))
            yield

    turns.run(pieces())
    assert done == ["one"]
    qtbot.waitUntil(lambda: len(done) == 6)
    assert done == ["one", "after one", "two", "after two", "three", "after three"]


def test_other_work_takes_the_place_of_what_is_under_way(turns: IdleQueue, qtbot: QtBot) -> None:
    done: list[str] = []

    def pieces(name: str) -> Generator[None, None, None]:
        try:
            for index in range(3):
                done.append(f"{name} {index}")
                yield
        finally:
            done.append(f"{name} left")

    turns.run(pieces("a"))
    turns.run(pieces("b"))
    qtbot.waitUntil(lambda: done[-1] == "b left")
    assert done == ["a 0", "a left", "b 0", "b 1", "b 2", "b left"]


def test_an_error_ends_the_work(turns: IdleQueue, qtbot: QtBot) -> None:
    done: list[int] = []

    def pieces() -> Generator[None, None, None]:
        done.append(1)
        yield
        raise ValueError("broken")

    with qtbot.captureExceptions() as caught:
        turns.run(pieces())
        qtbot.waitUntil(lambda: bool(caught))
        qtbot.wait(10)
    assert [str(error) for _kind, error, _trace in caught] == ["broken"]
    assert done == [1]
