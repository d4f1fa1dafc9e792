"""What is asked for again and again, in memory as far as there is room for it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from torch import Tensor

Found = TypeVar("Found")


class Kept:
    """Keeps what comes first, up to ``most`` bytes; the rest is made anew each time.

    What was kept is never let go, so that each step takes as long as the one before.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: dict[Hashable, Any] = {}
        self._bytes = 0

    def get(self, key: Hashable, make: Callable[[], Found]) -> Found:
        """What ``make`` gives. Not to be overwritten."""
        if key in self._held:
            found: Found = self._held[key]
            return found
        made = make()
        size = _bytes_of(made)
        if self._bytes + size <= self._most:
            self._held[key] = made
            self._bytes += size
        return made


def _bytes_of(value: Any) -> int:
    if isinstance(value, Tensor):
        return value.nbytes
    if isinstance(value, dict):
        return sum(map(_bytes_of, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(_bytes_of, value))
    inputs = getattr(value, "inputs", None)
    return 64 if inputs is None else _bytes_of(dict(inputs))
