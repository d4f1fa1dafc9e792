"""What the sanity check of a merged language model gave, for window, card and report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ace_gui.engine.contract.scored import finite_or_none
from ace_gui.formatting import number_text

FAR: Final = 1.5
"""A merge is suspicious if its perplexity is this many times that of the worst of the others."""


CAUSES: Final = (
    "Likely causes: weights or a scaling that are too large, an expert of another base, or a "
    "vocabulary whose rows are other tokens. Try the recommended merge, a smaller scaling, or one "
    "expert less."
)


ASK_BY_COMMAND: Final = "Ask for it with `check: true` in the recipe, or with --check."
ASK_IN_WINDOW: Final = (
    "To have it made, choose “always” for Check under More options, and merge again."
)


@dataclass(frozen=True, kw_only=True)
class SanityResult:
    """The perplexity of models on a few dozen lines of usual text in several languages, and code.

    A merge that answers badly on a task can be sound here; a broken one is not.
    """

    perplexities: Mapping[str, float]
    """Of base and experts, by name."""

    merged: float
    """Of the merge; NaN if it could not be computed."""

    seconds: float
    """The time that the check took."""

    skipped: str = ""
    """Why nothing was checked, as a sentence; empty after a check."""

    can_be_asked_for: bool = False
    """Whether nothing was checked only because it is costly."""

    @property
    def is_far(self) -> bool:
        """Whether the merge is far above all of the others."""
        if self.skipped:
            return False
        finite = [value for value in self.perplexities.values() if math.isfinite(value)]
        if not math.isfinite(self.merged):
            return bool(finite)
        return bool(finite) and self.merged > FAR * max(finite)

    @property
    def sentence(self) -> str:
        """The result in a sentence; empty if there is none. How to ask for a check is said for the
        command line."""
        if self.skipped:
            return self._skipped_with(ASK_BY_COMMAND)
        if self.is_far:
            return (
                "On usual text the merge is far worse than all models that it was made of: "
                f"perplexity {_text(self.merged)}, theirs {self._others}. {CAUSES}"
            )
        return (
            f"Sanity check: on usual text the perplexity of the merge is {_text(self.merged)}, "
            f"that of base and experts {self._others} (in {self.seconds:.0f} s)."
        )

    @property
    def sentence_in_window(self) -> str:
        """The same, with what to do in the window."""
        if self.skipped:
            return self._skipped_with(ASK_IN_WINDOW)
        return self.sentence

    def _skipped_with(self, ask: str) -> str:
        return f"{self.skipped} {ask}" if self.can_be_asked_for else self.skipped

    def record(self) -> dict[str, Any]:
        """The values for JSON, which has no number for NaN and infinity."""
        return {
            "perplexities": {
                name: finite_or_none(value) for name, value in self.perplexities.items()
            },
            "merged": finite_or_none(self.merged),
            "seconds": self.seconds,
            "skipped": self.skipped and self.sentence,
            "sentence": self.sentence,
        }

    @property
    def warnings(self) -> tuple[str, ...]:
        """The sentence, if the merge is far above the others."""
        if self.is_far:
            return (self.sentence,)
        return ()

    @property
    def _others(self) -> str:
        values = sorted(self.perplexities.values())
        low = _text(values[0])
        high = _text(values[-1])
        if low == high:
            return low
        return f"{low} to {high}"


def skipped(reason: str, *, can_be_asked_for: bool = False) -> SanityResult:
    """The result where nothing was checked."""
    return SanityResult(
        perplexities={},
        merged=math.nan,
        seconds=0.0,
        skipped=reason,
        can_be_asked_for=can_be_asked_for,
    )


def _text(perplexity: float) -> str:
    return number_text(perplexity, 3)
