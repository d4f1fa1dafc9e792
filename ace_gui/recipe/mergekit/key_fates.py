"""What became of the keys of a mergekit file, as values, and in one sentence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ace_gui.formatting import counted, listing


class Fate(StrEnum):
    """What becomes of a key."""

    KEPT = "as in mergekit"
    CHANGED = "changed"
    LEFT_OUT = "left out"


@dataclass(frozen=True, kw_only=True)
class KeyFate:
    """What becomes of a key of a file."""

    key: str
    """Its path, such as ``models[].parameters.weight``; one line for all entries of a list."""

    value: str
    """As it is written; the first of several."""

    fate: Fate
    """What becomes of it."""

    why: str
    """Why, or what its value is; empty for a plain value that is read as in mergekit."""


def sentence_on(fates: Sequence[KeyFate]) -> str:
    """How many keys are read as mergekit reads them, and which are not."""
    by_fate = defaultdict[Fate, list[str]](list)
    for key_fate in fates:
        by_fate[key_fate.fate].append(key_fate.key)
    kept_keys = counted(len(by_fate[Fate.KEPT]), "key is", "keys are")
    parts = [f"{kept_keys} read as mergekit reads them"]
    for fate in (Fate.CHANGED, Fate.LEFT_OUT):
        if by_fate[fate]:
            parts.append(f"{fate}: {listing(by_fate[fate])}")
    return f"{'; '.join(parts)}."


def reasons_of(fates: Sequence[KeyFate]) -> Iterator[str]:
    """A line for each key that is changed or left out: which, what becomes of it, and why."""
    for key_fate in fates:
        if key_fate.fate is not Fate.KEPT:
            yield f"{key_fate.key}: {key_fate.fate}: {key_fate.why}"
