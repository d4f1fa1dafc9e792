"""Regular expressions of an adapter's config, matched in bounded time.

Python's own matcher tries alternatives one after the other, so a hostile expression can run for
ever. Here all positions in the text that a part of the expression can reach are followed at once.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from operator import or_
from typing import Any, Final

_LONGEST: Final = 250
"""Of an expression, and of a module's name; nothing matches a longer name."""
_DEEPEST: Final = 12
_MOST: Final = 200
"""Most repetitions that an expression may count."""

_parser: Final = importlib.import_module("re._parser")

_CATEGORIES: Final[dict[str, Callable[[str], bool]]] = {
    "CATEGORY_DIGIT": str.isdecimal,
    "CATEGORY_SPACE": str.isspace,
    "CATEGORY_WORD": lambda c: c.isalnum() or c == "_",
}
_REPEATS: Final = frozenset({"MAX_REPEAT", "MIN_REPEAT"})
_STARTS: Final = frozenset({"AT_BEGINNING", "AT_BEGINNING_STRING"})
_ENDS: Final = frozenset({"AT_END", "AT_END_STRING"})
_KNOWN: Final = _REPEATS.union(
    ("SUBPATTERN", "BRANCH", "AT", "IN", "RANGE", "CATEGORY", "ANY", "LITERAL", "NOT_LITERAL")
)


class UnusableError(Exception):
    """The text is no expression, or one with more than names of modules need."""


def matches(pattern: str, module: str) -> bool:
    """Whether ``pattern`` is ``module`` or its end after a dot, as PEFT has it.

    Raises UnusableError.
    """
    parts = _parsed(pattern)
    if len(module) > _LONGEST:
        return False
    starts = 1 | sum(1 << i + 1 for i, character in enumerate(module) if character == ".")
    return bool(_Text(module).reached(parts, starts) >> len(module) & 1)


@lru_cache(maxsize=256)
def _parsed(pattern: str) -> Any:
    if len(pattern) > _LONGEST:
        raise UnusableError
    try:
        parts = _parser.parse(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UnusableError from error
    if parts.state.flags & ~re.UNICODE:
        raise UnusableError
    _check(parts, 0)
    return parts


def _check(parts: Sequence[Any], depth: int) -> None:
    if depth > _DEEPEST:
        raise UnusableError
    for kind, value in parts:
        name = str(kind)
        inner: Sequence[Any] = ()
        if name in _REPEATS:
            inner = [value[2]]
        elif name == "SUBPATTERN":
            inner = [value[3]]
        elif name == "BRANCH":
            inner = value[1]
        unusable = (
            (name in _REPEATS and value[0] > _MOST)
            or (name == "SUBPATTERN" and (value[1] or value[2]))
            or (name == "AT" and str(value) not in _STARTS | _ENDS)
            or (name == "CATEGORY" and str(value).replace("_NOT_", "_") not in _CATEGORIES)
            or name not in _KNOWN
        )
        if unusable:
            raise UnusableError
        for way in inner:
            _check(way, depth + 1)
        if name == "IN":
            _check([part for part in value if str(part[0]) != "NEGATE"], depth + 1)


class _Text:
    """A text to match expressions in. A set of positions in it is the bits of a number."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._fitting: dict[tuple[str, str], int] = {}

    def reached(self, parts: Sequence[Any], indices: int) -> int:
        """The positions in the text that ``parts`` can reach from any of ``indices``."""
        for kind, value in parts:
            indices = self._after(str(kind), value, indices)
        return indices

    def _after(self, kind: str, value: Any, indices: int) -> int:
        if kind in _REPEATS:
            return self._repeated(value, indices)
        if kind == "SUBPATTERN":
            return self.reached(value[3], indices)
        if kind == "BRANCH":
            return reduce(or_, (self.reached(way, indices) for way in value[1]))
        if kind == "AT":
            return indices & (1 if str(value) in _STARTS else 1 << len(self._text))
        key = kind, str(value)
        if key not in self._fitting:
            fitting = (1 << i for i, c in enumerate(self._text) if _fits(kind, value, c))
            self._fitting[key] = sum(fitting)
        return (indices & self._fitting[key]) << 1

    def _repeated(self, value: Any, indices: int) -> int:
        least, most, parts = value
        for _ in range(least):
            indices = self.reached(parts, indices)
        found = fresh = indices
        for _ in range(min(int(most) - least, len(self._text) + 1)):
            fresh = self.reached(parts, fresh) & ~found
            if not fresh:
                break
            found |= fresh
        return found


def _fits(kind: str, value: Any, character: str) -> bool:
    if kind == "LITERAL":
        return ord(character) == int(value)
    if kind == "NOT_LITERAL":
        return ord(character) != int(value)
    if kind == "ANY":
        return character != "\n"
    if kind == "RANGE":
        return int(value[0]) <= ord(character) <= int(value[1])
    if kind == "CATEGORY":
        name = str(value)
        return _CATEGORIES[name.replace("_NOT_", "_")](character) != ("_NOT_" in name)
    negated = str(value[0][0]) == "NEGATE"
    return any(_fits(str(k), v, character) for k, v in value[int(negated) :]) != negated
