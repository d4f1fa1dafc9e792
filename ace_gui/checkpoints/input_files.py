"""Opens and reads untrusted files: the only module that opens an input."""

from __future__ import annotations

import codecs
import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

from ace_gui.errors import CheckpointError, FileChangedError
from ace_gui.formatting import path_text

# Without O_NONBLOCK a FIFO that replaces a file after the check would block for ever.
_READ_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)

JSON_MEMORY: Final = 512_000_000
"""Most memory that a JSON file may take; published tokenizers take up to 300 MB."""

CONFIG_LIMIT: Final = 10_000_000
"""Largest config.json in bytes."""

JSON_LIMIT: Final = 100_000_000
"""Largest JSON file in bytes; the largest published tokenizers have some 35 MB."""

_MEMORY_A_BYTE: Final = 16
"""Most memory that a file of the largest size may take, as a multiple of that size."""

_BLOCK: Final = 1 << 22
"""Bytes of a file in memory at a time."""

_WIDE: Final = re.compile(b"[\xf0-\xf4]")
"""First byte of a character for which Python stores a text with four bytes per character."""


@dataclass(frozen=True, kw_only=True)
class FileStamp:
    """Identifies a file and shows whether it changed."""

    path: Path
    """Where it is."""
    size: int
    """In bytes."""
    mtime_ns: int
    """Time of the last change of content, in nanoseconds."""
    inode: int
    """Its number on the device."""
    device: int
    """The number of the device."""
    ctime_ns: int = field(default=0, compare=False)
    """Time of the last change of content or name, in nanoseconds. It is not compared, because a new
    link to the file changes it too.
    """

    @classmethod
    def of(cls, path: Path, status: os.stat_result) -> FileStamp:
        """The stamp in a stat result."""
        return cls(
            path=path,
            size=status.st_size,
            mtime_ns=status.st_mtime_ns,
            inode=status.st_ino,
            device=status.st_dev,
            ctime_ns=status.st_ctime_ns,
        )


def refusal(path: Path, sentence: str, *, tensor: str | None = None) -> CheckpointError:
    """A CheckpointError with ``sentence`` about the file or folder at ``path``."""
    return CheckpointError(f"{path_text(path)}: {sentence}", path=path, tensor=tensor)


def changed(path: Path) -> FileChangedError:
    """The error for a file that is no longer what it was when its header was read."""
    return FileChangedError(
        f"{path_text(path)}: The file changed while it was in use. Wait until whatever writes it "
        "has finished, then open the model again.",
        path=path,
    )


def unreadable(path: Path, error: OSError | ValueError) -> CheckpointError:
    """The error for a path that the system does not let us read."""
    if isinstance(error, ValueError) or error.errno in (errno.ENAMETOOLONG, errno.EILSEQ):
        sentence = "This is not a valid path."
    elif error.errno in (errno.ENOENT, errno.ENOTDIR):
        sentence = "No such file or folder. Check the path."
    elif error.errno in (errno.EACCES, errno.EPERM):
        sentence = "No permission to read it. Change its permissions, or copy it."
    elif error.errno == errno.ELOOP:
        sentence = "This link points to itself."
    else:
        sentence = f"Cannot be read ({error.strerror}). Check the disk, or copy the file again."
    failure = refusal(path, sentence)
    failure.details = str(error)
    return failure


def status_of(path: Path, *, follow: bool = True) -> os.stat_result:
    """``os.stat``; without ``follow`` that of a link itself. Raises CheckpointError."""
    try:
        return path.stat(follow_symlinks=follow)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None


def state_of(path: Path) -> tuple[str, int, int, int]:
    """Path, size, and times of modification and change of a file, for the key of a cache.

    A program can set the time of modification, but not that of change. Raises CheckpointError.
    """
    status = status_of(path)
    return str(path), status.st_size, status.st_mtime_ns, status.st_ctime_ns


@contextmanager
def open_regular(path: Path, *, follow: bool = True) -> Iterator[tuple[int, FileStamp]]:
    """A descriptor for reading, and the file's stamp. ``follow``: whether it may be a link.

    Raises CheckpointError unless it is a regular file, and for every error while reading in the
    block. Checked before opening, because opening a device can act on it, and again afterwards.
    """
    _require_regular(path, status_of(path, follow=follow))
    if follow:
        no_link = 0
    else:
        no_link = getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(path, _READ_FLAGS | no_link)
        try:
            status = os.fstat(descriptor)
            _require_regular(path, status)
            yield descriptor, FileStamp.of(path, status)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise unreadable(path, error) from None


def read_at(descriptor: int, buffer: memoryview, offset: int) -> int:
    """Fill ``buffer`` from ``offset``; returns how many bytes were read, fewer only at the end.

    Nobody else may use the descriptor at the same time.
    """
    done = 0
    while done < len(buffer):
        count = _read_once(descriptor, buffer[done:], offset + done)
        if count == 0:
            break
        done += count
    return done


def read_bytes(descriptor: int, path: Path, offset: int, count: int) -> bytearray:
    """``count`` bytes from ``offset``. Raises FileChangedError if the file ends too early."""
    buffer = bytearray(count)
    if read_at(descriptor, memoryview(buffer), offset) < count:
        raise changed(path)
    return buffer


def read_blocks(descriptor: int, path: Path, start: int, stop: int) -> Iterator[memoryview]:
    """The bytes from ``start`` to ``stop`` in blocks; each overwrites the one before.

    Raises FileChangedError if the file ends too early.
    """
    buffer = memoryview(bytearray(min(_BLOCK, stop - start)))
    for offset in range(start, stop, _BLOCK):
        block = buffer[: min(_BLOCK, stop - offset)]
        if read_at(descriptor, block, offset) < len(block):
            raise changed(path)
        yield block


def file_digest(path: Path) -> str:
    """The SHA-256 of a file as it is on the disk now. Raises CheckpointError."""
    with open_regular(path) as (descriptor, stamp):
        return _digest(descriptor, stamp)


def content_digest(path: Path, *, follow: bool = True) -> str:
    """The SHA-256 of a file, read once per process and state of the file.

    ``follow``: whether it may be a link. Raises CheckpointError.
    """
    with open_regular(path, follow=follow) as (_, stamp):
        return _digest_of(stamp, stamp.ctime_ns)


@lru_cache(maxsize=4096)
def _digest_of(stamp: FileStamp, _ctime_ns: int) -> str:
    """The SHA-256 of a file; its time of change is only part of the cache's key."""
    with open_regular(stamp.path) as (descriptor, now):
        if now != stamp:
            raise changed(stamp.path)
        return _digest(descriptor, stamp)


def _digest(descriptor: int, stamp: FileStamp) -> str:
    digest = hashlib.sha256()
    for block in read_blocks(descriptor, stamp.path, 0, stamp.size):
        digest.update(block)
    return digest.hexdigest()


def read_json(path: Path, *, limit: int) -> dict[str, object]:
    """A JSON object from a small file. Raises CheckpointError; ``limit`` in bytes."""
    value = read_json_value(path, limit=limit)
    if not isinstance(value, dict):
        raise refusal(path, "This JSON file holds no object. Download it again.")
    return value


def read_config(path: Path) -> dict[str, object]:
    """A config.json that other programs can read and this one can write: strictly UTF-8.

    Raises CheckpointError, also for lone surrogates, which only JSON's escapes can express.
    """
    config = read_json(path, limit=CONFIG_LIMIT)
    with open_regular(path) as (descriptor, _):
        beginning = bytearray(len(codecs.BOM_UTF8))
        read_at(descriptor, memoryview(beginning), 0)
    if beginning == codecs.BOM_UTF8:
        raise refusal(
            path,
            "Begins with a byte order mark, which transformers does not read. Save it as UTF-8 "
            "without one.",
        )
    try:
        json.dumps(config, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        failure = refusal(path, "Holds text that is not Unicode. Download it again.")
        failure.details = str(error)
        raise failure from None
    return config


def read_json_value(path: Path, *, limit: int) -> object:
    """As ``read_json``, for any JSON value."""
    with open_regular(path) as (descriptor, stamp):
        if stamp.size > limit:
            raise refusal(path, f"Too large for JSON ({stamp.size} bytes); the limit is {limit}.")
        raw = read_bytes(descriptor, path, 0, stamp.size)
    if json_memory(raw) > min(JSON_MEMORY, _MEMORY_A_BYTE * limit):
        raise refusal(path, "Holds more values than such a file can have. Download it again.")
    try:
        value: object = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        failure = refusal(path, "This is not valid JSON. Download it again.")
        failure.details = str(error)
        raise failure from None
    return value


def json_memory(raw: bytes | bytearray) -> int:
    """Upper estimate of the bytes that a JSON text takes in Python, without parsing it.

    It counts the text as Python holds it, then every dictionary, list and further value in them.
    Commas and brackets within strings are counted too.
    """
    if _WIDE.search(raw):
        width = 4
    elif raw.isascii():
        width = 1
    else:
        width = 2
    values = 240 * raw.count(b"{") + 96 * raw.count(b"[") + 150 * raw.count(b",")
    return (2 + width) * len(raw) + values


def _require_regular(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise refusal(path, "Not a regular file.")


def _read_once(descriptor: int, buffer: memoryview, offset: int) -> int:
    os.lseek(descriptor, offset, os.SEEK_SET)
    with open(descriptor, "rb", buffering=0, closefd=False) as file:
        return file.readinto(buffer)
