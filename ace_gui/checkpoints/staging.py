"""Writing a folder beside its place and moving it there whole, so that half of one never shows."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ace_gui.checkpoints.labels import place
from ace_gui.checkpoints.output import output_error, sync, writing
from ace_gui.errors import OutputError

_STAGE_SUFFIX: Final = ".partial"


def staging_folder(target: Path) -> Path:
    """Where the folder ``target`` is made: ``.NAME.partial`` beside it, on the same disk."""
    target = _real(target)
    return target.with_name(f".{target.name}{_STAGE_SUFFIX}")


def new_stage(target: Path) -> Path:
    """An empty staging folder for ``target``; an earlier one is removed. Raises OutputError."""
    stage = staging_folder(target)
    try:
        discard(stage)
        stage.mkdir(parents=True)
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


def discard(stage: Path) -> None:
    """Remove a staging folder, if it is there. Raises OutputError."""
    try:
        if stage.is_symlink():
            stage.unlink()
        elif stage.exists():
            shutil.rmtree(stage)
    except OSError as error:
        raise output_error(stage, error) from None


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
        if os.path.lexists(path):
            _require_empty_folder(path)
        _require_apart(target, inputs)
        _require_writable(target.parent)
    except ValueError:
        raise _refused(path, "This is not a valid path.") from None
    except OSError as error:
        raise output_error(path, error) from None
    return target


def _require_empty_folder(path: Path) -> None:
    if not path.is_dir():
        raise _refused(path, "This is not a folder. Choose a new or empty folder.")
    if os.path.ismount(path):
        raise _refused(path, "This is where a disk is mounted. Choose a new folder inside it.")
    with os.scandir(path) as entries:
        if any(entries):
            raise _refused(path, "The folder is not empty. Choose a new or empty folder.")


def _require_apart(target: Path, inputs: Sequence[Path]) -> None:
    folders = {_key(folder): folder for folder in inputs if folder.exists()}
    for folder in (target, *target.parents):
        if folder.exists() and (owner := folders.get(_key(folder))):
            sentence = f"This is inside the model {place(owner)}. Choose a folder outside it."
            raise _refused(target, sentence)


def _require_writable(parent: Path) -> None:
    """The nearest existing folder above lets us create names in it."""
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir():
        raise _refused(parent, "This is not a folder. Choose another place.")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise _refused(parent, "No permission to write here. Choose another folder.")


def _real(path: Path) -> Path:
    """Absolute, without links; unlike ``Path.resolve`` it does not fail on a loop of links."""
    return Path(os.path.realpath(path))


def _key(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino


def _refused(path: Path, sentence: str) -> OutputError:
    return OutputError(f"{place(path)}: {sentence}", path=path)
