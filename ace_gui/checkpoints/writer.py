"""Writing tensors, in any order, into files whose headers are written first."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ace_gui.checkpoints.header import torch_dtype
from ace_gui.checkpoints.input_files import open_regular, read_at
from ace_gui.checkpoints.shards import OutputTensor, Shard, index_json, indexed
from ace_gui.errors import CheckpointError, OutputError, ResumeError
from ace_gui.formatting import listing, path_text, plain
from ace_gui.output_files import output_error, sync

_WRITE_FLAGS: Final = os.O_WRONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)

# The file system cannot reserve room; a full disk then shows at a later write.
_CANNOT_RESERVE: Final = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class ShardedWriter:
    """Writes the planned shards into a folder. ``write`` may be called from several threads.

    The files get their headers and their full size at once, so that a disk without room shows
    before any work is done. No file stays open between writes, and nothing is complete before
    ``finish``, which also brings it to the disk.
    """

    def __init__(
        self, folder: Path, shards: Sequence[Shard], written: Collection[str] | None = None
    ) -> None:
        """Create the files, or continue an earlier writer's, where ``written`` is finished.

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
        self._planned = {
            tensor.name: (shard, tensor) for shard in shards for tensor in shard.tensors
        }
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
        """Every part of the tensor is written."""
        self._missing.discard(name)

    def finish(self) -> tuple[Path, ...]:
        """Sync every file, write the index where there are several; all files of the output.

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
            for name, several in indexed(self._shards).items():
                index = self._folder / name
                index.write_text(index_json(several), encoding="utf-8", newline="\n")
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

    ``start``: the first of them, in the flattened tensor. Closing the file gives them to whoever
    shares it, but need not bring them to the disk. Raises OutputError or ResourceError.
    """
    (planned,) = (tensor for tensor in shard.tensors if tensor.name == name)
    begin = start * torch_dtype(planned.dtype).itemsize
    if begin + data.nbytes > planned.nbytes:
        raise OutputError(f"`{plain(name)}` has fewer elements than are to be written.")
    _write_into(folder / shard.file_name, data.data, shard.starts[name] + begin)


def _write_into(path: Path, data: memoryview, offset: int) -> None:
    """Write bytes into a file that is there. Raises OutputError or ResourceError."""
    try:
        descriptor = os.open(path, _WRITE_FLAGS)
        try:
            _write_at(descriptor, data, offset)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise output_error(path, error) from None


def _create(path: Path, shard: Shard) -> None:
    try:
        if shard.part:
            path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, _WRITE_FLAGS | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            _reserve(descriptor, shard.size)
            _write_at(descriptor, memoryview(shard.header), 0)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise output_error(path, error) from None


def _reserve(descriptor: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            if error.errno not in _CANNOT_RESERVE:
                raise
    os.ftruncate(descriptor, size)


def _require_same(path: Path, shard: Shard) -> None:
    found = bytearray(len(shard.header))
    try:
        with open_regular(path) as (descriptor, stamp):
            read_at(descriptor, memoryview(found), 0)
    except CheckpointError as error:
        raise ResumeError(
            f"{error.sentence} The merge cannot be resumed; start it again.", path=path
        ) from None
    if stamp.size != shard.size or bytes(found) != shard.header:
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
