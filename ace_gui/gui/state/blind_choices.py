"""Which answers a person found best without knowing the models, and how sure that is."""

from __future__ import annotations

from collections import Counter
from math import comb
from typing import Final

from ace_gui.formatting import counted

SURE: Final = 0.05
"""Largest chance of as clear a preference between equal models, for it to count as shown."""


def sign_test(first: int, second: int) -> float:
    """The chance that equal models would get as unequal counts; two-sided, from 0 to 1."""
    total = first + second
    if not total:
        return 1.0
    larger = max(first, second)
    tail = sum(comb(total, count) for count in range(larger, total + 1)) / 2**total
    return min(1.0, 2 * tail)


class BlindChoices:
    """The choices so far, by the models' names."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, chosen: str, losers: list[str]) -> None:
        """Count one choice of a model among others."""
        for name in losers:
            self._counts[name] += 0
        self._counts[chosen] += 1

    def clear(self) -> None:
        """Forget all choices."""
        self._counts.clear()

    @property
    def sentence(self) -> str:
        """The counts, and how sure it is that the most chosen model is preferred to the next."""
        if not self._counts.total():
            return ""
        ranked = self._counts.most_common()
        counts = " · ".join(f"{name} {count}" for name, count in ranked)
        text = f"{counts} of {counted(self._counts.total(), 'choice', 'choices')}"
        if len(ranked) < 2:
            return f"{text}."
        (first, most), (second, fewer) = ranked[:2]
        chance = sign_test(most, fewer)
        if chance <= SURE:
            return f"{text}; {first} is preferred to {second} (sign test, p = {chance:.2g})."
        return f"{text}; no preference is shown yet (sign test, p = {chance:.2g})."
