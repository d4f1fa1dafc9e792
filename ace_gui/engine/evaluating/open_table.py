"""Opens any path as a table, by its content; one row, or a batch of rows, is in memory at a time.

Text is UTF-8, and its parsers are Python's own. Pandas, which ``datasets`` uses, reads words such
as NA and null as missing values, and does not name the row of an error.

A few kilobytes of Parquet can unpack to any size, so unpacked bytes are counted. The library
``datasets`` would first unpack the whole file into a cache on the disk, and decode or download
pictures without a limit.
"""

from __future__ import annotations

import csv
import json
import stat
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from math import prod
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ace_gui.engine.evaluating.task_data import (
    FILE_BYTES,
    ROW_BYTES,
    Row,
    Table,
    folder_table,
    refused,
    require_columns,
)
from ace_gui.errors import Cancelled, WorkbenchError, is_out_of_memory
from ace_gui.recipe.task_kinds import TEXT

JSON_BYTES: Final = 200_000_000
"""Largest JSON file with a single value; JSON lines may have any size."""

_SEPARATORS: Final = ",;\t"


def csv_table(path: Path) -> Table:
    """The first row names the columns; commas, semicolons or tabs separate them."""
    first = next(_lines(path), "")
    separator = max(_SEPARATORS, key=first.count)
    return _separated(path, delimiter=separator)


def tsv_table(path: Path) -> Table:
    """The first row names the columns; tabs separate them, and quotation marks are ordinary."""
    return _separated(path, delimiter="\t", quoting=csv.QUOTE_NONE)


def _separated(path: Path, **form: Any) -> Table:
    """``form``: arguments of ``csv.reader``."""
    header = next(_records(path, **form), None)
    if header is None:
        raise refused(path, "The file is empty.")
    columns = tuple(name.strip() for name in header)
    if len(set(columns)) < len(columns) or not all(columns):
        raise refused(path, "Each column needs a name of its own in the first row.", "row 1")

    def rows(names: Sequence[str]) -> Iterator[Row]:
        indices = [columns.index(name) for name in names]
        records = _records(path, **form)
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


def _records(path: Path, **form: Any) -> Iterator[list[str]]:
    csv.field_size_limit(ROW_BYTES)
    reader = csv.reader(_lines(path), strict=True, **form)
    number = 0
    try:
        for number, record in enumerate(reader, 1):  # noqa: B007 - for the error
            yield record
    except csv.Error as error:
        sentence = f"It is not valid CSV ({error}); check its quotation marks."
        raise refused(path, sentence, f"row {number + 1}") from None


def lines_table(path: Path) -> Table:
    """Each line that is not blank is a row."""

    def rows(names: Sequence[str]) -> Iterator[Row]:
        for number, line in enumerate(_lines(path), 1):
            if line.strip():
                yield f"row {number}", (line.rstrip("\r\n"),) * len(names)

    return Table(path=path, columns=(TEXT,), rows=rows, files=(path,))


def json_table(path: Path) -> Table:
    """A list of objects, an object of columns, or one object per line.

    The first row determines the columns; a row that lacks one has None there.
    """
    first = list(islice((line for line in _lines(path) if line.strip()), 2))
    if not first:
        raise refused(path, "The file is empty.")
    lines = _is_object(first[0]) and (len(first) > 1 or path.suffix.lower() != ".json")
    if lines:
        objects = _objects_in_lines
    else:
        objects = _objects_in_whole
    columns = tuple(next(objects(path), ("", {}))[1])
    if not columns:
        raise refused(path, "There are no rows with named values.")

    def rows(names: Sequence[str]) -> Iterator[Row]:
        for row, values in objects(path):
            yield row, tuple(values.get(name) for name in names)

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
    content = _parsed(path, "".join(_lines(path, JSON_BYTES)), "")
    if isinstance(content, dict):
        lists = [value for value in content.values() if isinstance(value, list)]
        if len(lists) == 1 and all(isinstance(column, dict) for column in lists[0]):
            content = lists[0]  # {"data": [...]}
        elif lists and len(lists) == len(content) and len({len(values) for values in lists}) == 1:
            columns = content
            content = []
            for values in zip(*lists, strict=True):
                content.append(dict(zip(columns, values, strict=True)))
        else:
            content = [content]  # one row
    if not isinstance(content, list):
        raise refused(
            path, "This is not a list of objects, nor an object with lists of one length."
        )
    for number, item in enumerate(content, 1):
        yield f"row {number}", _object(path, f"row {number}", item)


def _parsed(path: Path, text: str, row: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise refused(path, f"This is not valid JSON ({error}).", row) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a name occurs twice in one object")
    return members


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


STATE: Final = "state.json"
SPLITS: Final = "dataset_dict.json"

_AT_ONCE: Final = 64
"""Rows per batch, so that a batch of images of several MB each stays small."""

_MOST_ROWS: Final = 1_000_000_000
_NOT_PARQUET: Final = "It is damaged, or not Parquet; write it again."
_NOT_SAVED: Final = "This saved dataset cannot be read; save it again."


def parquet_table(path: Path) -> Table:
    """The columns of a Parquet file."""
    schema = _parquet(path).schema_arrow
    return _table(path, schema, partial(_parquet_batches, path, schema), (path,), _NOT_PARQUET)


def saved_table(path: Path) -> Table:
    """A saved dataset. If it has several splits, the path must name one of them."""
    import pyarrow as pa

    if (path / SPLITS).is_file():
        splits = sorted(saved_file.parent.name for saved_file in path.glob(f"*/{STATE}"))
        if len(splits) != 1:
            split_names = ", ".join(splits)
            raise refused(path, f"Name the folder of one of the splits in it: {split_names}.")
        path = path / splits[0]
    try:
        state = json.loads((path / STATE).read_text(encoding="utf-8"))
        parts = [path / entry["filename"] for entry in state["_data_files"]]
        for part in parts:
            if not part.resolve().is_relative_to(path.resolve()):
                sentence = f"The dataset names the file {part.name!r} outside of its folder"
                raise refused(path, f"{sentence}: refused.")
        with pa.memory_map(str(parts[0])) as file:
            schema = pa.ipc.open_stream(file).schema
    except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
        raise refused(path, _NOT_SAVED, details=error) from None
    files = tuple(sorted({*parts, *(file for file in path.iterdir() if file.is_file())}))
    return _table(path, schema, partial(_saved_batches, parts), files, _NOT_SAVED)


def _table(path: Path, schema: Any, batches: Any, files: tuple[Path, ...], damaged: str) -> Table:
    """``batches``: a function from columns to their batches of at most ``_AT_ONCE`` rows."""
    import pyarrow as pa

    columns = tuple(schema.names)

    def rows(names: Sequence[str]) -> Iterator[Row]:
        number = 0
        try:
            for batch in batches(list(dict.fromkeys(names))):
                _require_bytes(path, batch.nbytes, f"rows {number + 1} to {number + len(batch)}")
                for values in zip(*(_values(batch.column(name)) for name in names), strict=True):
                    number += 1
                    yield f"row {number}", values
        except (pa.ArrowException, OSError, ValueError) as error:
            raise refused(path, damaged, f"row {number + 1}", error) from None

    names = _label_names(schema.metadata)
    return Table(path=path, columns=columns, rows=rows, files=files, names=names)


def _saved_batches(parts: Iterable[Path], columns: Sequence[str]) -> Iterator[Any]:
    """The Arrow files are mapped into memory; the lengths that they state are checked."""
    import pyarrow as pa

    for part in parts:
        with pa.memory_map(str(part)) as file:
            for batch in pa.ipc.open_stream(file):
                chosen = batch.select(columns)
                chosen.validate(full=True)
                for start in range(0, len(chosen), _AT_ONCE):
                    yield chosen.slice(start, _AT_ONCE)


def _parquet_batches(path: Path, schema: Any, columns: Sequence[str]) -> Iterator[Any]:
    file = _parquet(path, [name for name in columns if _is_text(schema.field(name).type)])
    _require_small(path, file, columns)
    yield from file.iter_batches(_AT_ONCE, columns=columns)


def _is_text(kind: Any) -> bool:
    """Whether a column is text. Other columns, such as pictures, cannot be read as dictionaries."""
    from pyarrow import types

    checks = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return any(check(kind) for check in checks)


def _values(column: Any) -> list[Any]:
    """The values of a column; repeated values are created only once."""
    import pyarrow as pa

    if not isinstance(column, pa.DictionaryArray):
        values: list[Any] = column.to_pylist()
        return values
    indices = column.indices.to_pylist()
    by_index = {at: None if at is None else column.dictionary[at].as_py() for at in set(indices)}
    return [by_index[at] for at in indices]


def _parquet(path: Path, texts: Sequence[str] = ()) -> Any:
    """Open the file with text columns as dictionaries, which store a repeated text once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as file:
            if file.read(4) != b"PAR1":
                raise refused(path, _NOT_PARQUET)
        return pq.ParquetFile(path, read_dictionary=list(texts), memory_map=False)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise refused(path, _NOT_PARQUET, details=error) from None


def _require_small(path: Path, file: Any, required: Sequence[str]) -> None:
    """Check the column sizes stated in the file before anything is unpacked."""
    metadata = file.metadata
    if metadata.num_rows > _MOST_ROWS:
        raise refused(path, "It claims more than a billion rows; choose a part of it.")
    starts = tuple(f"{name}." for name in required)
    for group_index in range(metadata.num_row_groups):
        group = metadata.row_group(group_index)
        size = 0
        for index in range(group.num_columns):
            column = group.column(index)
            if f"{column.path_in_schema}.".startswith(starts):
                size += column.total_uncompressed_size
        _require_bytes(path, size, "")


def _require_bytes(path: Path, size: int, row: str) -> None:
    if size > FILE_BYTES:
        sentence = f"It unpacks to more than {FILE_BYTES / 1e9:g} GB; split it into smaller files."
        raise refused(path, sentence, row)


def _label_names(metadata: Mapping[bytes, bytes] | None) -> Mapping[str, Sequence[str]]:
    """The label names of a column, as stored by the library ``datasets``."""
    try:
        declared_features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
        names = {}
        for column, feature in declared_features.items():
            if isinstance(feature, dict) and feature.get("_type") == "ClassLabel":
                names[column] = list(map(str, feature["names"]))
        return names
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


_DAMAGED: Final = "It is damaged, or not a file of NumPy arrays; write it again."
_ERRORS: Final = (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, NotImplementedError)
_HEADERS: Final = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_SUFFIX: Final = ".npy"


def array_table(path: Path) -> Table:
    """The arrays of a file by name."""
    columns = tuple(name.removesuffix(_SUFFIX) for name in _members(path))

    def rows(names: Sequence[str]) -> Iterator[Row]:
        arrays = [_array(path, name) for name in names]
        if len({len(array) for array in arrays}) > 1:
            row_counts = ", ".join(f"{n!r} {len(a)}" for n, a in zip(names, arrays, strict=True))
            raise refused(path, f"The arrays have different numbers of rows: {row_counts}.")
        for number, values in enumerate(zip(*arrays, strict=True), 1):
            yield f"row {number}", tuple(map(_value, values))

    return Table(path=path, columns=columns, rows=rows, files=(path,))


def _value(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return value


def _members(path: Path) -> Mapping[str, int]:
    """The arrays' files in the archive, with their sizes in bytes."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if info.filename.endswith(_SUFFIX)]
            return {info.filename: info.file_size for info in members}
    except _ERRORS as error:
        raise refused(path, _DAMAGED, details=error) from None


def _array(path: Path, name: str) -> NDArray[Any]:
    """One array, whose header must agree with the size of its file."""
    size = _members(path)[name + _SUFFIX]
    try:
        with zipfile.ZipFile(path) as archive, archive.open(name + _SUFFIX) as file:
            shape, dtype = _header(file)
            if dtype.hasobject:
                sentence = f"The array {name!r} holds Python objects, which could run code; write"
                raise refused(path, f"{sentence} it as numbers or text.")
            bytes_needed = prod(shape) * dtype.itemsize
            if max(size, bytes_needed) > FILE_BYTES:
                sentence = f"The array {name!r} unpacks to more than {FILE_BYTES / 1e9:g} GB."
                raise refused(path, sentence)
            if not shape or bytes_needed > size:
                raise refused(
                    path, f"The array {name!r} has no rows, or fewer than its header claims."
                )
        with np.load(path, allow_pickle=False) as arrays:
            array: NDArray[Any] = arrays[name]
            return array
    except _ERRORS as error:
        raise refused(path, _DAMAGED, details=error) from None


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    shape, _, dtype = _HEADERS[npy.read_magic(file)](file)
    return shape, dtype


_READERS: Final[Mapping[str, Callable[[Path], Table]]] = {
    ".csv": csv_table,
    ".tsv": tsv_table,
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
    repeated = [name for name, count in Counter(table.columns).items() if count > 1]
    if repeated:
        raise refused(path, f"Two columns are called {repeated[0]!r}; give each its own name.")
    _require_text(path, "names of columns", list(table.columns))
    return replace(table, rows=partial(_rows, table))


def _rows(table: Table, columns: Sequence[str]) -> Iterator[Row]:
    with _refusing(table.path):
        require_columns(table.path, table.columns, columns)
        for row, values in table.rows(columns):
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
        for part in (*value, *value.values()) if isinstance(value, dict) else value:
            _require_text(path, row, part)


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
    if any(entry.is_dir() and entry.name[0] not in "._" for entry in path.iterdir()):
        return folder_table(path)
    if any(path.glob("*.py")):
        raise refused(path, _PROGRAM)
    raise refused(path, f"There are no data in this folder: {_KNOWN}.")
