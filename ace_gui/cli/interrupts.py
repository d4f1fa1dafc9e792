"""What Ctrl+C and SIGTERM do while the program starts, works and ends.

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
    """From here on a signal ends the process with status 130. Call it before imports.

    Nothing is open then. Some libraries would turn an exception of an import into another one.
    """
    _handle(_end)


def raise_interrupt() -> None:
    """From here on a signal raises KeyboardInterrupt, so that open files are closed."""
    _handle(_interrupt)


def ignore() -> None:
    """Ignore signals: the work is done and its status is known."""
    _handle(signal.SIG_IGN)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Inside the block a signal raises KeyboardInterrupt; afterwards the old handlers are back."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    raise_interrupt()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """A block of imports inside ``interruptible``: a signal ends the process at once."""
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
    """Let a signal end a forked process, such as a pool's, silently."""
    for number in _SIGNALS:
        if signal.getsignal(number) in (_end, _interrupt):
            signal.signal(number, signal.SIG_DFL)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
