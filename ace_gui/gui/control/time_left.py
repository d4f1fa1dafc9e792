"""How fast a merge goes, and so how long it will still take."""

from __future__ import annotations

import time
from collections.abc import Callable


class Pace:
    """Time left, from the bytes done since this run began; earlier runs' bytes do not count."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._total = 0
        self._started = clock()
        self._first: int | None = None

    def start(self, bytes_total: int) -> None:
        """The merge begins now and will write this many bytes."""
        self._total = bytes_total
        self._started = self._clock()
        self._first = None

    def seconds_left(self, bytes_done: int) -> float | None:
        """None until two tensors are finished."""
        if self._first is None:
            self._first, self._started = bytes_done, self._clock()
            return None
        fresh = bytes_done - self._first
        elapsed = self._clock() - self._started
        if fresh <= 0 or elapsed <= 0:
            return None
        return max(0, self._total - bytes_done) * elapsed / fresh
