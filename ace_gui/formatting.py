"""Text out of files, made fit for a sentence, a label or a terminal."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

NAMES_SHOWN: Final = 8
"""How many offenders a sentence names."""

_LONGEST: Final = 160


def printable(text: str) -> str:
    """``text`` with control, bidirectional and other invisible characters escaped.

    A terminal that gets it does nothing but show it.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )


def plain(name: str) -> str:
    """``printable``, and not long."""
    shown = printable(name[: 2 * _LONGEST])
    if len(name) <= _LONGEST and len(shown) <= _LONGEST:
        return shown
    return shown[: _LONGEST - 1] + "…"


def shown(value: object) -> str:
    """``repr``, not long, and of a number with more digits than Python cares to print."""
    try:
        return plain(repr(value))
    except ValueError:
        return "a number of thousands of digits"


def place(path: Path) -> str:
    """The last two parts of a path, enough to tell ``expert-a/model.safetensors`` from another."""
    absolute = path.absolute()
    parts = [part for part in absolute.parts if part != absolute.anchor]
    return plain("/".join(parts[-2:]) or str(absolute))


def listing(names: Collection[str]) -> str:
    """``names`` in backquotes, the first eight of them, and how many more there are."""
    first = [f"`{plain(name)}`" for name in list(names)[:NAMES_SHOWN]]
    more = len(names) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")
