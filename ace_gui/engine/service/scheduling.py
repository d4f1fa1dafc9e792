"""Decides which job of an engine runs next: quick ones first, while a long merge continues."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

HEAD_START: Final = 1.5
"""Seconds that newer jobs may take before the oldest gets its share of the time."""


class JobScheduler:
    """The newest job comes first, until newer ones took ``HEAD_START`` more than the oldest.

    A user who opens one layer after another during a merge keeps sending jobs; half of the time
    still goes to the merge.
    """

    def __init__(self) -> None:
        self._owed = 0.0  # seconds owed to the oldest job

    def next(self, active: Collection[int]) -> int:
        """The number of the next job to run; jobs are numbered as they come."""
        return min(active) if self._owed > HEAD_START else max(active)

    def took(self, number: int, seconds: float, active: Collection[int]) -> None:
        """Record the duration of a job's step."""
        oldest = number == min(active, default=number)
        self._owed = max(0.0, self._owed - seconds) if oldest else self._owed + seconds
