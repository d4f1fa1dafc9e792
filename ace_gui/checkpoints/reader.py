"""Reading one tensor at a time, at the offsets its header gave."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ace_gui.checkpoints.dtypes import torch_dtype
from ace_gui.checkpoints.header import TensorInfo
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.input_files import FileStamp, changed, open_regular, read_at
from ace_gui.checkpoints.read_checksums import ReadChecksums
from ace_gui.checkpoints.scaled_weights import DerivedInfo
from ace_gui.errors import NonFiniteError, ResourceError
from ace_gui.formatting import path_text, plain
from ace_gui.linalg.passes import is_finite


class TensorReader:
    """Reads the tensors of one checkpoint. Safe to use from several threads.

    No file stays open between reads (twenty experts of a hundred shards would exceed the limit on
    open files), nor is one mapped into memory (a truncated one would kill the process). Leaving the
    ``with`` block without an error checks once more that no file has changed.
    """

    def __init__(self, checkpoint: Checkpoint, checksums: ReadChecksums | None = None) -> None:
        self._checksums = checksums
        self._tensors = checkpoint.tensors
        self._stamps = {stamp.path: stamp for stamp in checkpoint.files}

    def __enter__(self) -> TensorReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.check_unchanged()

    def read(self, name: str) -> Tensor:
        """The tensor ``name`` in its stored dtype and shape, contiguous, in memory of its own.

        Raises KeyError for a name the checkpoint does not have, FileChangedError if the file is no
        longer the one whose header was read, CheckpointError if it cannot be read, ResourceError
        if the tensor does not fit into memory.
        """
        info = self._tensors[name]
        return self.read_part(name, 0, math.prod(info.shape)).reshape(info.shape)

    def read_part(self, name: str, start: int, stop: int) -> Tensor:
        """Elements ``start`` to ``stop`` of the flattened tensor, stored dtype, one dimension.

        Raises as ``read`` does.
        """
        info = self._tensors[name]
        if isinstance(info, DerivedInfo):
            return info.read(self._stored, start, stop)
        return self._stored(info, start, stop)

    def _stored(self, info: TensorInfo, start: int, stop: int) -> Tensor:
        """Elements of a tensor as they are in its file."""
        part = _allocate(info, stop - start)
        buffer = part.view(torch.uint8).numpy().data
        with open_regular(info.file) as (descriptor, stamp):
            self._require_same(stamp)
            if read_at(descriptor, buffer, info.start + start * part.itemsize) < len(buffer):
                raise changed(info.file)
        if self._checksums is not None:
            self._checksums.record(info.file, info.start + start * part.itemsize, buffer)
        return part

    def will_read(self, name: str) -> None:
        """Ask the system to prefetch a tensor."""
        info = self._tensors[name]
        if hasattr(os, "posix_fadvise"):
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


def _allocate(info: TensorInfo, elements: int) -> Tensor:
    try:
        return torch.empty(elements, dtype=torch_dtype(info.dtype))
    except RuntimeError as error:  # torch has no kind of its own for this on the CPU
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
        found = non_finite_values([tensor.reshape(-1)], tuple(tensor.shape))
        raise non_finite_error(found, name, owner, path)


def non_finite_error(found: str, name: str, owner: str, path: Path) -> NonFiniteError:
    """The error for the tensor ``name`` of ``owner``, which has ``found``."""
    sentence = f"`{plain(name)}` of `{plain(owner)}` has {found}. Download it again."
    return NonFiniteError(sentence, path=path, tensor=name)


def non_finite_values(parts: Iterable[Tensor], shape: tuple[int, ...]) -> str:
    """``"3 NaN values (first at [0, 3])"`` of a tensor in flat parts, in order; empty if none."""
    start, nan, infinite, first = 0, 0, 0, -1
    for part in parts:
        if not is_finite(part):
            bad = ~torch.isfinite(part)
            own = int(torch.isnan(part).sum())
            nan, infinite = nan + own, infinite + int(bad.sum()) - own
            if first < 0:
                first = start + int(bad.to(torch.uint8).argmax())
        start += part.numel()
    if first < 0:
        return ""
    counts = [f"{nan} NaN"] * (nan > 0) + [f"{infinite} infinite"] * (infinite > 0)
    values = "value" if nan + infinite == 1 else "values"
    position = [int(index) for index in np.unravel_index(first, shape)]
    return f"{' and '.join(counts)} {values} (first at {position})"
