"""Keeps values that are needed repeatedly in memory, up to a limit."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from torch import Tensor

Found = TypeVar("Found")


class Kept:
    """Keeps the first values up to ``most`` bytes; the others are computed each time.

    Values are never dropped, so that each step takes as long as the one before.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: dict[Hashable, Any] = {}
        self._bytes = 0

    def get(self, key: Hashable, make: Callable[[], Found]) -> Found:
        """The cached result of ``make``. It must not be overwritten."""
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
