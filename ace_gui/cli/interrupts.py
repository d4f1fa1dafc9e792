"""Ctrl+C and SIGTERM: what they do while the program starts, works and ends.

Imports nothing slow: ``__main__`` calls it before everything else.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final, NoReturn

CANCELLED: Final = 130
"""Exit status of a command that was cancelled."""

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_Handler = Callable[[int, FrameType | None], object]


def end_at_once() -> None:
    """While modules are imported nothing is open: a signal ends the process, with status 130.

    An exception would come out of the middle of an import, which some libraries turn into another.
    """
    _handle(_end)


def raise_interrupt() -> None:
    """From here on a signal is a KeyboardInterrupt, so that what is open is closed."""
    _handle(_interrupt)


def ignore() -> None:
    """Ignore signals: the work is done and its status is known."""
    _handle(signal.SIG_IGN)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Signals as KeyboardInterrupt inside the block; as before afterwards."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    raise_interrupt()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Inside ``interruptible``, a block of imports."""
    end_at_once()
    try:
        yield
    finally:
        raise_interrupt()


def _handle(handler: _Handler | signal.Handlers) -> None:
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup and background jobs
            signal.signal(number, handler)


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    with contextlib.suppress(OSError):
        os.write(2, b"Cancelled.\n")
    os._exit(CANCELLED)


def _in_child() -> None:
    """A forked process, such as a pool's, ends silently by a signal."""
    for number in _SIGNALS:
        if signal.getsignal(number) in (_end, _interrupt):
            signal.signal(number, signal.SIG_DFL)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
