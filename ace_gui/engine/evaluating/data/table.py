"""A table: the common form of all data files, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ace_gui.errors import TaskError
from ace_gui.formatting import path_text

ROW_BYTES: Final = 4_000_000
"""Largest row of text; an encyclopedia's longest article has two million characters."""

FILE_BYTES: Final = 2_000_000_000
"""Most bytes of one file that are held in memory."""

Row = tuple[str, tuple[Any, ...]]
"""Its location in the file for messages ("row 12"), and its values in the requested order."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """``rows``: a function from columns to the rows with only these, in the file's order.

    ``names``: by column, the names of its numbers. ``files``: all files read. ``rows`` raises
    TaskError if a row cannot be read; ``open_table`` adds the check of the columns.
    """

    path: Path
    columns: tuple[str, ...]
    rows: Callable[[Sequence[str]], Iterator[Row]]
    files: tuple[Path, ...]
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)


def refused(path: Path, sentence: str, row: str = "", details: object = "") -> TaskError:
    """The error with ``sentence`` about a file, or a row in it."""
    at = f"{path_text(path)}, {row}" if row else path_text(path)
    return TaskError(f"{at}: {sentence}", path=path, key=row or None, details=str(details))


def require_columns(path: Path, columns: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise TaskError if a wanted column is missing."""
    for name in wanted:
        if name not in columns:
            known = ", ".join(map(repr, columns[:20]))
            raise refused(path, f"There is no column {name!r}; there are {known}.")
