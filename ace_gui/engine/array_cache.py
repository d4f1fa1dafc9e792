"""Arrays that were computed, kept on disk for the next time: plain ones, without pickles."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]

LIMIT_BYTES: Final = 128_000_000
"""About 1500 layers of eight experts in 768 dimensions."""

ROUND: Final = 50
"""Entries written between two looks at the size of the folder."""

_log = logging.getLogger(__name__)
_UNREADABLE: Final = (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile)


class ArrayCache:
    """Entries in one folder, each an ``.npz`` of named arrays.

    An entry is named by everything that its content depends on, so none is ever out of date; those
    not used for longest are removed where there are too many. One that cannot be read counts as
    absent. A folder that cannot be written costs time, not results, and is mentioned in the log.
    """

    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self._folder = folder
        self._limit = limit_bytes
        self._written = 0

    def get(self, key: str) -> Arrays | None:
        """The arrays of an entry, None where there is none that can be read."""
        path = self._path(key)
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as entry:
                arrays = {name: entry[name] for name in entry.files}
            os.utime(path)  # used now
        except FileNotFoundError:
            return None
        except _UNREADABLE as error:
            _log.info("%s cannot be read and is computed again: %s", path, error)
            return None
        return arrays

    def put(self, key: str, arrays: Arrays) -> None:
        """Keep the arrays; the entry appears whole or not at all."""
        path, written = self._path(key), None
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as file:
                written = Path(file.name)
                np.savez(file, allow_pickle=False, **arrays)
            written.replace(path)
            if self._written % ROUND == 0:
                self._remove_oldest()
            self._written += 1
        except OSError as error:
            _log.info("%s cannot be kept: %s", path, error)
            if written is not None:
                with contextlib.suppress(OSError):
                    written.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.npz"

    def _remove_oldest(self) -> None:
        entries = [(item, item.stat()) for item in self._folder.iterdir()]
        excess = sum(status.st_size for _, status in entries) - self._limit
        for item, status in sorted(entries, key=lambda entry: entry[1].st_mtime_ns):
            if excess <= 0:
                break
            item.unlink(missing_ok=True)
            excess -= status.st_size


def text_array(text: str) -> NDArray[np.uint8]:
    """Text as an array, to be kept in an entry."""
    return np.frombuffer(text.encode(), np.uint8)


def text_of(array: NDArray[np.uint8]) -> str:
    """The text of an array that ``text_array`` made."""
    return array.tobytes().decode()
