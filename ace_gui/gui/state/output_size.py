"""What an export will write, before it is written."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ace_gui.engine.contract.plan import Disposition, Plan
from ace_gui.errors import WorkbenchError
from ace_gui.formatting import human_bytes
from ace_gui.output_files import check_output_folder

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


def check_folder(text: str, needed: int = 0, models: Sequence[Path] = ()) -> FolderVerdict:
    """Whether the engine would take the folder, and there is room.

    ``needed``: bytes of what will be written. ``models``: those that were merged.
    """
    if not text.strip():
        return FolderVerdict(False, "Choose a folder for the merged model.")
    path = Path(text.strip()).expanduser()
    if not path.is_absolute():
        return FolderVerdict(False, "Give the full path of a folder.")
    try:
        check_output_folder(path, map(_folder, models))
    except WorkbenchError as error:
        return FolderVerdict(False, error.sentence)
    return _room(path, needed)


def _folder(model: Path) -> Path:
    """The folder that a model was opened as; a file beside a config stands for its folder."""
    beside = model.is_file() and (model.parent / "config.json").is_file()
    return model.parent if beside else model


def _room(path: Path, needed: int) -> FolderVerdict:
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    try:
        free = shutil.disk_usage(existing).free
    except OSError as error:
        return FolderVerdict(False, f"This folder cannot be used: {error.strerror}.")
    if needed > free:
        sentence = f"{human_bytes(needed)} are needed; {human_bytes(free)} are free on that disk."
        return FolderVerdict(False, f"{sentence} Choose another disk, or free some space.")
    if path.exists():
        return FolderVerdict(True, "The folder is empty and will be filled.")
    return FolderVerdict(True, "The folder will be made.")
