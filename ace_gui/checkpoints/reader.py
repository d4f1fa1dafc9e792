"""Reading one tensor at a time, at the offsets its header gave, with checksums of what was read.

Sizes and time stamps are not reliable: ``cp -p``, ``rsync -t`` and ``touch -r`` restore the old
ones. A CRC-32 of data that is read anyway costs a merge of many matrices 1 % of its time, and data
need not be read twice.
"""

from __future__ import annotations

import math
import os
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from ace_gui.checkpoints.header import TensorInfo, torch_dtype
from ace_gui.checkpoints.input_files import (
    FileStamp,
    changed,
    open_regular,
    read_at,
    read_blocks,
    status_of,
)
from ace_gui.errors import NonFiniteError, ResourceError
from ace_gui.formatting import path_text, plain
from ace_gui.linalg.passes import is_finite


@dataclass(frozen=True, kw_only=True)
class DerivedInfo(TensorInfo):
    """A tensor that is computed when it is read; files have other tensors instead."""

    written: str = ""
    """The dtype tag in an output of the model's own formats; empty: as it is read."""

    @property
    def written_dtype(self) -> str:
        """The dtype tag in an output of the model's own formats."""
        return self.written or self.dtype

    @property
    def parts(self) -> tuple[TensorInfo, ...]:
        """The tensors it is made from, if they are worth prefetching."""
        return ()

    def read(self, reader: TensorReader, start: int, stop: int) -> Tensor:
        """Elements ``start`` to ``stop`` of the flattened tensor."""
        raise NotImplementedError

    def rounding(self, _reader: TensorReader) -> float:
        """The share of a quantisation's rounding in its energy; 0 if it was never quantised."""
        return 0.0


class Tensors(Protocol):
    """What a reader needs of a checkpoint: its tensors by name, and the files that they are in."""

    @property
    def tensors(self) -> Mapping[str, TensorInfo]: ...  # noqa: D102
    @property
    def files(self) -> tuple[FileStamp, ...]: ...  # noqa: D102


class TensorReader:
    """Reads the tensors of one checkpoint. Safe to use from several threads.

    No file stays open between reads (twenty experts of a hundred shards would exceed the limit on
    open files), nor is one mapped into memory (a truncated one would kill the process). Leaving the
    ``with`` block without an error checks once more that no file has changed.
    """

    def __init__(self, checkpoint: Tensors, checksums: ReadChecksums | None = None) -> None:
        self._checksums = checksums
        self._tensors = checkpoint.tensors
        self._stamps = {stamp.path: stamp for stamp in checkpoint.files}
        self._computed: dict[TensorInfo, Tensor] = {}

    def __enter__(self) -> TensorReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.check_unchanged()

    def read(self, name: str) -> Tensor:
        """The tensor ``name`` in its dtype and shape, contiguous, in memory of its own.

        Raises KeyError for a name the checkpoint does not have, FileChangedError if the file is no
        longer the one whose header was read, CheckpointError if it cannot be read, ResourceError
        if the tensor does not fit into memory.
        """
        return self.read_info(self._tensors[name])

    def read_part(self, name: str, start: int, stop: int) -> Tensor:
        """Elements ``start`` to ``stop`` of the flattened tensor, in one dimension.

        Raises as ``read`` does.
        """
        return self.elements(self._tensors[name], start, stop)

    def read_info(self, info: TensorInfo) -> Tensor:
        """A tensor of the checkpoint's files, as ``read``."""
        return self.elements(info, 0, math.prod(info.shape)).reshape(info.shape)

    def elements(self, info: TensorInfo, start: int, stop: int) -> Tensor:
        """Elements of a tensor of the checkpoint's files, as ``read_part``."""
        if isinstance(info, DerivedInfo):
            return info.read(self, start, stop)
        part = allocate(info, stop - start)
        buffer = part.view(torch.uint8).numpy().data
        with open_regular(info.file) as (descriptor, stamp):
            self._require_same(stamp)
            if read_at(descriptor, buffer, info.start + start * part.itemsize) < len(buffer):
                raise changed(info.file)
        if self._checksums is not None:
            self._checksums.record(info.file, info.start + start * part.itemsize, buffer)
        return part

    def once(self, info: TensorInfo, compute: Callable[[], Tensor]) -> Tensor:
        """The result of ``compute``, called once for a tensor and kept for all its parts."""
        if info not in self._computed:
            self._computed[info] = compute()
        return self._computed[info]

    def will_read(self, name: str) -> None:
        """Ask the system to prefetch a tensor."""
        for info in _stored(self._tensors[name]) if hasattr(os, "posix_fadvise") else ():
            with open_regular(info.file) as (descriptor, _):
                os.posix_fadvise(descriptor, info.start, info.nbytes, os.POSIX_FADV_WILLNEED)

    def check_unchanged(self) -> None:
        """Raise FileChangedError if any file's size, time or inode differs from its header's."""
        for path in self._stamps:
            try:
                status = path.stat()
            except OSError:
                raise changed(path) from None
            self._require_same(FileStamp.of(path, status))

    def _require_same(self, stamp: FileStamp) -> None:
        if stamp != self._stamps[stamp.path]:
            raise changed(stamp.path)


def _stored(info: TensorInfo) -> Iterator[TensorInfo]:
    """The tensors in files from which a tensor is made."""
    if isinstance(info, DerivedInfo):
        for part in info.parts:
            yield from _stored(part)
    else:
        yield info


def allocate(info: TensorInfo, elements: int) -> Tensor:
    """Memory for some elements of a tensor. Raises ResourceError."""
    try:
        return torch.empty(elements, dtype=torch_dtype(info.dtype))
    except RuntimeError as error:  # torch has no class of error for this on the CPU
        raise ResourceError(
            f"`{plain(info.name)}` of {path_text(info.file)} needs {info.nbytes} bytes of memory, "
            "which are not free. Close other programs.",
            path=info.file,
            tensor=info.name,
            details=str(error),
        ) from None


def require_finite(tensor: Tensor, name: str, owner: str, path: Path) -> None:
    """Raise NonFiniteError if ``tensor``, called ``name`` in ``owner``, holds NaN or Inf."""
    if not is_finite(tensor):
        values = non_finite_values([tensor.reshape(-1)], tuple(tensor.shape))
        raise non_finite_error(values, name, owner, path)


def non_finite_error(what: str, name: str, owner: str, path: Path) -> NonFiniteError:
    """The error for the tensor ``name`` of ``owner``, which has ``what``."""
    sentence = f"`{plain(name)}` of `{plain(owner)}` has {what}. Download it again."
    return NonFiniteError(sentence, path=path, tensor=name)


def non_finite_values(parts: Iterable[Tensor], shape: tuple[int, ...]) -> str:
    """``"3 NaN values (first at [0, 3])"`` of a tensor in flat parts, in order; empty if none."""
    start = 0
    nan = 0
    infinite = 0
    first = -1
    for part in parts:
        if not is_finite(part):
            bad = ~torch.isfinite(part)
            nan_in_part = int(torch.isnan(part).sum())
            nan = nan + nan_in_part
            infinite = infinite + int(bad.sum()) - nan_in_part
            if first < 0:
                first = start + int(bad.to(torch.uint8).argmax())
        start += part.numel()
    if first < 0:
        return ""
    counts = [f"{nan} NaN"] * (nan > 0) + [f"{infinite} infinite"] * (infinite > 0)
    if nan + infinite == 1:
        values = "value"
    else:
        values = "values"
    position = [int(index) for index in np.unravel_index(first, shape)]
    return f"{' and '.join(counts)} {values} (first at {position})"


Readings = Mapping[str, Sequence[tuple[int, int, int]]]
"""By file, the byte ranges that were read: start, stop, and CRC-32."""


class ReadChecksums:
    """Records every range of a file that is read. Thread-safe.

    A range that is read again is not checked again. The file's time stamp is checked at each
    reading, and by ``require_unchanged`` at the end.
    """

    def __init__(self) -> None:
        self._seen: dict[str, dict[tuple[int, int], int]] = {}
        self._fresh: dict[str, list[tuple[int, int, int]]] = {}
        self._lock = threading.Lock()

    def record(self, file: Path, start: int, data: memoryview) -> None:
        """Record bytes that were read from ``start`` on."""
        name = str(file)
        span = (start, start + len(data))
        with self._lock:
            if span in self._seen.setdefault(name, {}):
                return
        crc = zlib.crc32(data)
        with self._lock:
            self._seen[name][span] = crc
            self._fresh.setdefault(name, []).append((*span, crc))

    def fresh(self) -> Readings:
        """The ranges read since the last call."""
        with self._lock:
            fresh = self._fresh
            self._fresh = {}
        return fresh

    def merge(self, readings: Readings) -> None:
        """Add what another process has read of the same files, perhaps on another machine.

        Raises FileChangedError if its content differs from what was read here or before.
        """
        with self._lock:
            for name, spans in readings.items():
                seen = self._seen.setdefault(name, {})
                for start, stop, crc in spans:
                    if seen.setdefault((start, stop), crc) != crc:
                        raise changed(Path(name))
                self._fresh.setdefault(name, []).extend(spans)

    def verify(self, readings: Readings) -> None:
        """Add what an earlier run has read. Raises FileChangedError if files differ from it."""
        for name, spans in readings.items():
            _require_same(Path(name), spans)
            checksums = {(start, stop): crc for start, stop, crc in spans}
            self._seen.setdefault(name, {}).update(checksums)

    def require_unchanged(self, stamps: Iterable[FileStamp]) -> None:
        """Read ranges again if their file was touched since its stamp was taken.

        Writing sets the time of the last change, which no program can set back. Raises
        FileChangedError if the content differs, CheckpointError if it cannot be read.
        """
        for stamp in stamps:
            if status_of(stamp.path).st_ctime_ns != stamp.ctime_ns:
                seen = self._seen.get(str(stamp.path), {})
                _require_same(stamp.path, [(*span, crc) for span, crc in seen.items()])


def _require_same(file: Path, spans: Iterable[tuple[int, int, int]]) -> None:
    with open_regular(file) as (descriptor, _):
        for start, stop, expected in sorted(spans):
            crc = 0
            for block in read_blocks(descriptor, file, start, stop):
                crc = zlib.crc32(block, crc)
            if crc != expected:
                raise changed(file)
