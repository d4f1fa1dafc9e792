"""Typed errors of writing, and durable writes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ace_gui.output_files import output_error as output_error


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
