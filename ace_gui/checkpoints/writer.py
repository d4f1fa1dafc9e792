"""Writing tensors, in any order, into files whose headers are written first."""

from __future__ import annotations

import errno
import math
import os
import threading
from collections.abc import Collection, Sequence
from contextlib import ExitStack
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

_seek_lock = threading.Lock()


class ShardedWriter:
    """Writes the planned shards into a folder. ``write`` may be called from several threads.

    The files get their headers and their full size at once, so that a disk without room shows
    before any work is done. A file is open while some of its tensors are written and others not.
    Nothing is complete before ``finish``; leaving the ``with`` block only closes the files.
    """

    def __init__(self, folder: Path, shards: Sequence[Shard]) -> None:
        """Create the files. Raises OutputError if one exists, ResourceError if room is missing."""
        for shard in shards:
            _create(folder / shard.file_name, shard)
        self._begin(folder, shards, ())

    @classmethod
    def reopen(
        cls, folder: Path, shards: Sequence[Shard], written: Collection[str]
    ) -> ShardedWriter:
        """Continue an earlier writer's files, in which the tensors ``written`` are finished.

        Raises ResumeError unless every file is there with the planned header and size.
        """
        for shard in shards:
            _require_same(folder / shard.file_name, shard)
        writer = cls.__new__(cls)
        writer._begin(folder, shards, written)
        return writer

    def _begin(self, folder: Path, shards: Sequence[Shard], written: Collection[str]) -> None:
        self._folder = folder
        self._shards = tuple(shards)
        self._planned = {
            tensor.name: (shard, tensor) for shard in shards for tensor in shard.tensors
        }
        self._missing = {
            shard.file_name: {tensor.name for tensor in shard.tensors} - set(written)
            for shard in shards
        }
        self._open: dict[str, int] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> ShardedWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
        try:
            _write_at(self._descriptor(shard.file_name), flat.numpy().data, offset)
        except OSError as error:
            raise output_error(self._folder / shard.file_name, error) from None

    def mark_written(self, name: str) -> None:
        """Every part of the tensor is written; a file whose last one it is, is closed."""
        shard, _ = self._planned[name]
        with self._lock:
            last = self._missing[shard.file_name] <= {name}
        try:
            if last:
                self._close_one(shard.file_name)
        except OSError as error:
            raise output_error(self._folder / shard.file_name, error) from None
        with self._lock:
            self._missing[shard.file_name].discard(name)

    def finish(self) -> tuple[Path, ...]:
        """Sync every file, write the index where there are several; all files of the output.

        Raises OutputError if a tensor was not written or the disk fails.
        """
        missing = [name for names in self._missing.values() for name in sorted(names)]
        if missing:
            raise OutputError(
                f"{path_text(self._folder)}: {len(missing)} tensors were not written: "
                f"{listing(missing)}.",
                path=self._folder,
                tensor=missing[0],
            )
        self.close()
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

    def close(self) -> None:
        """Close every file, whatever is written. Raises OutputError if that fails for one."""
        try:
            with ExitStack() as closing:
                for file_name in self._open:
                    closing.callback(self._close_one, file_name)
        except OSError as error:
            raise output_error(self._folder, error) from None

    def _descriptor(self, file_name: str) -> int:
        with self._lock:
            if file_name not in self._open:
                self._open[file_name] = os.open(self._folder / file_name, _WRITE_FLAGS)
            return self._open[file_name]

    def _close_one(self, file_name: str) -> None:
        with self._lock:
            descriptor = self._open.pop(file_name, None)
        if descriptor is not None:
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


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
    path = folder / shard.file_name
    try:
        descriptor = os.open(path, _WRITE_FLAGS)
        try:
            _write_at(descriptor, data.data, shard.starts[name] + begin)
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
    done = 0
    while done < len(data):
        done += _write_once(descriptor, data[done:], offset + done)


def _write_once(descriptor: int, data: memoryview, offset: int) -> int:
    if hasattr(os, "pwrite"):
        return os.pwrite(descriptor, data, offset)
    with _seek_lock:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.write(descriptor, data[: 1 << 26])
