"""Tables from Parquet. A few kilobytes can unpack to any size, so unpacked bytes are counted.

The library ``datasets`` would first unpack the whole file into a cache on the disk.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ace_gui.engine.evaluating.data.table import (
    FILE_BYTES,
    Row,
    Table,
    columns_at,
    refused,
)

_AT_ONCE: Final = 64
"""Rows per batch, so that a batch of images of several MB each stays small."""

_MOST_ROWS: Final = 1_000_000_000

_DAMAGED: Final = "It is damaged, or not Parquet; write it again."


def parquet_table(path: Path) -> Table:
    """The columns of a Parquet file, and the label names stored in it by ``datasets``."""
    import pyarrow as pa

    file = _opened(path)
    schema = file.schema_arrow
    columns = tuple(schema.names)

    def rows(wanted: Sequence[str]) -> Iterator[Row]:
        columns_at(path, columns, wanted)
        number = 0
        try:
            again = _opened(path, [name for name in wanted if _is_text(schema.field(name).type)])
            _require_small(path, again, wanted)
            for batch in again.iter_batches(_AT_ONCE, columns=list(dict.fromkeys(wanted))):
                _require_bytes(path, batch.nbytes, f"rows {number + 1} to {number + len(batch)}")
                for values in zip(*(_values(batch.column(name)) for name in wanted), strict=True):
                    number += 1
                    yield f"row {number}", values
        except (pa.ArrowException, OSError, ValueError) as error:
            raise refused(path, _DAMAGED, f"row {number + 1}", error) from None

    return Table(
        path=path, columns=columns, rows=rows, files=(path,), names=_names(schema.metadata)
    )


def _is_text(kind: Any) -> bool:
    """Whether a column is text. Other columns, such as pictures, cannot be read as dictionaries."""
    import pyarrow as pa

    return any(
        check(kind)
        for check in (
            *(pa.types.is_string, pa.types.is_large_string),
            *(pa.types.is_binary, pa.types.is_large_binary),
        )
    )


def _values(column: Any) -> list[Any]:
    """The values of a column; repeated values are created only once."""
    import pyarrow as pa

    if not isinstance(column, pa.DictionaryArray):
        found: list[Any] = column.to_pylist()
        return found
    indices = column.indices.to_pylist()
    made = {at: None if at is None else column.dictionary[at].as_py() for at in set(indices)}
    return [made[at] for at in indices]


def _opened(path: Path, texts: Sequence[str] = ()) -> Any:
    """Open the file with text columns as dictionaries, which store a repeated text once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as file:
            if file.read(4) != b"PAR1":
                raise refused(path, _DAMAGED)
        return pq.ParquetFile(path, read_dictionary=list(texts), memory_map=False)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise refused(path, _DAMAGED, details=error) from None


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


def _names(metadata: Mapping[bytes, bytes] | None) -> Mapping[str, Sequence[str]]:
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
