"""Cache on disk for the results of inspecting a tensor.

An entry is named by a digest of everything its content depends on: current files, tensor, recipe,
versions.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Final

from ace_gui.checkpoints import FileStamp
from ace_gui.engine.array_cache import LIMIT_BYTES, ArrayCache
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.methods.method import Merged
from ace_gui.versions import COMPUTING, code_digest, library_versions

FORMAT: Final = 2
"""Version of the cache; raise it when the format or a computation changes."""


def cache_key(kind: str, row: PlanRow, stamps: tuple[FileStamp, ...], *others: object) -> str:
    """The name of an entry, from its kind, the tensor, the files and other values.

    ``others``: values that are fully described by their ``str``. The row's name and position in the
    files count; its disposition does not.
    """
    files = [(str(stamp.path), stamp.size, stamp.mtime_ns) for stamp in stamps]
    tensor = (row.name, row.tied_to, row.shape, row.transposed, row.part)
    versions = (FORMAT, code_digest(*COMPUTING), *library_versions().values())
    text = json.dumps([kind, *map(str, (tensor, versions, *others)), files])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class InspectionCache(ArrayCache):
    """``latest``: the last merge computed for an inspection and its key; only in memory."""

    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        super().__init__(folder, limit_bytes)
        self.latest: tuple[str, Merged] | None = None
