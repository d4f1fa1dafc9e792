"""The record of a kept conversion: digests of its sources and of its files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from ace_gui.checkpoints.input_files import FileStamp, changed, open_regular, read_at, read_json
from ace_gui.errors import CheckpointError
from ace_gui.output_files import MARK

RECORD: Final = ".conversion.json"

_LIMIT: Final = 10_000_000
_BLOCK: Final = 1 << 22


def stamps_of(files: Sequence[Path]) -> tuple[FileStamp, ...]:
    """The files as they are now. Raises CheckpointError."""
    found = []
    for file in files:
        with open_regular(file) as (_, stamp):
            found.append(stamp)
    return tuple(found)


def write_record(folder: Path, sources: Sequence[FileStamp]) -> None:
    """Note the content of what was converted and of every file in ``folder``.

    ``sources`` as they were before. Raises CheckpointError if they changed meanwhile, OSError.
    """
    made = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MARK)
    record = {
        "sources": {str(stamp.path): _content(*_identity(stamp)) for stamp in sources},
        "made": {
            path.relative_to(folder).as_posix(): _content(*_identity(stamp))
            for path, stamp in zip(made, stamps_of(made), strict=True)
        },
    }
    for before, after in zip(sources, stamps_of([s.path for s in sources]), strict=True):
        if _identity(before) != _identity(after):
            raise changed(before.path)
    (folder / RECORD).write_text(json.dumps(record, indent=1), encoding="utf-8")


def is_sound(folder: Path, sources: Sequence[Path]) -> bool:
    """Whether the conversion in ``folder`` is of these files as they are, and is as it was made.

    Reads all of both, once for each process and state of a file.
    """
    try:
        record = read_json(folder / RECORD, limit=_LIMIT)
        made = record["made"]
        if not isinstance(made, dict):
            return False
        return _holds(record["sources"], {str(path): path for path in sources}) and _holds(
            made, {name: folder / name for name in made}
        )
    except (CheckpointError, KeyError):
        return False


def _holds(recorded: object, files: dict[str, Path]) -> bool:
    stamps = stamps_of(list(files.values()))
    found = {name: _content(*_identity(s)) for name, s in zip(files, stamps, strict=True)}
    return recorded == found


def _identity(stamp: FileStamp) -> tuple[FileStamp, int]:
    return stamp, stamp.ctime_ns


@lru_cache(maxsize=1024)
def _content(stamp: FileStamp, _ctime_ns: int) -> str:
    """The SHA-256 of a file; its stamp and time of change are there for the cache."""
    digest, buffer = hashlib.sha256(), memoryview(bytearray(_BLOCK))
    with open_regular(stamp.path) as (descriptor, found):
        if found != stamp:
            raise changed(stamp.path)
        for start in range(0, stamp.size, _BLOCK):
            block = buffer[: min(_BLOCK, stamp.size - start)]
            if read_at(descriptor, block, start) < len(block):
                raise changed(stamp.path)
            digest.update(block)
    return digest.hexdigest()
