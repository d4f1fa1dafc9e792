"""The entries of a zip archive, checked before any of them is read.

PyTorch stores tensors in a zip uncompressed. Anything else about an archive (compression,
encryption, several disks, a comment at its end) is refused, which leaves little to be deceived by.
The layout is that of PKWARE's APPNOTE, sections 4.3.7 to 4.3.16.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ace_gui.checkpoints.header import TENSOR_LIMIT
from ace_gui.checkpoints.input_files import FileStamp, read_at, refusal
from ace_gui.formatting import plain

DIRECTORY_LIMIT: Final = 40_000_000
"""Largest list of entries in bytes; one entry of a PyTorch file needs about 70."""

ZIP_START: Final = b"PK\x03\x04"

_END: Final = struct.Struct("<4s4H2IH")
_LOCATOR: Final = struct.Struct("<4sIQI")
_END_64: Final = struct.Struct("<4sQ2H2I4Q")
_LISTED: Final = struct.Struct("<4s6H3I5H2I")
_LOCAL: Final = struct.Struct("<4s5H3I2H")
_FULL_16: Final = 0xFFFF
_FULL_32: Final = 0xFFFFFFFF

_DAMAGED: Final = "The archive is damaged or cut short. Download it again."


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """``size`` bytes of the file from ``start`` on; ``crc`` their CRC-32, 0 where none was made."""

    name: str
    start: int
    size: int
    crc: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Listed:
    """An entry as the directory lists it; ``offset`` is where its own header begins."""

    name: str
    flags: int
    method: int
    packed: int
    size: int
    crc: int
    offset: int


def read_entries(descriptor: int, stamp: FileStamp) -> dict[str, Entry]:
    """Name to entry, of an archive in which every entry is stored as it is.

    Raises CheckpointError if it is damaged, compressed, encrypted, or claims more than it holds.
    """
    listed = _listed(descriptor, stamp)
    _refuse_compressed(stamp, listed)
    entries: dict[str, Entry] = {}
    for item in listed:
        if item.name in entries:
            raise refusal(stamp.path, f"Holds `{plain(item.name)}` twice. Download it again.")
        entries[item.name] = _located(descriptor, stamp, item)
    return entries


def _listed(descriptor: int, stamp: FileStamp) -> list[_Listed]:
    count, size, start = _directory(descriptor, stamp)
    if count > TENSOR_LIMIT or size > DIRECTORY_LIMIT:
        raise refusal(
            stamp.path, f"The archive lists {count} entries; the limit is {TENSOR_LIMIT}."
        )
    items = list(_parsed(stamp, _read(descriptor, stamp, start, size)))
    if len(items) != count:
        raise refusal(stamp.path, _DAMAGED)
    return items


def _directory(descriptor: int, stamp: FileStamp) -> tuple[int, int, int]:
    """Number of entries, and size and start of their list."""
    end = stamp.size - _END.size
    mark, disk, first_disk, _, count, size, start, comment = _END.unpack(
        _read(descriptor, stamp, end, _END.size)
    )
    if mark != b"PK\x05\x06" or comment or not {disk, first_disk} <= {0, _FULL_16}:
        raise refusal(stamp.path, _DAMAGED)
    if count == _FULL_16 or _FULL_32 in (size, start):
        raw = _read(descriptor, stamp, end - _LOCATOR.size, _LOCATOR.size)
        mark, _, place, _ = _LOCATOR.unpack(raw)
        raw = _read(descriptor, stamp, place, _END_64.size)
        mark_64, _, _, _, _, _, _, count, size, start = _END_64.unpack(raw)
        if mark != b"PK\x06\x07" or mark_64 != b"PK\x06\x06":
            raise refusal(stamp.path, _DAMAGED)
    return count, size, start


def _parsed(stamp: FileStamp, raw: bytes) -> Iterator[_Listed]:
    place = 0
    while place < len(raw):
        if len(raw) - place < _LISTED.size:
            raise refusal(stamp.path, _DAMAGED)
        fields = _LISTED.unpack_from(raw, place)
        mark, _, _, flags, method, _, _, crc, packed, size, name, extra, comment = fields[:13]
        names_end = place + _LISTED.size + name
        place = names_end + extra + comment
        if mark != b"PK\x01\x02" or place > len(raw) or fields[13] not in (0, _FULL_16):
            raise refusal(stamp.path, _DAMAGED)
        wide = _wide_fields(raw[names_end : names_end + extra])
        size, packed, offset = (
            next(wide, _FULL_32) if value == _FULL_32 else value
            for value in (size, packed, fields[16])
        )
        yield _Listed(
            name=raw[names_end - name : names_end].decode("utf-8", "replace"),
            flags=flags,
            method=method,
            packed=packed,
            size=size,
            crc=crc,
            offset=offset,
        )


def _wide_fields(extra: bytes) -> Iterator[int]:
    """The 64-bit numbers of the extra field that stand for full 32-bit ones."""
    place = 0
    while place + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, place)
        if kind == 1:
            body = extra[place + 4 : place + 4 + length]
            yield from (number for (number,) in struct.iter_unpack("<Q", body[: length // 8 * 8]))
        place += 4 + length


def _refuse_compressed(stamp: FileStamp, listed: list[_Listed]) -> None:
    held = sum(item.packed for item in listed)
    claimed = sum(item.size for item in listed)
    if any(item.method != 0 or item.packed != item.size for item in listed):
        raise refusal(
            stamp.path,
            f"The archive is compressed: {held} bytes would expand to {claimed}. Refused; save it "
            "again with `torch.save`.",
        )
    if any(item.flags & 1 for item in listed):
        raise refusal(stamp.path, "The archive is encrypted. Save it again with `torch.save`.")
    if claimed > stamp.size:
        raise refusal(
            stamp.path, f"The archive claims {claimed} bytes; the file has {stamp.size}. Refused."
        )


def _located(descriptor: int, stamp: FileStamp, item: _Listed) -> Entry:
    fields = _LOCAL.unpack(_read(descriptor, stamp, item.offset, _LOCAL.size))
    start = item.offset + _LOCAL.size + fields[9] + fields[10]
    if fields[0] != ZIP_START or start + item.size > stamp.size:
        raise refusal(stamp.path, _DAMAGED)
    return Entry(name=item.name, start=start, size=item.size, crc=item.crc)


def _read(descriptor: int, stamp: FileStamp, start: int, count: int) -> bytes:
    """Exactly ``count`` bytes; an archive that points beyond its own end is damaged."""
    if start < 0 or start + count > stamp.size:
        raise refusal(stamp.path, _DAMAGED)
    buffer = bytearray(count)
    if read_at(descriptor, memoryview(buffer), start) < count:
        raise refusal(stamp.path, _DAMAGED)
    return bytes(buffer)
