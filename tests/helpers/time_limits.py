"""A limit on the time of a block, for long runs over many inputs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class OutOfTime(BaseException):
    """The block took too long. No ``except Exception`` on the way takes it for another failure."""


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise OutOfTime in the block after ``seconds``. Only for the main thread."""

    def stop(*_: object) -> None:
        raise OutOfTime(f"not done in {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
