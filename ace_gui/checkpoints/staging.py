"""Write a folder in a temporary sibling folder and move it into position as a whole.

Half of an output is therefore never visible.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ace_gui.output_files import (
    MARK,
    MARK_TEXT,
    output_error,
    require_ours,
    staging_folder,
    sync,
    there,
    writing,
)


def new_stage(target: Path) -> Path:
    """A staging folder for ``target`` with nothing but its mark; an earlier one is removed.

    Raises OutputError, also where a folder is in the way that is not this program's.
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
    """A new staging folder for ``target``, to be promoted; removed where it was not.

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
        if os.name == "nt" and target.is_dir():  # renaming onto an empty folder is POSIX's
            target.rmdir()
        stage.rename(target)
        if not keep_mark:
            with suppress(OSError):  # afterwards: a stage that lost it would be someone else's
                (target / MARK).unlink()
        sync(target.parent)
    except OSError as error:
        raise output_error(target, error) from None
