"""Tables from Parquet, and from folders saved by ``datasets``, which hold Arrow files.

A few kilobytes of Parquet can unpack to any size, so unpacked bytes are counted. The library
``datasets`` would first unpack the whole file into a cache on the disk, and decode or download
pictures without a limit.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ace_gui.engine.evaluating.data.table import FILE_BYTES, Row, Table, refused

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
        splits = sorted(each.parent.name for each in path.glob(f"*/{STATE}"))
        if len(splits) != 1:
            split_names = ", ".join(splits)
            raise refused(path, f"Name the folder of one of the splits in it: {split_names}.")
        path = path / splits[0]
    try:
        state = json.loads((path / STATE).read_text(encoding="utf-8"))
        parts = [path / each["filename"] for each in state["_data_files"]]
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

    def rows(wanted: Sequence[str]) -> Iterator[Row]:
        number = 0
        try:
            for batch in batches(list(dict.fromkeys(wanted))):
                _require_bytes(path, batch.nbytes, f"rows {number + 1} to {number + len(batch)}")
                for values in zip(*(_values(batch.column(name)) for name in wanted), strict=True):
                    number += 1
                    yield f"row {number}", values
        except (pa.ArrowException, OSError, ValueError) as error:
            raise refused(path, damaged, f"row {number + 1}", error) from None

    names = _label_names(schema.metadata)
    return Table(path=path, columns=columns, rows=rows, files=files, names=names)


def _saved_batches(parts: Iterable[Path], wanted: Sequence[str]) -> Iterator[Any]:
    """The Arrow files are mapped into memory; what they say of their lengths is checked."""
    import pyarrow as pa

    for part in parts:
        with pa.memory_map(str(part)) as file:
            for batch in pa.ipc.open_stream(file):
                chosen = batch.select(wanted)
                chosen.validate(full=True)
                for start in range(0, len(chosen), _AT_ONCE):
                    yield chosen.slice(start, _AT_ONCE)


def _parquet_batches(path: Path, schema: Any, wanted: Sequence[str]) -> Iterator[Any]:
    file = _parquet(path, [name for name in wanted if _is_text(schema.field(name).type)])
    _require_small(path, file, wanted)
    yield from file.iter_batches(_AT_ONCE, columns=wanted)


def _is_text(kind: Any) -> bool:
    """Whether a column is text. Other columns, such as pictures, cannot be read as dictionaries."""
    from pyarrow import types

    checks = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return any(check(kind) for check in checks)


def _values(column: Any) -> list[Any]:
    """The values of a column; repeated values are created only once."""
    import pyarrow as pa

    if not isinstance(column, pa.DictionaryArray):
        found: list[Any] = column.to_pylist()
        return found
    indices = column.indices.to_pylist()
    made = {at: None if at is None else column.dictionary[at].as_py() for at in set(indices)}
    return [made[at] for at in indices]


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


def _require_small(path: Path, file: Any, wanted: Sequence[str]) -> None:
    """Check the column sizes stated in the file before anything is unpacked."""
    metadata = file.metadata
    if metadata.num_rows > _MOST_ROWS:
        raise refused(path, "It claims more than a billion rows; choose a part of it.")
    for group in (metadata.row_group(index) for index in range(metadata.num_row_groups)):
        columns = (group.column(index) for index in range(group.num_columns))
        chosen = [
            each
            for each in columns
            if any(f"{each.path_in_schema}.".startswith(f"{name}.") for name in wanted)
        ]
        _require_bytes(path, sum(each.total_uncompressed_size for each in chosen), "")


def _require_bytes(path: Path, size: int, row: str) -> None:
    if size > FILE_BYTES:
        sentence = f"It unpacks to more than {FILE_BYTES / 1e9:g} GB; split it into smaller files."
        raise refused(path, sentence, row)


def _label_names(metadata: Mapping[bytes, bytes] | None) -> Mapping[str, Sequence[str]]:
    """The label names of a column, as stored by the library ``datasets``."""
    try:
        declared_features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
        return {
            column: [str(name) for name in feature["names"]]
            for column, feature in declared_features.items()
            if isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
        }
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


_DAMAGED: Final = "It is damaged, or not a file of NumPy arrays; write it again."
_ERRORS: Final = (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, NotImplementedError)
_HEADERS: Final = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_SUFFIX: Final = ".npy"


def array_table(path: Path) -> Table:
    """The arrays of a file by name."""
    columns = tuple(name.removesuffix(_SUFFIX) for name in _members(path))

    def rows(wanted: Sequence[str]) -> Iterator[Row]:
        arrays = [_array(path, name) for name in wanted]
        if len({len(array) for array in arrays}) > 1:
            row_counts = ", ".join(f"{n!r} {len(a)}" for n, a in zip(wanted, arrays, strict=True))
            raise refused(path, f"The arrays have different numbers of rows: {row_counts}.")
        for number, values in enumerate(zip(*arrays, strict=True), 1):
            yield f"row {number}", tuple(map(_value, values))

    return Table(path=path, columns=columns, rows=rows, files=(path,))


def _value(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _members(path: Path) -> Mapping[str, int]:
    """The arrays' files in the archive, with their sizes in bytes."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {
                i.filename: i.file_size for i in archive.infolist() if i.filename.endswith(_SUFFIX)
            }
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
            found: NDArray[Any] = arrays[name]
            return found
    except _ERRORS as error:
        raise refused(path, _DAMAGED, details=error) from None


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    shape, _, dtype = _HEADERS[npy.read_magic(file)](file)
    return shape, dtype
