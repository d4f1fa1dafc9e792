"""The shelf: the methods to try first, in this order. The others are listed by family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ace_gui.recipe import recommended


@dataclass(frozen=True)
class ShelfEntry:
    """A merge to try first. ``name``: as for ``compare --methods``; ``when``: its use."""

    name: str
    title: str
    when: str


SHELF: Final = (
    ShelfEntry(recommended.NAME, recommended.TITLE, "no data at hand: the merge to start with"),
    ShelfEntry("ace:automatic", "ACE, automatic", "ACE without a threshold to choose"),
    ShelfEntry("ace", "ACE, published", "the paper's procedure and parameters"),
    ShelfEntry("linear", "Weight averaging", "the baseline; best for experts of one task"),
    ShelfEntry("task_arithmetic", "Task arithmetic", "a sum of changes, with a factor to tune"),
    ShelfEntry("ties", "TIES-Merging", "changes of opposite signs in the same entries"),
    ShelfEntry("dare_ties", "DARE with TIES", "as TIES, for many small changes"),
    ShelfEntry("slerp", "SLERP", "exactly two experts of one base"),
    ShelfEntry("tsv_m", "TSV-Merging", "many experts with strong changes"),
    ShelfEntry("regmean", "RegMean", "some inputs of every task at hand, no labels"),
)

NAMES: Final = tuple(entry.name for entry in SHELF)
