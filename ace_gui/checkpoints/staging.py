"""Writing a folder beside its place and moving it there whole, so that half of one never shows."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ace_gui.checkpoints.durable_writes import sync, writing
from ace_gui.errors import OutputError
from ace_gui.output_files import output_error, refused, require_apart, there

_STAGE_SUFFIX: Final = ".partial"

MARK: Final = ".made-by-ace-workbench"
"""Name of the file in a staging folder that says whose it is: only such a folder is removed."""


def staging_folder(target: Path) -> Path:
    """Where the folder ``target`` is made: ``.NAME.partial`` beside it, on the same disk."""
    target = _real(target)
    return target.with_name(f".{target.name}{_STAGE_SUFFIX}")


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
    """Say that a folder is this program's, to be removed when it is not needed. Raises OSError."""
    (stage / MARK).touch()


def discard(stage: Path) -> None:
    """Remove a staging folder, if it is there. Raises OutputError where it is someone else's."""
    try:
        if there(stage):
            require_ours(stage)
            shutil.rmtree(stage)
    except OSError as error:
        raise output_error(stage, error) from None


def require_ours(stage: Path) -> None:
    """Raise OutputError unless this is a folder with the mark, or an empty one. Raises OSError."""
    folder = stage.is_dir() and not stage.is_symlink()
    if not folder or not ((stage / MARK).is_file() or not any(stage.iterdir())):
        raise _foreign(stage)


def _foreign(stage: Path) -> OutputError:
    return refused(
        stage,
        "This is in the way and was not made by this program. Move it away, or choose another "
        "output.",
    )


def promote(stage: Path, target: Path) -> None:
    """Make ``stage`` the folder ``target``, which must not exist or be empty.

    Everything in it is made durable first. The renaming completes the output: before it there is
    nothing at ``target``, after it everything. Raises OutputError and leaves ``stage`` as it is.
    """
    target = _real(target)
    try:
        for folder, _, files in os.walk(stage, topdown=False):
            for name in files:
                sync(Path(folder, name))
            sync(Path(folder))
        if os.name == "nt" and target.is_dir():  # renaming onto an empty folder is POSIX's
            target.rmdir()
        stage.rename(target)
        with suppress(OSError):  # afterwards: a stage that lost it would be someone else's
            (target / MARK).unlink()
        sync(target.parent)
    except OSError as error:
        raise output_error(target, error) from None


def check_output_folder(path: Path, inputs: Sequence[Path]) -> Path:
    """The absolute path of an output folder that can be made, given the inputs' folders.

    Raises OutputError unless it does not exist or is an empty folder, lies in no input's folder
    (by inode, so that links do not deceive) and can be created.
    """
    try:
        target = _real(path)
        if there(path):
            _require_empty_folder(path)
        if there(staging_folder(target)):
            require_ours(staging_folder(target))
        require_apart(path, inputs)
        _require_writable(target.parent)
    except ValueError:
        raise refused(path, "This is not a valid path.") from None
    except OSError as error:
        raise output_error(path, error) from None
    return target


def _require_empty_folder(path: Path) -> None:
    if not path.is_dir():
        raise refused(path, "This is not a folder. Choose a new or empty folder.")
    if os.path.ismount(path):
        raise refused(path, "This is where a disk is mounted. Choose a new folder inside it.")
    with os.scandir(path) as entries:
        if any(entries):
            raise refused(path, "The folder is not empty. Choose a new or empty folder.")


def _require_writable(parent: Path) -> None:
    """The nearest existing folder above lets us create names in it."""
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir():
        raise refused(parent, "This is not a folder. Choose another place.")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise refused(parent, "No permission to write here. Choose another folder.")


def _real(path: Path) -> Path:
    """Absolute, without links; unlike ``Path.resolve`` it does not fail on a loop of links."""
    return Path(os.path.realpath(path))
