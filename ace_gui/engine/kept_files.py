"""Tensors, JSON and arrays that this program keeps for later runs, each file with its SHA-256.

They are read like untrusted files. A file that does not match its checksum raises CheckpointError;
the caller computes it again and reports this with ``warn_recomputed``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from ace_gui.checkpoints.header import read_header
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.input_files import JSON_LIMIT, FileStamp, read_json, refusal
from ace_gui.checkpoints.reader import TensorReader
from ace_gui.engine.streaming import tensors_digest
from ace_gui.errors import CheckpointError, WorkbenchError
from ace_gui.formatting import path_text
from ace_gui.output_files import UNFINISHED, replacing, writing

_DIGEST: Final = "sha256"
_KEPT: Final = "kept"
_NUMBER: Final = re.compile(r"os error (\d+)")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class KeptTensors:
    """A file of tensors, verified by its checksum. ``about``: the text stored with them."""

    checkpoint: Checkpoint
    about: str
    digest: str

    def read(self, name: str) -> Tensor:
        """One tensor. Raises the errors of ``TensorReader.read``."""
        return TensorReader(self.checkpoint).read(name)


def keep_tensors(path: Path, tensors: Mapping[str, Tensor], about: str = "") -> str:
    """Write a safetensors file completely or not at all, and return its checksum.

    Raises OutputError and ResourceError.
    """
    content = {name: tensors[name].detach().cpu().contiguous() for name in sorted(tensors)}
    digest = _digest_of(about, tensors_digest(content.items()))
    with writing(path.parent), replacing(path) as fresh:
        try:
            save_file(content, fresh, {_KEPT: json.dumps([digest, about])})  # several vary in order
        except SafetensorError as error:  # a full disk, too
            number = _NUMBER.search(str(error))
            raise OSError(int(number[1]) if number else 0, str(error), str(fresh)) from None
    return digest


def open_tensors(path: Path) -> KeptTensors:
    """A file of ``keep_tensors``, read completely to verify it. Raises CheckpointError."""
    checkpoint, metadata = opened_file(path)
    stamp = checkpoint.files[0]
    try:
        stored, about = json.loads(metadata.get(_KEPT, ""))
        digest = _digest_of(str(about), _content(stamp, stamp.ctime_ns))
    except (ValueError, TypeError):
        raise _mismatch(path) from None
    if digest != stored:
        raise _mismatch(path)
    return KeptTensors(checkpoint=checkpoint, about=about, digest=digest)


def keep_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object completely or not at all. Raises OutputError and ResourceError."""
    text = json.dumps({**content, _DIGEST: _json_digest(content)}, indent=1)
    with writing(path.parent), replacing(path) as fresh:
        fresh.write_text(text, encoding="utf-8")


def open_json(path: Path) -> dict[str, Any]:
    """An object of ``keep_json``. Raises CheckpointError."""
    content = read_json(path, limit=JSON_LIMIT)
    if content.pop(_DIGEST, None) != _json_digest(content):
        raise _mismatch(path)
    return content


def is_there(path: Path) -> bool:
    """Whether the path exists, even if it is unreadable; False if the folder is not accessible."""
    return os.path.exists(path)  # noqa: PTH110 - Path.exists raises without permission


def warn_recomputed(path: Path, error: Exception) -> None:
    """Warn that a kept file cannot be used and is computed again."""
    reason = "unknown content"
    if isinstance(error, WorkbenchError):
        stored, _, _ = error.sentence.partition(". ")  # without the advice on downloads
        reason = stored.removeprefix(f"{path_text(path)}: ").removesuffix(".")
    _log.warning("%s cannot be used and is computed again: %s.", path_text(path), reason)


def opened_file(path: Path) -> tuple[Checkpoint, Mapping[str, str]]:
    """A safetensors file, not yet verified, and its metadata. Raises CheckpointError."""
    header = read_header(path)
    tensors = {info.name: info for info in header.tensors}
    files = (header.stamp,)
    return Checkpoint(path=path, folder=None, tensors=tensors, files=files), header.metadata


@lru_cache(maxsize=1 << 16)
def _content(stamp: FileStamp, _ctime_ns: int) -> str:
    """The digest of a file's tensors; its stamp and modification time are part of the cache key."""
    checkpoint, _ = opened_file(stamp.path)
    with TensorReader(checkpoint) as reader:
        try:
            return tensors_digest((name, reader.read(name)) for name in sorted(checkpoint.tensors))
        except KeyError:  # a number format that is never written here
            raise _mismatch(stamp.path) from None


def _digest_of(about: str, content: str) -> str:
    return hashlib.sha256(f"{about}\0{content}".encode()).hexdigest()


def _json_digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _mismatch(path: Path) -> CheckpointError:
    return refusal(path, "Does not match its checksum.")


Arrays = Mapping[str, NDArray[Any]]

LIMIT_BYTES: Final = 128_000_000
"""Enough for about 1500 layers of eight experts in 768 dimensions."""

ROUND: Final = 50
"""Entries written between two measurements of the folder's size."""


class ArrayCache:
    """Entries in one folder, each a file of ``keep_tensors`` with named arrays.

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
            stored = open_tensors(path)
            if stored.about != key:
                raise refusal(path, "Is another entry.")
            arrays = {name: stored.read(name).numpy() for name in stored.checkpoint.tensors}
        except WorkbenchError as error:
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
            keep_tensors(path, {n: torch.from_numpy(np.array(a)) for n, a in arrays.items()}, key)
            if self._written % ROUND == 0:
                self._remove_oldest()
            self._written += 1
        except (OSError, WorkbenchError) as error:
            _log.info("%s cannot be kept: %s", path, error)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.safetensors"

    def _remove_oldest(self) -> None:
        ours = [*self._folder.glob("*.safetensors"), *self._folder.glob(f".*{UNFINISHED}")]
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
