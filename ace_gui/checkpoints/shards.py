"""Which tensor goes where: shards, their headers and offsets, known before a byte is written."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from ace_gui.checkpoints.dtypes import FORMATS
from ace_gui.checkpoints.header import LENGTH_BYTES, METADATA_KEY
from ace_gui.checkpoints.labels import plain
from ace_gui.errors import OutputError

_NUMBER: Final = re.compile(r"-\d+-of-\d+\.safetensors$")


@dataclass(frozen=True, kw_only=True)
class OutputTensor:
    """A tensor to be written; ``dtype`` is a safetensors tag."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return math.prod(self.shape) * FORMATS[self.dtype].bits // 8


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One file of the output.

    ``tensors`` in the order of their bytes: widest elements first, as safetensors has it, so that
    each one begins at a multiple of its element's size. ``metadata`` is text for the header.
    """

    file_name: str
    tensors: tuple[OutputTensor, ...]
    metadata: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def header(self) -> bytes:
        """The file's beginning: header length and header, padded with spaces to eight bytes."""
        entries: dict[str, object] = {METADATA_KEY: {**self.metadata, "format": "pt"}}
        begin = 0
        for tensor in self.tensors:
            end = begin + tensor.nbytes
            entries[tensor.name] = {
                "dtype": tensor.dtype,
                "shape": list(tensor.shape),
                "data_offsets": [begin, end],
            }
            begin = end
        text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        return len(text).to_bytes(LENGTH_BYTES, "little") + text

    @cached_property
    def starts(self) -> Mapping[str, int]:
        """Where each tensor's bytes begin, counted from the beginning of the file."""
        starts, start = {}, len(self.header)
        for tensor in self.tensors:
            starts[tensor.name] = start
            start += tensor.nbytes
        return starts

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return len(self.header) + sum(tensor.nbytes for tensor in self.tensors)


def plan_shards(
    tensors: Sequence[OutputTensor], shard_bytes: int, *, stem: str = "model"
) -> tuple[Shard, ...]:
    """Divide ``tensors``, in their order, among files of at most ``shard_bytes`` of tensors each.

    One file ``STEM.safetensors`` if they all fit, else ``STEM-00001-of-0000N.safetensors``. A
    tensor larger than ``shard_bytes`` has a file of its own. Raises OutputError for a name given
    twice.
    """
    if len({tensor.name for tensor in tensors}) < len(tensors):
        names = [tensor.name for tensor in tensors]
        twice = next(name for name in names if names.count(name) > 1)
        raise OutputError(f"`{plain(twice)}` would be written twice.", tensor=twice)
    groups = list(_groups(tensors, shard_bytes))
    if len(groups) == 1:
        return (_shard(f"{stem}.safetensors", groups[0]),)
    return tuple(
        _shard(f"{stem}-{number:05d}-of-{len(groups):05d}.safetensors", group)
        for number, group in enumerate(groups, start=1)
    )


def index_name(shards: Sequence[Shard]) -> str:
    """The file name of the index of several shards."""
    return _NUMBER.sub(".safetensors.index.json", shards[0].file_name)


def index_json(shards: Sequence[Shard]) -> str:
    """The text of ``model.safetensors.index.json`` for several shards."""
    places = {tensor.name: shard.file_name for shard in shards for tensor in shard.tensors}
    total = sum(tensor.nbytes for shard in shards for tensor in shard.tensors)
    index = {"metadata": {"total_size": total}, "weight_map": places}
    return json.dumps(index, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _groups(tensors: Sequence[OutputTensor], shard_bytes: int) -> Iterator[list[OutputTensor]]:
    group: list[OutputTensor] = []
    held = 0
    for tensor in tensors:
        if group and held + tensor.nbytes > shard_bytes:
            yield group
            group, held = [], 0
        group.append(tensor)
        held += tensor.nbytes
    yield group


def _shard(file_name: str, group: Sequence[OutputTensor]) -> Shard:
    widest_first = sorted(group, key=lambda tensor: -FORMATS[tensor.dtype].bits)
    return Shard(file_name=file_name, tensors=tuple(widest_first))
