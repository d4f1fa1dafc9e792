"""Plans the output files: shards, headers and offsets, before a byte is written."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from ace_gui.checkpoints.folder import MAIN, full_name, part_of
from ace_gui.checkpoints.header import LENGTH_BYTES, METADATA_KEY
from ace_gui.errors import OutputError
from ace_gui.formatting import plain
from ace_gui.stored_formats import FORMATS

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
    ``part``: that of the model it belongs to, whose folder is in ``file_name`` and whose name is
    not in the header.
    """

    file_name: str
    tensors: tuple[OutputTensor, ...]
    part: str = MAIN
    metadata: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def header(self) -> bytes:
        """The file's beginning: header length and header, padded with spaces to eight bytes."""
        entries: dict[str, object] = {METADATA_KEY: {**self.metadata, "format": "pt"}}
        begin = 0
        for tensor in self.tensors:
            end = begin + tensor.nbytes
            entries[self.stored_name(tensor.name)] = {
                "dtype": tensor.dtype,
                "shape": list(tensor.shape),
                "data_offsets": [begin, end],
            }
            begin = end
        text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        return len(text).to_bytes(LENGTH_BYTES, "little") + text

    def stored_name(self, tensor: str) -> str:
        """The name of a tensor in the file."""
        return tensor.removeprefix(full_name(self.part, ""))

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
    tensors: Sequence[OutputTensor], shard_bytes: int, *, stem: str = "model", part: str = MAIN
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
    path = full_name(part, stem)
    if len(groups) == 1:
        return (_shard(f"{path}.safetensors", groups[0], part),)
    return tuple(
        _shard(f"{path}-{number:05d}-of-{len(groups):05d}.safetensors", group, part)
        for number, group in enumerate(groups, start=1)
    )


def plan_parts(
    tensors: Sequence[OutputTensor],
    shard_bytes: int,
    stems: Mapping[str, str],
    metadata: Mapping[str, str] | None = None,
) -> tuple[Shard, ...]:
    """As ``plan_shards``, for each part of a model by itself; ``stems``: by part its file's name.

    An ordinary model has one part, so that all is as there. ``metadata``: of a single file.
    """
    owned: dict[str, list[OutputTensor]] = {part: [] for part in stems}
    for tensor in tensors:
        owned.setdefault(part_of(tensor.name, stems), []).append(tensor)
    shards = tuple(
        shard
        for part, own in owned.items()
        if own or len(owned) == 1
        for shard in plan_shards(own, shard_bytes, stem=stems.get(part, "model"), part=part)
    )
    return (replace(shards[0], metadata=metadata),) if metadata and len(shards) == 1 else shards


def indexed(shards: Sequence[Shard]) -> dict[str, list[Shard]]:
    """The shards that need an index, by its file name: those of one part, where there are several.

    They are the shards of a whole output, in their order.
    """
    groups: dict[str, list[Shard]] = {}
    for shard in shards:
        name = _NUMBER.sub(".safetensors.index.json", shard.file_name)
        if name != shard.file_name:
            groups.setdefault(name, []).append(shard)
    return groups


def index_json(shards: Sequence[Shard]) -> str:
    """The text of ``model.safetensors.index.json`` for several shards."""
    indices = {
        shard.stored_name(tensor.name): shard.file_name.rpartition("/")[2]
        for shard in shards
        for tensor in shard.tensors
    }
    total = sum(tensor.nbytes for shard in shards for tensor in shard.tensors)
    index = {"metadata": {"total_size": total}, "weight_map": indices}
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


def _shard(file_name: str, group: Sequence[OutputTensor], part: str) -> Shard:
    widest_first = sorted(group, key=lambda tensor: -FORMATS[tensor.dtype].bits)
    return Shard(file_name=file_name, tensors=tuple(widest_first), part=part)
