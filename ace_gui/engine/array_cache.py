"""Cache of computed arrays on disk: plain arrays, without pickles."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ace_gui.checkpoints.input_files import open_regular, refusal
from ace_gui.engine.kept_files import is_there, warn_recomputed
from ace_gui.output_files import UNFINISHED, replacing

Arrays = Mapping[str, NDArray[Any]]

LIMIT_BYTES: Final = 128_000_000
"""Enough for about 1500 layers of eight experts in 768 dimensions."""

ROUND: Final = 50
"""Entries written between two measurements of the folder's size."""

_log = logging.getLogger(__name__)
_DIGEST: Final = "sha256"


class ArrayCache:
    """Entries in one folder, each an ``.npz`` of named arrays.

    An entry is named by a digest of everything its content depends on, so none is ever out of date.
    The least recently used entries are removed if there are too many. A damaged entry counts as
    missing. If the folder cannot be written, results are computed each time, and the log mentions
    it.
    """

    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self._folder = folder
        self._limit = limit_bytes
        self._written = 0

    def get(self, key: str) -> Arrays | None:
        """The arrays of an entry, None if it is missing or damaged."""
        path = self._path(key)
        if not is_there(path):
            return None
        try:
            with (
                open_regular(path) as (descriptor, _),
                open(descriptor, "rb", closefd=False) as file,
                np.load(file, allow_pickle=False) as entry,
            ):
                arrays = {name: entry[name] for name in entry.files}
            if text_of(arrays.pop(_DIGEST)) != _digest(key, arrays):
                raise refusal(path, "Does not match its checksum.")
        except Exception as error:  # numpy and zipfile raise many types
            warn_recomputed(path, error)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # used now
        return arrays

    def put(self, key: str, arrays: Arrays) -> None:
        """Store the arrays, completely or not at all."""
        path = self._path(key)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with replacing(path) as fresh, fresh.open("xb") as file:
                digest = {_DIGEST: text_array(_digest(key, arrays))}
                np.savez(file, allow_pickle=False, **arrays, **digest)
            if self._written % ROUND == 0:
                self._remove_oldest()
            self._written += 1
        except OSError as error:
            _log.info("%s cannot be kept: %s", path, error)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.npz"

    def _remove_oldest(self) -> None:
        ours = [*self._folder.glob("*.npz"), *self._folder.glob(f".*{UNFINISHED}")]
        entries = [(item, item.stat()) for item in ours if item.is_file()]
        excess = sum(status.st_size for _, status in entries) - self._limit
        for item, status in sorted(entries, key=lambda entry: entry[1].st_mtime_ns):
            if excess <= 0:
                break
            item.unlink(missing_ok=True)
            excess -= status.st_size


def text_array(text: str) -> NDArray[np.uint8]:
    """Text as an array, to be stored in an entry."""
    return np.frombuffer(text.encode(), np.uint8)


def text_of(array: NDArray[np.uint8]) -> str:
    """The text of an array made by ``text_array``."""
    return array.tobytes().decode()


def _digest(key: str, arrays: Arrays) -> str:
    """SHA-256 of an entry: its name, and the names, formats, shapes and values of its arrays."""
    found = hashlib.sha256(key.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"\0{name}\0{array.dtype}\0{array.shape}\0".encode())
        found.update(array.tobytes())
    return found.hexdigest()
