"""Whose turn it is among the jobs of one engine: a quick look first, yet a long merge goes on."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

HEAD_START: Final = 1.5
"""Seconds that newer jobs may work before the oldest has its share of the time."""


class Turns:
    """The newest job goes first, until newer ones took ``HEAD_START`` more than the oldest.

    Somebody who walks through the layers during a merge asks for one look after the other; half of
    the time is then the merge's.
    """

    def __init__(self) -> None:
        self._owed = 0.0  # seconds to the oldest job

    def next(self, active: Collection[int]) -> int:
        """The number of the job whose turn it is; jobs are numbered as they come."""
        return min(active) if self._owed > HEAD_START else max(active)

    def took(self, number: int, seconds: float, active: Collection[int]) -> None:
        """A step of a job took so long."""
        oldest = number == min(active, default=number)
        self._owed = max(0.0, self._owed - seconds) if oldest else self._owed + seconds
