"""Where a process writes its last words, should Python itself be brought down.

``faulthandler`` writes which line each thread was at into a file of the process's own. A file with
something in it is therefore of a crash; an empty one is of a process that runs, or was killed.
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
"""Reported crashes that stay on disk."""

_REPORTED: Final = ".reported"
_NEW: Final = ".log"
_OURS: Final = re.compile(rf"[a-z]+-[0-9]+{re.escape(_NEW)}({re.escape(_REPORTED)})?")


class CrashLog:
    """The file of this process, called ``window`` or ``engine``; nothing where none can be."""

    def __init__(self, who: str, folder: Path | None = None) -> None:
        self._path = crash_file(who, os.getpid(), folder)
        self._file: TextIO | None = None
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("w", encoding="utf-8")
            faulthandler.enable(self._file)

    def close(self) -> None:
        """All went well: nothing stays."""
        if self._file is not None:
            faulthandler.disable()
            self._file.close()
            self._file = None
            with contextlib.suppress(OSError):
                self._path.unlink()


def crash_file(who: str, pid: int, folder: Path | None = None) -> Path:
    """Where the process with this number writes."""
    return (folder or crashes_folder()) / f"{who}-{pid}{_NEW}"


def take_words(file: Path) -> str:
    """The crash log of an ended process, which is kept as reported; empty if there is none."""
    try:
        words = file.read_text(encoding="utf-8", errors="replace")
        if words:
            file.replace(file.with_name(f"{file.name}{_REPORTED}"))
        else:
            file.unlink()
    except OSError:
        return ""
    return words


def take_crash(folder: Path | None = None) -> str:
    """The last words of the process that crashed latest; empty where none did.

    What processes that are gone left is tidied up.
    """
    index = folder or crashes_folder()
    ours = [file for file in index.glob("*") if _is_ours(file)]
    found = [file for file in ours if file.suffix == _NEW and not _runs(file)]
    taken = [take_words(file) for file in sorted(found, key=_written)]
    reported = [file for file in index.glob(f"*{_REPORTED}") if _is_ours(file)]
    for old in sorted(reported, key=_written)[:-_KEPT]:
        with contextlib.suppress(OSError):
            old.unlink()
    return next((words for words in reversed(taken) if words), "")


def _is_ours(file: Path) -> bool:
    """Whether a file is named as one of these logs; links are not followed."""
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
