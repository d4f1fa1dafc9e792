"""What can go wrong while writing, as typed errors, and making writes durable."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ace_gui.checkpoints.labels import place
from ace_gui.errors import OutputError, ResourceError, WorkbenchError

_FULL: Final = "The disk is full. Make room on it, or choose another disk."
_LARGE: Final = "The file is too large for this disk or limit. Choose smaller shards."
_FORBIDDEN: Final = "No permission to write here. Choose another folder."
_OCCUPIED: Final = "Something is already there. Choose a new or empty folder."
_IN_USE: Final = "This folder is in use. Choose a folder inside it."

_KNOWN: Final[Mapping[int, tuple[type[WorkbenchError], str]]] = {
    errno.ENOSPC: (ResourceError, _FULL),
    errno.EDQUOT: (ResourceError, _FULL),
    errno.EFBIG: (ResourceError, _LARGE),
    errno.EACCES: (OutputError, _FORBIDDEN),
    errno.EPERM: (OutputError, _FORBIDDEN),
    errno.EROFS: (OutputError, _FORBIDDEN),
    errno.EEXIST: (OutputError, _OCCUPIED),
    errno.ENOTEMPTY: (OutputError, _OCCUPIED),
    errno.EBUSY: (OutputError, _IN_USE),
}


def output_error(path: Path, error: OSError) -> WorkbenchError:
    """A sentence for a failed write: ResourceError if room is missing, else OutputError."""
    unknown = f"Cannot be written ({error.strerror}). Check the disk, or choose another."
    kind, sentence = _KNOWN.get(error.errno or 0, (OutputError, unknown))
    return kind(f"{place(path)}: {sentence}", path=path, details=str(error))


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """A write that fails in the block raises OutputError or ResourceError, about its file if known.

    For everything in ``folder`` that is written without a name of its own for the error.
    """
    try:
        yield
    except OSError as error:
        known = error.filename2 or error.filename  # the second is what a copy or a move writes
        path = Path(known) if isinstance(known, str) else folder
        raise output_error(path, error) from error


def sync(path: Path) -> None:
    """Make a file, or a folder's list of names, survive a power loss. Raises OSError."""
    if os.name == "nt" and path.is_dir():  # Windows has no such thing for folders
        return
    flags = os.O_RDONLY if path.is_dir() or os.name != "nt" else os.O_RDWR
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
