"""Tables from text in UTF-8: CSV, JSON, JSON lines, plain lines; one row in memory at a time.

The parsers are Python's own. Pandas, which ``datasets`` uses, reads words such as NA and null as
missing values, and does not name the row of an error.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from ace_gui.engine.evaluating.data.table import ROW_BYTES, Row, Table, refused

TEXT: Final = "text"
"""The only column of plain lines."""

JSON_BYTES: Final = 200_000_000
"""Largest JSON file with a single value; JSON lines may have any size."""

_SEPARATORS: Final = ",;\t"


def csv_table(path: Path) -> Table:
    """The first row names the columns; commas, semicolons or tabs separate them."""
    first = next(_lines(path), "")
    separator = max(_SEPARATORS, key=first.count)
    header = next(_records(path, separator), None)
    if header is None:
        raise refused(path, "The file is empty.")
    columns = tuple(name.strip() for name in header)
    if len(set(columns)) < len(columns) or not all(columns):
        raise refused(path, "Each column needs a name of its own in the first row.", "row 1")

    def rows(wanted: Sequence[str]) -> Iterator[Row]:
        indices, records = [columns.index(name) for name in wanted], _records(path, separator)
        next(records)
        for number, record in enumerate(records, 2):
            row = f"row {number}"
            if not record:
                continue
            if len(record) != len(columns):
                sentence = f"It has {len(record)} cells where the first row has {len(columns)}."
                raise refused(path, sentence, row)
            yield row, tuple(record[at] for at in indices)

    return Table(path=path, columns=columns, rows=rows, files=(path,))


def _records(path: Path, separator: str) -> Iterator[list[str]]:
    csv.field_size_limit(ROW_BYTES)
    reader = csv.reader(_lines(path), delimiter=separator, strict=True)
    number = 0
    try:
        for number, record in enumerate(reader, 1):  # noqa: B007 - for the error
            yield record
    except csv.Error as error:
        sentence = f"It is not valid CSV ({error}); check its quotation marks."
        raise refused(path, sentence, f"row {number + 1}") from None


def lines_table(path: Path) -> Table:
    """Each line that is not blank is a row."""

    def rows(wanted: Sequence[str]) -> Iterator[Row]:
        for number, line in enumerate(_lines(path), 1):
            if line.strip():
                yield f"row {number}", (line.rstrip("\r\n"),) * len(wanted)

    return Table(path=path, columns=(TEXT,), rows=rows, files=(path,))


def json_table(path: Path) -> Table:
    """A list of objects, an object of columns, or one object per line.

    The first row determines the columns; a row that lacks one has None there.
    """
    first = list(islice((line for line in _lines(path) if line.strip()), 2))
    if not first:
        raise refused(path, "The file is empty.")
    lines = _is_object(first[0]) and (len(first) > 1 or path.suffix.lower() != ".json")
    objects = _objects_in_lines if lines else _objects_in_whole
    columns = tuple(next(objects(path), ("", {}))[1])
    if not columns:
        raise refused(path, "There are no rows with named values.")

    def rows(wanted: Sequence[str]) -> Iterator[Row]:
        for row, values in objects(path):
            yield row, tuple(values.get(name) for name in wanted)

    return Table(path=path, columns=columns, rows=rows, files=(path,))


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _objects_in_lines(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for number, line in enumerate(_lines(path), 1):
        if line.strip():
            row = f"row {number}"
            yield row, _object(path, row, _parsed(path, line, row))


def _objects_in_whole(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if path.stat().st_size > JSON_BYTES:
        sentence = "The file is too large for one JSON value; write one object a line instead."
        raise refused(path, sentence)
    found = _parsed(path, "".join(_lines(path, JSON_BYTES)), "")
    if isinstance(found, dict):
        lists = [value for value in found.values() if isinstance(value, list)]
        if len(lists) == 1 and all(isinstance(each, dict) for each in lists[0]):
            found = lists[0]  # {"data": [...]}
        elif lists and len(lists) == len(found) and len({len(each) for each in lists}) == 1:
            found = [dict(zip(found, each, strict=True)) for each in zip(*lists, strict=True)]
        else:
            found = [found]  # one row
    if not isinstance(found, list):
        raise refused(
            path, "This is not a list of objects, nor an object with lists of one length."
        )
    for number, each in enumerate(found, 1):
        yield f"row {number}", _object(path, f"row {number}", each)


def _parsed(path: Path, text: str, row: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise refused(path, f"This is not valid JSON ({error}).", row) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice in one object")
    return found


def _object(path: Path, row: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise refused(path, "This is not an object with named values.", row)
    return value


def _lines(path: Path, most: int = ROW_BYTES) -> Iterator[str]:
    """Raises TaskError for a line that is too long or not UTF-8, and if the file cannot be read."""
    number = 0
    try:
        with path.open("rb") as file:
            while line := file.readline(most + 1):
                number += 1
                if len(line) > most:
                    sentence = f"The line is longer than {most / 1e6:g} MB; no row of data is."
                    raise refused(path, sentence, f"row {number}")
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                yield text
    except UnicodeDecodeError as error:
        sentence = f"The text is not UTF-8 ({error.reason}); save the file as UTF-8."
        raise refused(path, sentence, f"row {number}") from None
    except OSError as error:
        raise refused(path, f"It cannot be read: {error.strerror}.") from None
