"""Work in steps, so that the caller can do other things in between, or stop."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[None, None, T]
"""Work that pauses between steps; closing it stops the work."""


def result_of(steps: Steps[T]) -> T:
    """Do the work to its end."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
