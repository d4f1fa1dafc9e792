"""The size of an export before it is written."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ace_gui.engine.contract.plan import Plan, bytes_in_output
from ace_gui.errors import WorkbenchError
from ace_gui.formatting import human_bytes
from ace_gui.output_files import check_output_folder


@dataclass(frozen=True)
class OutputSize:
    """The bytes of the tensors and the number of files."""

    bytes: int
    shards: int


def output_size(plan: Plan, dtype: str | None, shard_bytes: int) -> OutputSize:
    """The size of exported weights. ``dtype`` None: each tensor keeps the dtype of the base."""
    total = bytes_in_output(plan.rows, dtype)
    return OutputSize(total, max(1, math.ceil(total / shard_bytes)))


@dataclass(frozen=True)
class FolderVerdict:
    """Whether an export can go into a folder, with a sentence for the user."""

    good: bool
    sentence: str


def check_folder(text: str, needed: int = 0, folders: Sequence[Path] = ()) -> FolderVerdict:
    """Check that the engine would accept the folder, and that there is enough space.

    ``needed``: bytes to be written. ``folders``: the folders of the merged models.
    """
    if not text.strip():
        return FolderVerdict(False, "Choose a folder for the merged model.")
    path = Path(text.strip()).expanduser()
    if not path.is_absolute():
        return FolderVerdict(False, "Give the full path of a folder.")
    try:
        check_output_folder(path, folders)
    except WorkbenchError as error:
        return FolderVerdict(False, error.sentence)
    return _room(path, needed)


def _room(path: Path, needed: int) -> FolderVerdict:
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    try:
        free = shutil.disk_usage(existing).free
    except OSError as error:
        return FolderVerdict(False, f"This folder cannot be used: {error.strerror}.")
    if needed > free:
        sentence = f"{human_bytes(needed)} are needed; {human_bytes(free)} are free on that disk."
        return FolderVerdict(False, f"{sentence} {'Choose another disk, or free some space.'}")
    if path.exists():
        return FolderVerdict(True, "The folder is empty and will be used.")
    return FolderVerdict(True, "The folder will be created.")
