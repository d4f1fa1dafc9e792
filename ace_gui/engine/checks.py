"""What was looked at before a merge, each with a verdict. Plain values, nothing heavy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Verdict(StrEnum):
    """How a check came out; the value is what people read."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


WORST_FIRST: Final = (Verdict.ERROR, Verdict.WARNING, Verdict.NOTE, Verdict.OK)
EVERYTHING: Final = "all models"
"""The subject of a check that has nothing to say of any one model."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that was looked at.

    ``subject``: the model it is about, or ``EVERYTHING``. ``title``: what was looked at
    ("Vocabulary"). ``details``: every offender, a line each, for folding away.
    """

    subject: str
    title: str
    verdict: Verdict
    sentence: str
    details: str = ""

    @property
    def is_worry(self) -> bool:
        """Whether a person should read it before merging."""
        return self.verdict in (Verdict.WARNING, Verdict.ERROR)

    @property
    def key(self) -> tuple[str, str, Verdict]:
        """What it was accepted as: figures in its sentence may change meanwhile."""
        return self.subject, self.title, self.verdict


def worst_first(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Errors, warnings, notes, then what is fine; else in the order given."""
    return tuple(sorted(checks, key=lambda check: WORST_FIRST.index(check.verdict)))


def count_of(checks: Iterable[Check]) -> str:
    """ "1 error, 2 warnings"; empty if there is neither."""
    verdicts = [check.verdict for check in checks]
    counts = [(verdict.value, verdicts.count(verdict)) for verdict in WORST_FIRST[:2]]
    return ", ".join(f"{n} {word}{'s' if n > 1 else ''}" for word, n in counts if n)
