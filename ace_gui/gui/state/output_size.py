"""What an export will write, before it is written."""

from __future__ import annotations

import math
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ace_gui.engine.contract.plan import Disposition, Plan
from ace_gui.gui.text import human_bytes

_BYTES: Final = {"float32": 4, "bfloat16": 2, "float16": 2, "float64": 8}
_TAG_BYTES: Final = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2}


@dataclass(frozen=True)
class OutputSize:
    """Bytes of the tensors, and how many files hold them."""

    bytes: int
    shards: int


def output_size(plan: Plan, dtype: str | None, shard_bytes: int) -> OutputSize:
    """Size of the exported model's weights; ``dtype`` None: as the base stores each tensor."""
    total = 0
    for row in plan.rows:
        if not row.in_base:
            continue
        stored = _TAG_BYTES.get(row.dtype, 1)
        floating = "F" in row.dtype and row.disposition is not Disposition.COPIED
        each = _BYTES[dtype] if dtype is not None and floating else stored
        total += math.prod(row.shape) * each
    return OutputSize(total, max(1, math.ceil(total / shard_bytes)))


@dataclass(frozen=True)
class FolderVerdict:
    """Whether a folder can be exported to, and the sentence that says so."""

    good: bool
    sentence: str


def check_folder(text: str, needed: int = 0) -> FolderVerdict:
    """The folder must not exist, or be empty, and there must be leave and room to write.

    ``needed``: bytes of what will be written.
    """
    if not text.strip():
        return FolderVerdict(False, "Choose a folder for the merged model.")
    path = Path(text.strip()).expanduser()
    if not path.is_absolute():
        return FolderVerdict(False, "Give the full path of a folder.")
    try:
        return _check(path, needed)
    except OSError as error:
        return FolderVerdict(False, f"This folder cannot be used: {error.strerror}.")


def _check(path: Path, needed: int) -> FolderVerdict:
    if path.is_dir():
        if any(path.iterdir()):
            return FolderVerdict(False, "This folder is not empty. Choose another, or a new name.")
    elif path.exists() or path.is_symlink():
        return FolderVerdict(False, "This is a file. Choose a folder, or a new name.")
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    if not existing.is_dir():
        return FolderVerdict(False, f"{existing} is a file. Choose another place.")
    if not os.access(existing, os.W_OK):
        return FolderVerdict(False, f"There is no permission to write in {existing}.")
    free = shutil.disk_usage(existing).free
    if needed > free:
        sentence = f"{human_bytes(needed)} are needed; {human_bytes(free)} are free on that disk."
        return FolderVerdict(False, f"{sentence} Choose another disk, or free some space.")
    if path.exists():
        return FolderVerdict(True, "The folder is empty and will be filled.")
    return FolderVerdict(True, "The folder will be made.")
