"""Whether two models hold the same weights, by a few blocks of their files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from ace_gui.checkpoints import ExpandedCheckpoint, FileStamp, TensorInfo
from ace_gui.checkpoints.composed import ComposedCheckpoint
from ace_gui.checkpoints.input_files import open_regular, read_at
from ace_gui.engine.planning.models import OpenedModel

TENSORS_SAMPLED: Final = 48
BLOCK: Final = 4096  # bytes


def sample(model: OpenedModel, names: Sequence[str]) -> str | None:
    """A digest of one block from each of several tensors, spread over ``names`` (the base's names).

    Copies have equal digests; fine-tunes differ in nearly every block. None for an adapter, or for
    a model that lacks one of the tensors. Raises CheckpointError.
    """
    if isinstance(model.checkpoint, ExpandedCheckpoint | ComposedCheckpoint) or not names:
        return None
    step = max(1, len(names) // TENSORS_SAMPLED)
    chosen = names[::step]
    if not all(model.has(name) for name in chosen):
        return None
    infos = tuple(model.checkpoint.tensors[model.own_names[name]] for name in chosen)
    return _digest(model.checkpoint.files, infos)


@lru_cache(maxsize=256)
def _digest(_files: tuple[FileStamp, ...], infos: tuple[TensorInfo, ...]) -> str:
    """``_files`` is part of the cache key: a changed file is read again."""
    digest = hashlib.sha256()
    for info in infos:
        block = bytearray(min(BLOCK, info.stored_bytes))
        middle = (info.stored_bytes - len(block)) // 2
        with open_regular(info.file) as (descriptor, _):
            read_at(descriptor, memoryview(block), info.start + middle)
        digest.update(f"{info.dtype} {info.shape}".encode())
        digest.update(block)
    return digest.hexdigest()
