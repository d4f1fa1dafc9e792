"""Everything that this program keeps to save time, when it is used, and its removal.

Every cache can be emptied at any time: what is missing is made again. Finished merges of the window
are not among them; *Clean up runs* deletes those.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ace_gui.errors import RecipeError
from ace_gui.output_files import MARK, output_error, refused
from ace_gui.paths import (
    architectures_folder,
    conversions_folder,
    inspections_folder,
    merges_folder,
    methods_list_folder,
    scores_folder,
    statistics_folder,
)


@dataclass(frozen=True, kw_only=True)
class Cache:
    """One kind of results that are kept."""

    name: str
    """As the command line calls it."""

    title: str
    """What is kept, for people."""

    folder: Callable[[], Path]
    """Where it is kept."""

    holds: Callable[[Path], bool] = lambda _: True
    """Whether an entry of the folder belongs to it."""

    key: str
    """What an entry is found by. Another value means another entry."""

    verified: str
    """What is compared before an entry is used."""

    removed: str
    """What removes entries without being asked."""

    def entries(self) -> tuple[Path, ...]:
        """The files and folders of the cache; none if it cannot be read."""
        try:
            return tuple(sorted(filter(self.holds, self.folder().iterdir())))
        except OSError:
            return ()

    def bytes(self) -> int:
        """The size of all files on the disk."""
        return sum(map(_bytes_of, self.entries()))

    def empty(self) -> int:
        """Remove everything; returns the number of bytes freed.

        Raises OutputError for the first entry that cannot be removed, and for a folder that is a
        link: its files may not be this program's.
        """
        if self.folder().is_symlink():
            raise refused(self.folder(), "This is a link. Remove it, or what it points to.")
        freed = 0
        for entry in self.entries():
            size = _bytes_of(entry)
            try:
                _remove(entry)
            except FileNotFoundError:  # another process was faster
                continue
            except OSError as error:
                raise output_error(entry, error) from None
            freed += size
        return freed


_STAGE: Final = re.compile(r"\.?stage-[0-9a-f]{24}(\.json|\.lock|\.partial)?")


def is_of_stage(path: Path) -> bool:
    """Whether this is the result of a recipe's stage, an unfinished one, its record or its lock.

    Their folder may be a person's own, so a folder must have this program's mark, too.
    """
    if not _STAGE.fullmatch(path.name):
        return False
    return not path.is_dir() or path.is_symlink() or (path / MARK).is_file()


def remove_old_stages(folder: Path, seconds: float) -> None:
    """Remove results of stages in ``folder`` that were not used for this time."""
    for entry in filter(is_of_stage, list(folder.iterdir())):
        record = entry.with_name(f"{entry.stem}.json")
        if record.exists():
            used = record
        else:
            used = entry
        with contextlib.suppress(OSError):  # another process may be removing it
            if time.time() - used.lstat().st_mtime > seconds:
                _remove(entry)


def _remove(entry: Path) -> None:
    """Remove a file, a link, or a folder with its content. Raises OSError."""
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink()


CACHES: Final = (
    Cache(
        name="stages",
        title="Merged stages of recipes with several",
        folder=merges_folder,
        holds=is_of_stage,
        key="the stage's recipe; names, sizes and times of the files of its models and data",
        verified=(
            "SHA-256 of every input (weights, side files, data) and of every file of the result; "
            "code of this program and of added methods; versions of libraries; no links"
        ),
        removed="the window, a week after the last use",
    ),
    Cache(
        name="converted",
        title="Converted PyTorch pickles",
        folder=conversions_folder,
        key="paths, sizes and times of the pickles and their side files",
        verified="SHA-256 of every source and of every converted file",
        removed="a newer conversion of the same model",
    ),
    Cache(
        name="statistics",
        title="Measured statistics and learned values",
        folder=statistics_folder,
        key=(
            "examples and their settings; paths, sizes and times of the models' files; parameters; "
            "code, versions, device"
        ),
        verified="SHA-256 of every part, and of the list of parts",
        removed="nothing",
    ),
    Cache(
        name="scores",
        title="Scores, with the answers they come from",
        folder=scores_folder,
        key=(
            "task and examples; paths, sizes and times of the model's files; config; code, "
            "versions, device"
        ),
        verified="SHA-256 of the entry",
        removed="the least recently used, above 128 MB",
    ),
    Cache(
        name="inspection",
        title="Figures of single tensors",
        folder=inspections_folder,
        key=(
            "tensor and its place; paths, sizes and times of the files; method, values, "
            "measurements; code, versions, device"
        ),
        verified="SHA-256 of the entry",
        removed="the least recently used, above 128 MB",
    ),
    Cache(
        name="architectures",
        title="Descriptions of models",
        folder=architectures_folder,
        key="config; names and shapes of the tensors; code, version of transformers",
        verified="SHA-256 of the entry and its name; names of the tensors",
        removed="the oldest of more than 64",
    ),
    Cache(
        name="methods",
        title="The list of methods",
        folder=methods_list_folder,
        key="code of this program",
        verified="nothing; it is only shown",
        removed="a newer list",
    ),
)


def caches_named(names: str) -> tuple[Cache, ...]:
    """The caches of a list such as ``scores,stages``, or ``all``. Raises RecipeError."""
    by_name = {cache.name: cache for cache in CACHES}
    if names == "all":
        return CACHES
    chosen = []
    for name in names.split(","):
        if name.strip() not in by_name:
            listed = ", ".join(by_name)
            raise RecipeError(f"There is no cache {name.strip()!r}; name some of {listed}, or all.")
        chosen.append(by_name[name.strip()])
    return tuple(chosen)


def _bytes_of(entry: Path) -> int:
    """The size of a file, or of all files in a folder; links are not followed."""
    return sum(_sizes(entry))


def _sizes(entry: Path) -> Iterator[int]:
    try:
        if not entry.is_dir() or entry.is_symlink():
            yield entry.lstat().st_size
            return
        for folder, _, names in os.walk(entry):
            for name in names:
                yield Path(folder, name).lstat().st_size
    except OSError:  # removed meanwhile
        return
