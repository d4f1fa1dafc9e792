"""Opens any path as a table, by its content."""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from ace_gui.engine.evaluating.data.columnar import (
    SPLITS,
    STATE,
    array_table,
    parquet_table,
    saved_table,
)
from ace_gui.engine.evaluating.data.images import folder_table
from ace_gui.engine.evaluating.data.table import Row, Table, refused, require_columns
from ace_gui.engine.evaluating.data.text_files import csv_table, json_table, lines_table
from ace_gui.errors import Cancelled, WorkbenchError, is_out_of_memory

_READERS: Final[Mapping[str, Callable[[Path], Table]]] = {
    ".csv": csv_table,
    ".tsv": csv_table,
    ".json": json_table,
    ".jsonl": json_table,
    ".ndjson": json_table,
    ".parquet": parquet_table,
    ".txt": lines_table,
    ".npz": array_table,
}
_PROGRAM: Final = "This is a program, and programs are not run for data; name a file with the data."
_KNOWN: Final = (
    "csv, json, jsonl, parquet, txt, npz, a folder of pictures by class, or a saved dataset"
)


def open_table(path: Path) -> Table:
    """The table of a file or folder. Nothing in it is executed or downloaded.

    Raises TaskError for any problem in the file, as its rows do. Readers may fail on unexpected
    contents with errors of any type.
    """
    with _refusing(path):
        table = _opened(path)
    twice = [name for name, count in Counter(table.columns).items() if count > 1]
    if twice:
        raise refused(path, f"Two columns are called {twice[0]!r}; give each its own name.")
    _require_text(path, "names of columns", list(table.columns))
    return replace(table, rows=partial(_rows, table))


def _rows(table: Table, wanted: Sequence[str]) -> Iterator[Row]:
    with _refusing(table.path):
        require_columns(table.path, table.columns, wanted)
        for row, values in table.rows(wanted):
            for value in values:
                _require_text(table.path, row, value)
            yield row, values


def _require_text(path: Path, row: str, value: Any) -> None:
    """Raise TaskError for a text that cannot be encoded for files and tokenizers."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            at = f"half of a surrogate pair at character {error.start + 1}"
            raise refused(path, f"The text is not Unicode: it has {at}.", row) from None
    elif isinstance(value, dict | list):
        for each in (*value, *value.values()) if isinstance(value, dict) else value:
            _require_text(path, row, each)


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if isinstance(error, WorkbenchError | Cancelled) or is_out_of_memory(error):
            raise
        reason = f"{type(error).__name__}: {error}"
        raise refused(path, f"The data cannot be read ({reason}); write them again.") from error


def _opened(path: Path) -> Table:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return _folder(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise refused(path, f"The data cannot be read: {reason}.") from None
    if path.suffix == ".py":
        raise refused(path, _PROGRAM)
    if not stat.S_ISREG(mode) or path.suffix.lower() not in _READERS:
        raise refused(path, f"This is no data that can be read: {_KNOWN}.")
    return _READERS[path.suffix.lower()](path)


def _folder(path: Path) -> Table:
    if (path / STATE).is_file() or (path / SPLITS).is_file():
        return saved_table(path)
    if any(each.is_dir() and each.name[0] not in "._" for each in path.iterdir()):
        return folder_table(path)
    if any(path.glob("*.py")):
        raise refused(path, _PROGRAM)
    raise refused(path, f"There are no data in this folder: {_KNOWN}.")
