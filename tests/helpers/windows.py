"""What every test with a window needs: settings of its own, and that nothing is left running."""

from __future__ import annotations

import gc
import multiprocessing
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from PySide6.QtCore import (
    QCoreApplication,
    QEvent,
    QMimeData,
    QObject,
    QPoint,
    QPointF,
    QRect,
    QSettings,
    Qt,
    QThread,
    QThreadPool,
    QTimer,
    QUrl,
)
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

PATIENCE: Final = 60_000
"""Milliseconds to wait for a real engine: the first one imports torch."""

Shown = TypeVar("Shown", bound=QWidget)


def keep_settings_in(folder: Path) -> None:
    """Read and write the window's settings there, and nowhere else."""
    QSettings.setDefaultFormat(QSettings.Format.IniFormat)
    QSettings.setPath(QSettings.Format.IniFormat, QSettings.Scope.UserScope, str(folder))


@contextmanager
def nothing_left_running() -> Iterator[None]:
    """Fail if threads, child processes or running timers outlive the block."""
    gc.freeze()  # only what the block makes is looked through
    gc.disable()  # a pool's thread would destroy Qt's objects, as in ``GarbageCollector``
    try:
        yield
        QThreadPool.globalInstance().waitForDone(5000)
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        gc.collect()
        objects = [made for made in gc.get_objects() if issubclass(type(made), (QThread, QTimer))]
    finally:
        gc.enable()
        gc.unfreeze()
    alive = [thing for thing in objects if isValid(thing)]
    threads = [thing for thing in alive if isinstance(thing, QThread) and thing.isRunning()]
    timers = [thing for thing in alive if isinstance(thing, QTimer) and thing.isActive()]
    assert not threads, f"threads left running: {threads}"
    assert not timers, f"timers left running: {[timer.parent() for timer in timers]}"
    assert not multiprocessing.active_children()
    running = [t for t in threading.enumerate() if t is not threading.main_thread()]
    assert not [t for t in running if t.name.startswith("Thread-")], running


def in_view(qtbot: QtBot, widget: Shown, *, width: int, height: int) -> Shown:
    """The widget, shown at this size until the test ends."""
    qtbot.addWidget(widget)
    widget.resize(width, height)
    widget.show()
    return widget


def stops(window: QWidget, qtbot: QtBot) -> list[QWidget]:
    """Where the Tab key stops, once around; each shows that it has the focus."""
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    window.setFocus()
    chain: list[QWidget] = []
    while True:
        before = window.grab().toImage()
        qtbot.keyClick(QApplication.focusWidget() or window, Qt.Key.Key_Tab)
        reached = QApplication.focusWidget()
        if reached in chain:
            assert reached is chain[0], f"{reached} leads back before all is reached"
            return chain
        place = QRect(reached.mapTo(window, QPoint()), reached.size()).adjusted(-3, -3, 3, 3)
        picture = window.grab().toImage().copy(place)
        assert picture != before.copy(place), f"{reached.accessibleName()} shows no focus"
        chain.append(reached)


def drop(widget: QWidget, *paths: Path) -> QDropEvent:
    """Drop files or folders on a widget."""
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    by = Qt.MouseButton.LeftButton
    keys = Qt.KeyboardModifier.NoModifier
    event = QDropEvent(QPointF(5, 5), Qt.DropAction.CopyAction, data, by, keys)
    widget.dropEvent(event)
    return event


def timers_rest(parent: QObject) -> bool:
    """Whether no timer of this object is waiting to act."""
    return not any(timer.isActive() for timer in parent.findChildren(QTimer))


def items_of(plot: Any, kind: type) -> list:
    """The items of this kind among the data of a plot."""
    items = plot.canvas.getViewBox().childGroup.childItems()
    return [item for item in items if isinstance(item, kind)]
