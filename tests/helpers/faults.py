"""A disk that fails at the n-th thing asked of it, for tests of everything that writes."""

from __future__ import annotations

import builtins
import errno
import io
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ace_gui.errors import WorkbenchError

WRITING = ("write", "posix_fallocate", "ftruncate", "sendfile", "mkdir")
"""What a full disk refuses; renaming and removing still go."""

DURABLE = ("fsync", "rename", "replace")


class FailingDisk:
    """Counts what is asked of the disk below ``folder``, and fails at some of it.

    ``at``: the first that fails, counted from 1; 0: none. ``lasting``: so does everything after it,
    as on a full disk; else it alone, as on a bad one. ``count``: how much was asked.
    """

    def __init__(self, folder: Path, at: int, *, code: int = errno.ENOSPC, lasting: bool) -> None:
        self.count = 0
        self._folder = os.fspath(folder)
        self._at = at
        self._code = code
        self._lasting = lasting
        self._lock = threading.Lock()

    def request(self) -> None:
        """One more thing is asked; raises OSError if it is to fail."""
        with self._lock:
            self.count += 1
            fails = 0 < self._at <= self.count if self._lasting else self.count == self._at
        if fails:
            raise OSError(self._code, os.strerror(self._code))

    def holds(self, target: object) -> bool:
        """Whether a path or a descriptor is on this disk."""
        if isinstance(target, int):
            try:
                target = Path(f"/proc/self/fd/{target}").readlink()
            except OSError:
                return False
        return os.fspath(target).startswith(self._folder)


class _File(io.FileIO):
    """A file whose writes are asked of the disk."""

    disk: FailingDisk

    def write(self, data: Any) -> int:
        self.disk.request()
        return super().write(data) or 0


def complaint(action: Callable[[], object]) -> WorkbenchError | None:
    """The typed error that an action ends with; None where it does without one."""
    try:
        action()
    except WorkbenchError as error:
        return error
    return None


@contextmanager
def failing(disk: FailingDisk) -> Iterator[FailingDisk]:
    """Everything that this process writes to the disk goes by it."""
    with pytest.MonkeyPatch.context() as patch:
        for name in (*WRITING, *DURABLE):
            if hasattr(os, name):
                patch.setattr(os, name, _asking(getattr(os, name), disk))
        for module in (io, builtins):
            patch.setattr(module, "open", _opening(io.open, disk))
        yield disk


def _asking(call: Callable[..., Any], disk: FailingDisk) -> Callable[..., Any]:
    def asking(target: Any, *arguments: Any, **options: Any) -> Any:
        if disk.holds(target):
            disk.request()
        return call(target, *arguments, **options)

    return asking


def _opening(original: Callable[..., Any], disk: FailingDisk) -> Callable[..., Any]:
    def opening(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if set(mode) <= set("rbt") or not disk.holds(file):
            return original(file, mode, *arguments, **options)
        disk.request()  # a new file needs room for its name
        raw = _File(file, mode.replace("b", "").replace("t", ""))
        raw.disk = disk
        buffered = io.BufferedWriter(raw)
        if "b" in mode:
            return buffered
        return io.TextIOWrapper(buffered, encoding="utf-8", newline=options.get("newline"))

    return opening
