"""The checks before a merge, each with a verdict. Plain values, no heavy imports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ace_gui.formatting import human_bytes


class Verdict(StrEnum):
    """The result of a check. The value is shown to users."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


DISK: Final = "Disk"
MEMORY: Final = "Memory"
"""Titles of the checks for memory and disk space."""

ADAPTER: Final = "Adapter"
"""Title of the check on a merge that is written as an adapter, which merges in a store are not."""

RECIPE: Final = "Recipe"
"""Title of the check on how the recipe's file was read."""

_ROOMY: Final = 1.25
"""Space is ample from this multiple of what is needed."""

WORST_FIRST: Final = (Verdict.ERROR, Verdict.WARNING, Verdict.NOTE, Verdict.OK)
EVERYTHING: Final = "all models"
"""The subject of a check that concerns no single model."""


@dataclass(frozen=True)
class Check:
    """One check.

    ``title``: what was checked ("Vocabulary"). ``details``: all findings, one per line, shown on
    demand. ``subject``: the model, or ``EVERYTHING``.
    """

    title: str
    sentence: str
    verdict: Verdict = Verdict.OK
    details: str = ""
    subject: str = EVERYTHING

    @property
    def is_worry(self) -> bool:
        """Whether the user should read it before merging."""
        return self.verdict in (Verdict.WARNING, Verdict.ERROR)

    @property
    def line(self) -> str:
        """The subject and the sentence, for a list without columns."""
        about = self.title if self.subject == EVERYTHING else f"{self.title}, {self.subject}"
        return f"{about}: {self.sentence}"

    @property
    def key(self) -> tuple[str, str, Verdict]:
        """Identifies an accepted check.

        It does not contain the figures of the sentence, which may change.
        """
        return self.subject, self.title, self.verdict


def worst_first(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Errors, warnings, notes, then passed checks; otherwise in the given order."""
    return tuple(sorted(checks, key=lambda check: WORST_FIRST.index(check.verdict)))


def replaced(checks: Iterable[Check], *others: Check) -> tuple[Check, ...]:
    """The checks, with those that share a title with ``others`` replaced by these; worst first."""
    titles = {check.title for check in others}
    return worst_first((*(check for check in checks if check.title not in titles), *others))


def disk_check(needed: int, free: int, advice: str) -> Check:
    """Whether the disk has space for the merged model; sizes in bytes."""
    what = f"About {human_bytes(needed)} for the merged model; {human_bytes(free)} free."
    return _room(DISK, what, needed, free, advice)


def memory_check(peak: int, tensor: str, free: int, *, limited: bool = False) -> Check:
    """Whether memory has space for the largest tensor.

    ``limited``: ``free`` is a limit set by the user.
    """
    what = f"About {human_bytes(peak)} for the largest tensor, `{tensor}`"
    if limited:
        advice = "Allow more, or keep that tensor from the base."
        return _room(MEMORY, f"{what}; {human_bytes(free)} allowed.", peak, free, advice)
    advice = "Close other programs, or keep that tensor from the base."
    return _room(MEMORY, f"{what}; {human_bytes(free)} free.", peak, free, advice)


def _room(title: str, sentence: str, needed: int, free: int, advice: str) -> Check:
    verdict = Verdict.OK
    if needed > free:
        verdict, sentence = Verdict.ERROR, f"{sentence} {advice}"
    elif _ROOMY * needed > free:
        verdict, sentence = Verdict.WARNING, " ".join((sentence, "That is tight.", advice))
    return Check(title, sentence, verdict)
