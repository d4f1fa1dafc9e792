"""Writes the output, and reads it back before it is reported as finished.

It reads with the safetensors library instead of our own reader, so that an error in writing a
header is not repeated in reading it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from ace_gui.checkpoints import Shard, ShardedWriter, tag_of
from ace_gui.engine.contract.events import JobProgress
from ace_gui.engine.streaming import checksum, sha256, single_threads
from ace_gui.errors import OutputError
from ace_gui.formatting import path_text, plain
from ace_gui.linalg.passes import is_finite


def write_verified(
    folder: Path, shards: Sequence[Shard], tensors: Iterable[tuple[str, Tensor]]
) -> Generator[JobProgress, None, Mapping[str, str]]:
    """Write tensors by name and read them back; yields the bytes done, returns the SHA-256s.

    Raises OutputError and ResourceError.
    """
    total, done = sum(tensor.nbytes for shard in shards for tensor in shard.tensors), 0
    writer = VerifiedWriter(folder, shards)
    for name, tensor in tensors:
        writer.write(name, tensor)
        done += tensor.nbytes
        yield JobProgress(done=done, total=total)
    return writer.finish()


class VerifiedWriter:
    """Writes tensors, whole or in parts, and reads them back. Raises OutputError, ResourceError."""

    def __init__(self, folder: Path, shards: Sequence[Shard]) -> None:
        self._folder, self._shards = folder, shards
        self._writer = ShardedWriter(folder, shards)
        self._checksums: dict[str, int] = {}

    def write(self, name: str, tensor: Tensor) -> None:
        """Write a whole tensor."""
        self._checksums[name] = checksum(tensor)
        self._writer.write(name, tensor)

    def write_part(self, name: str, start: int, values: Tensor) -> None:
        """Write elements of a tensor, whose parts come in order; ``mark_written`` follows."""
        self._writer.write_part(name, start, values)
        self._checksums[name] = checksum(values, self._checksums.get(name, 0))

    def mark_written(self, name: str) -> None:
        """Every part of the tensor is written; one without elements has none."""
        self._writer.mark_written(name)
        self._checksums.setdefault(name, 0)

    def finish(self) -> Mapping[str, str]:
        """The SHA-256s of the files, which are read back."""
        self._writer.finish()
        return verify_shards(self._folder, self._shards, self._checksums)


def verify_shards(
    folder: Path, shards: Sequence[Shard], checksums: Mapping[str, int]
) -> Mapping[str, str]:
    """SHA-256 of every shard by file name, after its content was compared with plan and result.

    ``checksums``: CRC-32 by tensor of the bytes in memory when they were written. Raises
    OutputError if a name, shape, dtype or byte differs, a value is not finite, or a file cannot be
    read.
    """
    return {
        shard.file_name: _verified(folder / shard.file_name, shard, checksums) for shard in shards
    }


def _verified(path: Path, shard: Shard, checksums: Mapping[str, int]) -> str:
    try:
        with single_threads(2) as pool:  # hashing releases the GIL and takes as long as the rest
            digest = pool.submit(sha256, path)
            pool.submit(_require_planned, path, shard, checksums).result()
            return digest.result()
    except (SafetensorError, OSError) as error:
        raise _wrong(path, str(error)) from error


def _require_planned(path: Path, shard: Shard, checksums: Mapping[str, int]) -> None:
    with safe_open(path, framework="pt", backend="pread") as file:
        if set(file.keys()) != {shard.stored_name(tensor.name) for tensor in shard.tensors}:
            raise _wrong(path, "the names of its tensors differ")
        for planned in shard.tensors:
            tensor = file.get_tensor(shard.stored_name(planned.name))
            if tuple(tensor.shape) != planned.shape or tag_of(tensor.dtype) != planned.dtype:
                raise _wrong(path, f"`{planned.name}` has another shape or number format")
            if checksum(tensor) != checksums[planned.name]:
                raise _wrong(path, f"bytes of `{planned.name}` differ")
            if not is_finite(tensor):
                raise OutputError(
                    f"`{plain(planned.name)}` holds NaN or Inf: its merge left the range of "
                    f"{planned.dtype}. Lower the experts' weights or the method's scale, or choose "
                    "a wider number format.",
                    path=path,
                    tensor=planned.name,
                )


def _wrong(path: Path, what: str) -> OutputError:
    return OutputError(
        f"{path_text(path)} was read back and is not what was written: {what}. "
        "Check the disk, then merge again.",
        path=path,
    )
