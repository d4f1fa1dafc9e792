"""Ties between the tensors in a model's files, as transformers finds them when it loads the model.

A config may say that the head is the embedding although the files have two different tensors.
transformers then compares the two, and keeps both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Final

import torch

from ace_gui.architecture.traits import Architecture
from ace_gui.checkpoints.adapters.lora import same_bytes
from ace_gui.checkpoints.header import TensorInfo
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.input_files import FileStamp
from ace_gui.checkpoints.reader import DerivedInfo, TensorReader

_BLOCK: Final = 1 << 22
"""Elements of a tensor in memory at a time."""


def as_loaded(checkpoint: Checkpoint, architecture: Architecture) -> Architecture:
    """The architecture without ties between stored tensors that differ.

    The tensors that would be tied are read, up to the first difference. Raises CheckpointError.
    """
    apart = {}
    for name, tensor_traits in architecture.traits.items():
        source = tensor_traits.tied_to
        if source is not None and not same_values(checkpoint, name, source):
            apart[name] = source
    if not apart:
        return architecture
    traits = dict(architecture.traits)
    for name in apart:
        traits[name] = replace(traits[name], tied_to=None)
    return replace(architecture, traits=traits, apart=apart)


def same_values(checkpoint: Checkpoint, first: str, second: str) -> bool:
    """Whether two tensors of a model are equal. Raises CheckpointError."""
    first_info = checkpoint.tensors[first]
    second_info = checkpoint.tensors[second]
    if replace(first_info, name=second) == second_info:
        return True
    if first_info.shape != second_info.shape:
        return False
    if isinstance(first_info, DerivedInfo) or isinstance(second_info, DerivedInfo):
        return _same_when_read(checkpoint, first_info, second_info)
    if first_info.dtype == second_info.dtype:
        return _same_bytes(checkpoint.files, first_info, second_info)
    return _same_when_read(checkpoint, first_info, second_info)


@lru_cache(maxsize=256)
def _same_bytes(
    _files: tuple[FileStamp, ...], first_info: TensorInfo, second_info: TensorInfo
) -> bool:
    """``_files`` is part of the cache's key: files that have changed are read again."""
    return same_bytes(first_info, second_info)


def _same_when_read(
    checkpoint: Checkpoint, first_info: TensorInfo, second_info: TensorInfo
) -> bool:
    reader = TensorReader(checkpoint)
    for start, stop in _blocks(prod(first_info.shape)):
        values = reader.elements(first_info, start, stop).double()
        if not torch.equal(values, reader.elements(second_info, start, stop).double()):
            return False
    return True


def _blocks(elements: int) -> Iterator[tuple[int, int]]:
    for start in range(0, elements, _BLOCK):
        yield start, min(start + _BLOCK, elements)
