"""The commands of the palette, and the search among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

_BEGINS, _WITHIN, _SCATTERED = 0, 1, 2  # quality of a match with a word; lower is better
_OUTSIDE_TITLE: Final = 4  # quality of a match with the start of a word outside the title
_SAYS_MUCH: Final = 4  # minimum length for a match in the tooltip


@dataclass(frozen=True, kw_only=True)
class Command:
    """``menu``: the menu or part of the window. ``why``: the reason why it is disabled."""

    title: str
    menu: str
    run: Callable[[], object]
    shortcut: str = ""
    tip: str = ""
    why: str = ""


def found(commands: Iterable[Command], typed: str) -> list[Command]:
    """The commands that every word of ``typed`` matches, best first; disabled ones come last.

    A word matches a title word that starts with it, contains it, or contains its characters in
    order (``mrg``: Merge). Otherwise it matches the start of a menu word, or if longer of a tooltip
    word.
    """
    words = typed.casefold().split()
    fitting = ((_misfit(words, command), command) for command in commands)
    ranked = [(fit, command) for fit, command in fitting if fit is not None]
    return [each for _, each in sorted(ranked, key=lambda pair: (bool(pair[1].why), pair[0]))]


def _misfit(typed: Sequence[str], command: Command) -> int | None:
    """0: every word starts a title word; None: a word matches nothing."""
    title = command.title.casefold().split()
    index, tip = command.menu.casefold().split(), command.tip.casefold().split()
    total = 0
    for word in typed:
        fits = [fit for fit in (_word_misfit(word, other) for other in title) if fit is not None]
        others = [*index, *(tip if len(word) >= _SAYS_MUCH else ())]
        fits += [_OUTSIDE_TITLE for other in others if other.startswith(word)]
        if not fits:
            return None
        total += min(fits)
    return total


def _word_misfit(typed: str, word: str) -> int | None:
    if word.startswith(typed):
        return _BEGINS
    if typed in word:
        return _WITHIN
    characters = iter(word)
    if len(typed) > 1 and word.startswith(typed[0]) and all(each in characters for each in typed):
        return _SCATTERED
    return None
