"""From a path to a table, by what is there."""

from __future__ import annotations

import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ace_gui.engine.evaluating.data.arrays import array_table
from ace_gui.engine.evaluating.data.images import folder_table
from ace_gui.engine.evaluating.data.parquet import parquet_table
from ace_gui.engine.evaluating.data.saved_dataset import SPLITS, STATE, saved_table
from ace_gui.engine.evaluating.data.table import Table, refused
from ace_gui.engine.evaluating.data.text_files import csv_table, json_table, lines_table

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
    """The table of a file or folder. Nothing in it is run, and nothing is fetched.

    Raises TaskError.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return _folder(path)
    except (OSError, ValueError) as error:
        told = getattr(error, "strerror", None) or error
        raise refused(path, f"The data cannot be read: {told}.") from None
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
