"""Write a folder in a temporary sibling folder and move it into position as a whole.

Half of an output is therefore never visible. A claim keeps two processes from writing to the same
path at the same time: it is a lock on an empty file ``.NAME.lock`` next to the path. The system
releases it when its process ends for any reason, so the file of a killed process blocks nobody.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from ace_gui.errors import OutputError, WorkbenchError
from ace_gui.formatting import path_text
from ace_gui.output_files import (
    MARK,
    MARK_TEXT,
    check_output_folder,
    output_error,
    require_ours,
    staging_folder,
    sync,
    there,
    writing,
)


def new_stage(target: Path) -> Path:
    """A staging folder for ``target`` with nothing but its mark; an earlier one is removed.

    Raises OutputError, also if a folder that is not this program's is in the way.
    """
    stage = staging_folder(target)
    discard(stage)
    try:
        stage.mkdir(parents=True)
        mark(stage)
    except OSError as error:
        raise output_error(stage, error) from None
    return stage


@contextmanager
def staged(target: Path) -> Iterator[Path]:
    """A new staging folder for ``target``, which is removed unless the block promotes it.

    Writes that fail in the block raise OutputError or ResourceError.
    """
    stage = new_stage(target)
    try:
        with writing(stage):
            yield stage
    finally:
        discard(stage)


def mark(stage: Path) -> None:
    """Mark a folder as this program's, to be removed when it is not needed. Raises OSError."""
    (stage / MARK).write_bytes(MARK_TEXT)


def discard(stage: Path) -> None:
    """Remove a staging folder, if it is there. Raises OutputError if it is someone else's."""
    try:
        if there(stage):
            require_ours(stage)
            shutil.rmtree(stage)
    except OSError as error:
        raise output_error(stage, error) from None


def promote(stage: Path, target: Path, *, keep_mark: bool = False) -> None:
    """Make ``stage`` the folder ``target``, which must not exist or be empty.

    ``keep_mark``: the folder stays marked as one that this program may remove.

    Everything in it is made durable first. The renaming completes the output: before it there is
    nothing at ``target``, after it everything. Raises OutputError and leaves ``stage`` as it is.
    """
    target = Path(os.path.realpath(target))
    try:
        for folder, _, files in os.walk(stage, topdown=False):
            for name in files:
                sync(Path(folder, name))
            sync(Path(folder))
        if os.name == "nt" and target.is_dir():  # only POSIX renames onto an empty folder
            target.rmdir()
        stage.rename(target)
        if not keep_mark:
            with suppress(OSError):  # only now: a stage without it counts as someone else's
                (target / MARK).unlink()
        sync(target.parent)
    except OSError as error:
        raise output_error(target, error) from None


PATIENCE: Final = 0.2
"""Seconds to wait until another process has removed its lock."""

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
        if claim._file.is_symlink():
            sentence = "This link is in the way of a lock, and is not followed. Remove it."
            raise OutputError(f"{path_text(claim._file)}: {sentence}", path=claim._file)
        try:
            try:
                claim._lock.acquire()
            except Timeout:
                claim._file.touch()  # raises if no file can be made, which the lock waits for too
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
    """Claim ``path`` for the block. Raises OutputError if another process has claimed it."""
    claim = Claim.take(path)
    if claim is None:
        raise _taken(path)
    with claim:
        yield


@contextmanager
def claimed_output(path: Path, inputs: Sequence[Path]) -> Iterator[Path]:
    """Claim the result of ``check_output_folder`` for the block. Raises as both do."""
    try:
        target = check_output_folder(path, inputs)
    except OutputError:  # perhaps because another process is writing there
        if _is_taken(path):
            raise _taken(path) from None
        if _discard_published(path):
            raise _complete(path) from None
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
    except (OSError, ValueError, WorkbenchError):  # nothing could be written at this path
        return False
    if claim is None:
        return True
    with claim:
        return False


def _discard_published(path: Path) -> bool:
    """Remove what a kill has left beside a result, after the result was moved out of its store.

    Returns whether there was such a store. One that still has a result in it stays.
    """
    try:
        store = staging_folder(path)
        if not (path.is_dir() and any(path.iterdir()) and (store / MARK).is_file()):
            return False
        with claimed(path):
            if any(entry.is_dir() for entry in store.iterdir()):
                return False
            discard(store)
    except (OSError, ValueError, WorkbenchError):  # it is not ours, or cannot be removed
        return False
    return True


def _complete(path: Path) -> OutputError:
    sentence = "This was already complete when its merge was stopped. Use it, or choose another."
    return OutputError(f"{path_text(path)}: {sentence}", path=path)


def _taken(path: Path) -> OutputError:
    sentence = "Another merge or export is writing this. Wait for it, or choose another output."
    return OutputError(f"{path_text(path)}: {sentence}", path=path)
