"""Checksums of the data read from the inputs, which reveal changed content.

Sizes and time stamps are not reliable: ``cp -p``, ``rsync -t`` and ``touch -r`` restore the old
ones. A CRC-32 of data that is read anyway costs a merge of many matrices 1 % of its time, and no
second reading.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from ace_gui.checkpoints.input_files import FileStamp, changed, open_regular, read_at, status_of

Readings = Mapping[str, Sequence[tuple[int, int, int]]]
"""By file: from which byte to which was read, and the CRC-32 of that."""

_BLOCK: Final = 1 << 22


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
        """These bytes were read from ``start`` on."""
        name, stretch = str(file), (start, start + len(data))
        with self._lock:
            if stretch in self._seen.setdefault(name, {}):
                return
        found = zlib.crc32(data)
        with self._lock:
            self._seen[name][stretch] = found
            self._fresh.setdefault(name, []).append((*stretch, found))

    def fresh(self) -> Readings:
        """The ranges read since the last call."""
        with self._lock:
            fresh, self._fresh = self._fresh, {}
        return fresh

    def merge(self, readings: Readings) -> None:
        """What another process has read of the same files, perhaps through another machine.

        Raises FileChangedError if that was another content than what was read here or before.
        """
        with self._lock:
            for name, stretches in readings.items():
                seen = self._seen.setdefault(name, {})
                for start, stop, found in stretches:
                    if seen.setdefault((start, stop), found) != found:
                        raise changed(Path(name))
                self._fresh.setdefault(name, []).extend(stretches)

    def verify(self, readings: Readings) -> None:
        """What an earlier run has read. Raises FileChangedError if it would read otherwise."""
        for name, stretches in readings.items():
            _require_same(Path(name), stretches)
            known = {(start, stop): found for start, stop, found in stretches}
            self._seen.setdefault(name, {}).update(known)

    def require_unchanged(self, stamps: Iterable[FileStamp]) -> None:
        """Read again what was read of a file that was touched since its stamp was taken.

        Writing sets the time of the last change, which no program can set back. Raises
        FileChangedError where the content is another, CheckpointError where it cannot be read.
        """
        for stamp in stamps:
            if status_of(stamp.path).st_ctime_ns != stamp.ctime_ns:
                seen = self._seen.get(str(stamp.path), {})
                _require_same(stamp.path, [(*stretch, found) for stretch, found in seen.items()])


def _require_same(file: Path, stretches: Iterable[tuple[int, int, int]]) -> None:
    buffer = memoryview(bytearray(_BLOCK))
    with open_regular(file) as (descriptor, _):
        for start, stop, expected in sorted(stretches):
            found = 0
            for index in range(start, stop, _BLOCK):
                block = buffer[: min(_BLOCK, stop - index)]
                if read_at(descriptor, block, index) < len(block):
                    raise changed(file)
                found = zlib.crc32(block, found)
            if found != expected:
                raise changed(file)
