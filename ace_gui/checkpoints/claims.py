"""Keep two processes from writing to the same path at the same time.

A claim is a lock on an empty file ``.NAME.lock`` next to the path. The system releases it when its
process ends for any reason, so the file of a killed process blocks nobody.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from ace_gui.errors import OutputError, WorkbenchError
from ace_gui.formatting import path_text
from ace_gui.output_files import check_output_folder, output_error

PATIENCE: Final = 0.2
"""Seconds in which another process may finish removing its lock."""

# File systems without locks, as some that are mounted over a network.
_NO_LOCKS: Final = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)

_log = logging.getLogger(__name__)


class Claim:
    """A path reserved for this process until the ``with`` block ends. Use ``take``."""

    def __init__(self, file: Path) -> None:
        self._file = file
        # Claims are made by one thread and may be given up by another.
        self._lock = FileLock(file, timeout=PATIENCE, thread_local=False, fallback_to_soft=False)

    @classmethod
    def take(cls, path: Path) -> Claim | None:
        """Claim ``path``, which need not exist; None if it is already claimed.

        Raises OutputError or ResourceError if the lock file cannot be written.
        """
        claim = cls(_lock_file(path))
        try:
            claim._lock.acquire()
        except Timeout:
            return None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise output_error(path, error) from None
            _log.warning(
                "%s: the file system has no locks; do not start a second merge into it", path.parent
            )
        return claim

    def __enter__(self) -> Claim:
        return self

    def __exit__(self, *_: object) -> None:
        """Release it, and remove the file unless another process took it."""
        with suppress(OSError):  # Windows does not remove an open file, and it does no harm
            if self._file.stat().st_size == 0:
                self._file.unlink()
        self._lock.release()


@contextmanager
def claimed(path: Path) -> Iterator[None]:
    """Claim ``path`` for the block. Raises OutputError if another process makes it just now."""
    claim = Claim.take(path)
    if claim is None:
        raise _taken(path)
    with claim:
        yield


@contextmanager
def claimed_output(path: Path, inputs: Sequence[Path]) -> Iterator[Path]:
    """``check_output_folder``, and what it gives is claimed for the block. Raises as both do."""
    try:
        target = check_output_folder(path, inputs)
    except OutputError:  # perhaps for what another process is doing there
        if _is_taken(path):
            raise _taken(path) from None
        raise
    with claimed(target):
        yield check_output_folder(path, inputs)  # another merge may have ended meanwhile


def _lock_file(path: Path) -> Path:
    path = Path(os.path.realpath(path))
    return path.with_name(f".{path.name}.lock")


def _is_taken(path: Path) -> bool:
    try:
        if not _lock_file(path).exists():
            return False
        claim = Claim.take(path)
    except (OSError, ValueError, WorkbenchError):  # no path at which anything could be written
        return False
    if claim is None:
        return True
    with claim:
        return False


def _taken(path: Path) -> OutputError:
    sentence = "Another merge or export is writing this. Wait for it, or choose another output."
    return OutputError(f"{path_text(path)}: {sentence}", path=path)
