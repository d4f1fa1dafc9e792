"""What was computed for a close look at a tensor, kept on disk for the next time.

An entry is named by everything that its content depends on: files as they are now, tensor, recipe,
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
"""To be raised where something is kept in another form, or computed in another way."""


def cache_key(kind: str, row: PlanRow, stamps: tuple[FileStamp, ...], *others: object) -> str:
    """The name of an entry, from what it is, the tensor, the files and what else matters.

    ``others``: values whose ``str`` says all of them. The row's name in the files and its place in
    them count, what becomes of it does not.
    """
    files = [(str(stamp.path), stamp.size, stamp.mtime_ns) for stamp in stamps]
    tensor = (row.name, row.tied_to, row.shape, row.transposed, row.part)
    versions = (FORMAT, code_digest(*COMPUTING), *library_versions().values())
    text = json.dumps([kind, *map(str, (tensor, versions, *others)), files])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class InspectionCache(ArrayCache):
    """``latest``: the last merge that was computed for a look and its key; in memory only."""

    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        super().__init__(folder, limit_bytes)
        self.latest: tuple[str, Merged] | None = None
