"""Writes the output's files: shards are planned whole, and tensors come in any order."""

from __future__ import annotations

import errno
import json
import math
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ace_gui.checkpoints.folder import MAIN, full_name, part_of
from ace_gui.checkpoints.header import LENGTH_BYTES, METADATA_KEY, torch_dtype
from ace_gui.checkpoints.input_files import open_regular, read_at
from ace_gui.errors import CheckpointError, OutputError, ResumeError
from ace_gui.formatting import listing, path_text, plain
from ace_gui.output_files import output_error, sync, writing
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
    ``part``: the part of the model it belongs to. Its folder is in ``file_name``, but not in the
    names in the header.
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
        starts = {}
        start = len(self.header)
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
    tensor larger than ``shard_bytes`` has a file of its own. Raises OutputError for a repeated
    name.
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
    """As ``plan_shards``, separately for each part of a model; ``stems``: file names by part.

    An ordinary model has only one part. ``metadata``: for an output that is a single file.
    """
    tensors_by_part: dict[str, list[OutputTensor]] = {part: [] for part in stems}
    for tensor in tensors:
        tensors_by_part.setdefault(part_of(tensor.name, stems), []).append(tensor)
    shards: list[Shard] = []
    for part, tensors_of_part in tensors_by_part.items():
        if tensors_of_part or len(tensors_by_part) == 1:  # an only part may be empty
            stem = stems.get(part, "model")
            shards += plan_shards(tensors_of_part, shard_bytes, stem=stem, part=part)
    if metadata and len(shards) == 1:
        return (replace(shards[0], metadata=metadata),)
    return tuple(shards)


def indexed(shards: Sequence[Shard]) -> dict[str, list[Shard]]:
    """The shards that need an index, by the index's file name: those of a part with several.

    ``shards``: those of a whole output, in order.
    """
    groups: dict[str, list[Shard]] = {}
    for shard in shards:
        name = _NUMBER.sub(".safetensors.index.json", shard.file_name)
        if name != shard.file_name:
            groups.setdefault(name, []).append(shard)
    return groups


def index_json(shards: Sequence[Shard]) -> str:
    """The text of ``model.safetensors.index.json`` for several shards."""
    weight_map = {}
    total = 0
    for shard in shards:
        file_name = shard.file_name.rpartition("/")[2]
        for tensor in shard.tensors:
            weight_map[shard.stored_name(tensor.name)] = file_name
            total += tensor.nbytes
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    return json.dumps(index, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _groups(tensors: Sequence[OutputTensor], shard_bytes: int) -> Iterator[list[OutputTensor]]:
    group: list[OutputTensor] = []
    held = 0
    for tensor in tensors:
        if group and held + tensor.nbytes > shard_bytes:
            yield group
            group = []
            held = 0
        group.append(tensor)
        held += tensor.nbytes
    yield group


def _shard(file_name: str, group: Sequence[OutputTensor], part: str) -> Shard:
    widest_first = sorted(group, key=lambda tensor: -FORMATS[tensor.dtype].bits)
    return Shard(file_name=file_name, tensors=tuple(widest_first), part=part)


_WRITE_FLAGS: Final = os.O_WRONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)

# The file system cannot reserve room; a full disk then shows at a later write.
_CANNOT_RESERVE: Final = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class ShardedWriter:
    """Writes the planned shards into a folder. ``write`` may be called from several threads.

    The files get their headers and their full size at once, so that a full disk is noticed before
    any work is done. No file stays open between writes. Nothing is complete before ``finish``,
    which also syncs the files.
    """

    def __init__(
        self, folder: Path, shards: Sequence[Shard], written: Collection[str] | None = None
    ) -> None:
        """Create the files, or continue those of an earlier writer, which finished ``written``.

        Raises OutputError if a new file exists, ResourceError if room is missing, ResumeError
        unless each file to be continued is there with the planned header and size.
        """
        for shard in shards:
            path = folder / shard.file_name
            if written is None:
                _create(path, shard)
            else:
                _require_same(path, shard)
        self._folder = folder
        self._shards = tuple(shards)
        self._planned: dict[str, tuple[Shard, OutputTensor]] = {}
        for shard in shards:
            for tensor in shard.tensors:
                self._planned[tensor.name] = (shard, tensor)
        self._missing = self._planned.keys() - set(written or ())

    def write(self, name: str, tensor: Tensor) -> None:
        """Write one tensor, from any device, at its offset.

        Raises OutputError if its dtype or shape is not the planned one or the write fails,
        ResourceError if the disk is full, KeyError for a name that is not planned.
        """
        _, planned = self._planned[name]
        if tensor.shape != planned.shape:
            raise _not_planned(planned, tensor)
        self.write_part(name, 0, tensor)
        self.mark_written(name)

    def write_part(self, name: str, start: int, part: Tensor) -> None:
        """Write some elements of a tensor, from element ``start`` of the flattened whole on.

        Raises as ``write`` does. Call ``mark_written`` when all parts are written.
        """
        shard, planned = self._planned[name]
        dtype = torch_dtype(planned.dtype)
        if part.dtype != dtype or start + part.numel() > math.prod(planned.shape):
            raise _not_planned(planned, part)
        flat = part.detach().to("cpu").contiguous().reshape(-1).view(torch.uint8)
        offset = shard.starts[name] + start * dtype.itemsize
        _write_into(self._folder / shard.file_name, flat.numpy().data, offset)

    def mark_written(self, name: str) -> None:
        """Note that every part of the tensor is written."""
        self._missing.discard(name)

    def finish(self) -> tuple[Path, ...]:
        """Sync every file, write an index for several shards, and return all files of the output.

        Raises OutputError if a tensor was not written or the disk fails.
        """
        if missing := [name for name in self._planned if name in self._missing]:
            raise OutputError(
                f"{path_text(self._folder)}: {len(missing)} tensors were not written: "
                f"{listing(missing)}.",
                path=self._folder,
                tensor=missing[0],
            )
        files = [self._folder / shard.file_name for shard in self._shards]
        path = self._folder
        try:
            for name, group in indexed(self._shards).items():
                index = self._folder / name
                index.write_text(index_json(group), encoding="utf-8", newline="\n")
                files.append(index)
            for path in files:
                sync(path)
            sync(self._folder)
        except OSError as error:
            raise output_error(path, error) from None
        return tuple(files)


def write_in_place(
    folder: Path, shard: Shard, name: str, start: int, data: NDArray[np.uint8]
) -> None:
    """Write some elements of a tensor, as bytes, into a file that another process has created.

    ``start``: the first element, in the flattened tensor. Once the file is closed, others that
    share it see the elements, but they may not be on the disk. Raises OutputError or ResourceError.
    """
    (planned,) = (tensor for tensor in shard.tensors if tensor.name == name)
    begin = start * torch_dtype(planned.dtype).itemsize
    if begin + data.nbytes > planned.nbytes:
        raise OutputError(f"`{plain(name)}` has fewer elements than are to be written.")
    _write_into(folder / shard.file_name, data.data, shard.starts[name] + begin)


def _write_into(path: Path, data: memoryview, offset: int) -> None:
    """Write bytes into a file that is there. Raises OutputError or ResourceError."""
    with _opened(path) as descriptor:
        _write_at(descriptor, data, offset)


def _create(path: Path, shard: Shard) -> None:
    if shard.part:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
    with _opened(path, os.O_CREAT | os.O_EXCL) as descriptor:
        _reserve(descriptor, shard.size)
        _write_at(descriptor, memoryview(shard.header), 0)


@contextmanager
def _opened(path: Path, flags: int = 0) -> Iterator[int]:
    """A descriptor to write with; errors of the block are OutputError or ResourceError."""
    with writing(path):
        descriptor = os.open(path, _WRITE_FLAGS | flags, 0o666)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _reserve(descriptor: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            if error.errno not in _CANNOT_RESERVE:
                raise
    os.ftruncate(descriptor, size)


def _require_same(path: Path, shard: Shard) -> None:
    header = bytearray(len(shard.header))
    try:
        with open_regular(path) as (descriptor, stamp):
            read_at(descriptor, memoryview(header), 0)
    except CheckpointError as error:
        raise ResumeError(
            f"{error.sentence} The merge cannot be resumed; start it again.", path=path
        ) from None
    if stamp.size != shard.size or bytes(header) != shard.header:
        raise ResumeError(
            f"{path_text(path)}: This is not the file the unfinished merge began. Start it again.",
            path=path,
        )


def _not_planned(planned: OutputTensor, tensor: Tensor) -> OutputError:
    return OutputError(
        f"`{plain(planned.name)}` was planned as {planned.dtype} {list(planned.shape)}, not "
        f"{tensor.dtype} {list(tensor.shape)}.",
        tensor=planned.name,
        shapes={"planned": planned.shape, "given": tuple(tensor.shape)},
    )


def _write_at(descriptor: int, data: memoryview, offset: int) -> None:
    os.lseek(descriptor, offset, os.SEEK_SET)
    while data:
        data = data[os.write(descriptor, data) :]
