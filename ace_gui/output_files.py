"""Checks of output paths: no input and no file of another program is overwritten.

Every file and folder that a user names for writing is checked here, on the command line and in the
window. Files are written completely or not at all. Needs no torch.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from ace_gui.errors import OutputError, ResourceError, WorkbenchError
from ace_gui.formatting import path_text

MARK_BYTES: Final = 512
"""A file of this program has its mark in this number of first bytes."""

UNFINISHED: Final = ".partial"
"""Suffix of files and folders that are being written."""

RECIPE: Final = "merge_recipe.yaml"
"""The recipe in the folder of a merged model."""

STORE_COMPLETE: Final = "complete"
"""Name of the file that marks a merge store as complete."""

MARK: Final = ".made-by-ace-workbench"
"""Marker file in a staging folder. Only folders with it are removed."""

MARK_TEXT: Final = b"ACE workbench made this folder, and removes it when nobody needs it.\n"
"""Content of the marker file."""

_FORBIDDEN: Final = "No permission to write here. Choose another folder."
_NOWHERE: Final = "There is no such folder. Create it first, or choose another."
_FULL: Final = "The disk is full. Free some space, or choose another disk."
_OCCUPIED: Final = "Something is already there. Choose a new or empty folder."
_TOO_LARGE: Final = (
    "The file is too large for this disk or limit. Choose another disk, or smaller shards if it is "
    "a model."
)

_KNOWN: Final[Mapping[int, tuple[type[WorkbenchError], str]]] = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), (ResourceError, _FULL)),
    errno.EFBIG: (ResourceError, _TOO_LARGE),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), (OutputError, _FORBIDDEN)),
    **dict.fromkeys((errno.EEXIST, errno.ENOTEMPTY), (OutputError, _OCCUPIED)),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR), (OutputError, _NOWHERE)),
    errno.EBUSY: (OutputError, "This folder is in use. Choose a folder inside it."),
    errno.ENAMETOOLONG: (OutputError, "The name is too long for this disk. Choose a shorter one."),
    errno.ELOOP: (OutputError, "This link points to itself. Choose another name."),
}


def output_error(path: Path, error: OSError) -> WorkbenchError:
    """A sentence for a failed write: ResourceError if room is missing, else OutputError."""
    unknown = f"Cannot be written ({error.strerror}). Check the disk, or choose another."
    kind, sentence = _KNOWN.get(error.errno or 0, (OutputError, unknown))
    return kind(f"{path_text(path)}: {sentence}", path=path, details=str(error))


def refused(path: Path, sentence: str) -> OutputError:
    """An OutputError with ``sentence`` about an output that cannot be written to ``path``."""
    return OutputError(f"{path_text(path)}: {sentence}", path=path)


def write_file(
    path: Path, data: bytes, inputs: Iterable[Path], *, mark: bytes = b"", overwrite: bool = False
) -> None:
    """Write a whole file or nothing, if ``check_file`` allows it.

    Raises OutputError or ResourceError, and leaves an existing file unchanged.
    """
    target = check_file(path, inputs, mark=mark, overwrite=overwrite)
    try:
        with replacing(target) as fresh:
            fresh.write_bytes(data)
            sync(fresh)
    except OSError as error:
        raise output_error(path, error) from None


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file to write, which replaces ``path`` in one step when the block ends.

    If the block or that step fails, ``path`` is unchanged. Raises OSError.
    """
    fresh = path.with_name(f".{uuid.uuid4().hex}{UNFINISHED}")
    try:
        yield fresh
        if path.exists():
            fresh.chmod(stat.S_IMODE(path.stat().st_mode))
        fresh.replace(path)
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn an OSError of the block into an OutputError or ResourceError that names the file.

    It names ``folder`` if the file is not known.
    """
    try:
        yield
    except OSError as error:
        name = error.filename2 or error.filename  # filename2 is what a copy or a move writes
        if isinstance(name, str):
            path = Path(name)
        else:
            path = folder
        raise output_error(path, error) from error


def sync(path: Path) -> None:
    """Make a file, or a folder's list of names, survive a power loss. Raises OSError."""
    if os.name == "nt" and path.is_dir():  # Windows cannot sync folders
        return
    if path.is_dir() or os.name != "nt":
        flags = os.O_RDONLY
    else:
        flags = os.O_RDWR
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_file(
    path: Path, inputs: Iterable[Path], *, mark: bytes = b"", overwrite: bool = False
) -> Path:
    """The absolute path of a file that may be written, with links resolved.

    ``inputs``: files and folders of models and the recipe. The file must not be one of them, by
    inode, nor lie in one of the folders. An existing file must be regular. It must be empty or
    start with ``mark`` (written by this program), unless ``overwrite``. Raises OutputError.
    """
    try:
        target = Path(os.path.realpath(path))
        inputs = tuple(inputs)
        require_outside(path, inputs)
        if there(target):
            _require_replaceable(path, target, inputs, mark, overwrite=overwrite)
        elif not target.parent.is_dir():
            raise refused(path, _NOWHERE)
        elif not os.access(target.parent, os.W_OK | os.X_OK):
            raise refused(path, _FORBIDDEN)
    except ValueError:
        raise refused(path, "This is not a valid path.") from None
    except OSError as error:
        raise output_error(path, error) from None
    return target


def staging_folder(target: Path) -> Path:
    """The folder in which ``target`` is built: ``.NAME.partial`` in the same parent, on the same
    disk.
    """
    target = Path(os.path.realpath(target))
    return target.with_name(f".{target.name}{UNFINISHED}")


def require_ours(stage: Path) -> None:
    """Raise OutputError unless this is a folder with the mark, or an empty one. Raises OSError."""
    folder = stage.is_dir() and not stage.is_symlink()
    if not folder or not ((stage / MARK).is_file() or not any(stage.iterdir())):
        raise refused(
            stage,
            "This is in the way and was not made by this program. Move it away, or choose another "
            "output.",
        )


def check_output_folder(path: Path, inputs: Iterable[Path]) -> Path:
    """The absolute path of an output folder that can be created, given the inputs' folders.

    Raises OutputError unless it does not exist or is an empty folder, lies in no input's folder (by
    inode, so links are recognised) and can be created.
    """
    try:
        target = Path(os.path.realpath(path))  # unlike `resolve`, it accepts loops of links
        if there(path):
            _require_empty_folder(path)
        if there(staging_folder(target)):
            require_ours(staging_folder(target))
        require_outside(path, inputs)
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
        raise refused(path, "This is the mount point of a disk. Choose a new folder inside it.")
    with os.scandir(path) as entries:
        if any(entries):
            raise refused(path, "The folder is not empty. Choose a new or empty folder.")


def _require_writable(parent: Path) -> None:
    """Raise OutputError unless the nearest existing folder above is writable."""
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir():
        raise refused(parent, "This is not a folder. Choose another path.")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise refused(parent, "No permission to write here. Choose another folder.")


def there(path: Path) -> bool:
    """Whether the path exists, also as a broken link. Raises OSError for an invalid name."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def require_outside(path: Path, inputs: Iterable[Path]) -> None:
    """Raise OutputError if ``path``, as given or with links resolved, lies in an input's folder.

    Folders are compared by inode, so links are recognised.
    """
    folders = {}
    for folder in inputs:
        if _is_folder(folder):
            folders.update(dict.fromkeys(_keys(folder), folder))
    target = Path(os.path.realpath(path))
    for above in (target, *target.parents, *path.absolute().parents):
        owner = next((folders[key] for key in _keys(above) if key in folders), None)
        if owner is not None:
            sentence = f"This is inside the model {path_text(owner)}. Choose a folder outside it."
            raise refused(path, sentence)


def _require_replaceable(
    path: Path, target: Path, inputs: tuple[Path, ...], mark: bytes, *, overwrite: bool
) -> None:
    status = target.lstat()
    if not stat.S_ISREG(status.st_mode):
        raise refused(path, "This is not a regular file. Choose the name of a file.")
    if (status.st_dev, status.st_ino) in set(_files_of(inputs)):
        raise refused(path, "This is a file of an input. Choose another name.")
    if not overwrite and status.st_size and not _is_ours(target, mark):
        raise refused(
            path,
            "This file exists and was not made by this program. Choose another name (on the "
            "command line, --overwrite replaces it).",
        )


def _is_ours(target: Path, mark: bytes) -> bool:
    if not mark:
        return False
    with target.open("rb") as file:
        return mark in file.read(MARK_BYTES)


def _files_of(inputs: Iterable[Path]) -> Iterator[tuple[int, int]]:
    """Device and inode of every input, and of every file in its folder."""
    for path in inputs:
        yield from _keys(path)
        for folder, _, names in os.walk(path):
            for name in names:
                yield from _keys(Path(folder, name))


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises without permission


def _keys(path: Path) -> Iterator[tuple[int, int]]:
    """Device and inode, with links resolved; empty if the path cannot be examined."""
    with contextlib.suppress(OSError, ValueError):
        status = path.stat()
        yield status.st_dev, status.st_ino
