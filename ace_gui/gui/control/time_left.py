"""Time left of a merge, estimated from the cost of what is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from math import prod
from typing import Final

from ace_gui.engine.contract.plan import Disposition, PlanRow

QUIET: Final = 3.0
"""Seconds at the start without an estimate, because it would be unreliable."""

_MATRIX: Final = 64
"""Roughly the columns whose products take as long as reading a matrix; the rest grows with size."""

_SMOOTH: Final = 0.3


class Pace:
    """Time left. Tensors count by their cost; those of an earlier run took no time now."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: dict[str, float] = {}
        self._done = 0.0
        self._started = self._estimated_at = clock()
        self._estimate: float | None = None

    def start(self, rows: Iterable[PlanRow], done: Collection[str]) -> None:
        """Start the merge of these tensors. ``done`` are the names of the finished ones."""
        self._left = {row.name: cost(row) for row in rows if row.name not in done}
        self._done, self._estimate = 0.0, None
        self._started = self._clock()

    def finish(self, name: str) -> None:
        """One more tensor is merged."""
        self._done += self._left.pop(name, 0.0)

    def seconds_left(self) -> float | None:
        """Seconds left, or None until enough is known."""
        now = self._clock()
        elapsed = now - self._started
        if elapsed < QUIET or not self._done:
            return None
        estimate = sum(self._left.values()) * elapsed / self._done
        if self._estimate is not None:
            expected = max(0.0, self._estimate - (now - self._estimated_at))
            estimate = expected + _SMOOTH * (estimate - expected)
        self._estimate, self._estimated_at = estimate, now
        return estimate


class StepPace:
    """Time left of steps with equal cost, from those done in this run."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first: tuple[float, int] | None = None

    def seconds_left(self, done: int, total: int) -> float | None:
        """Seconds left after ``done`` of ``total`` steps, or None until enough is known. If
        ``done`` decreases, a new sequence has begun."""
        now = self._clock()
        if self._first is None or done < self._first[1]:
            self._first = now, done
        elapsed, steps = now - self._first[0], done - self._first[1]
        return None if elapsed < QUIET or not steps else elapsed / steps * (total - done)


def cost(row: PlanRow) -> float:
    """Cost of a tensor in entries read: matrix products grow with the matrix's sides."""
    size = float(prod(row.shape))
    if row.disposition is Disposition.MERGED and len(row.shape) == 2:
        return size * (1 + min(row.shape) / _MATRIX)
    return size
