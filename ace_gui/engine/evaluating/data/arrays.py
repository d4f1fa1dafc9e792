"""Tables from ``.npz``: each array is a column; the columns used must have one length.

Pickles are never read, and nothing is unpacked before its size is known.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ace_gui.engine.evaluating.data.table import FILE_BYTES, Row, Table, columns_at, refused

_DAMAGED: Final = "It is damaged, or not a file of NumPy arrays; write it again."
_ERRORS: Final = (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, NotImplementedError)
_HEADERS: Final = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_SUFFIX: Final = ".npy"


def array_table(path: Path) -> Table:
    """The arrays of a file by name."""
    columns = tuple(name.removesuffix(_SUFFIX) for name in _members(path))

    def rows(wanted: Sequence[str]) -> Iterator[Row]:
        columns_at(path, columns, wanted)
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
