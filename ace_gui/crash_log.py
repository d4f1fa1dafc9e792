"""Logs of crashes of Python itself, one file for each process.

``faulthandler`` writes the line of each thread into the process's own file. A file with content
therefore means a crash. An empty file belongs to a process that is running, or that was killed.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
from pathlib import Path
from typing import Final, TextIO

from ace_gui.paths import crashes_folder

_KEPT: Final = 5
"""Number of logs of reported crashes that stay on disk."""

_REPORTED: Final = ".reported"
_NEW: Final = ".log"
_OURS: Final = re.compile(rf"[a-z]+-[0-9]+{re.escape(_NEW)}({re.escape(_REPORTED)})?")


class CrashLog:
    """The log of this process, ``window`` or ``engine``; does nothing if it cannot be written."""

    def __init__(self, who: str, folder: Path | None = None) -> None:
        self._path = crash_file(who, os.getpid(), folder)
        self._file: TextIO | None = None
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("w", encoding="utf-8")
            faulthandler.enable(self._file)

    def close(self) -> None:
        """Remove the log: the process ends normally."""
        if self._file is not None:
            faulthandler.disable()
            self._file.close()
            self._file = None
            with contextlib.suppress(OSError):
                self._path.unlink()


def crash_file(who: str, pid: int, folder: Path | None = None) -> Path:
    """The log of the process with this id."""
    return (folder or crashes_folder()) / f"{who}-{pid}{_NEW}"


def take_words(file: Path) -> str:
    """The text of an ended process's crash log, which is now reported; empty without a crash."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
        if text:
            file.replace(file.with_name(f"{file.name}{_REPORTED}"))
        else:
            file.unlink()
    except OSError:
        return ""
    return text


def take_crash(folder: Path | None = None) -> str:
    """The log of the latest crash; empty if there was none.

    Empty logs of ended processes are removed, and all but the last few reported ones.
    """
    logs = folder or crashes_folder()
    log_files = [file for file in logs.glob("*") if _is_ours(file)]
    ended = [file for file in log_files if file.suffix == _NEW and not _runs(file)]
    texts = [take_words(file) for file in sorted(ended, key=_written)]
    reported = [file for file in logs.glob(f"*{_REPORTED}") if _is_ours(file)]
    for old in sorted(reported, key=_written)[:-_KEPT]:
        with contextlib.suppress(OSError):
            old.unlink()
    return next((text for text in reversed(texts) if text), "")


def _is_ours(file: Path) -> bool:
    """Whether a file has the name of such a log; links are not followed."""
    return bool(_OURS.fullmatch(file.name)) and not file.is_symlink() and file.is_file()


def _runs(file: Path) -> bool:
    """Whether the process may still be running: its log is empty, and its process id exists."""
    import psutil  # the window starts without it

    number = file.stem.rpartition("-")[2]
    with contextlib.suppress(OSError):
        if file.stat().st_size:
            return False
    return number.isdecimal() and psutil.pid_exists(int(number))


def _written(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
