"""The folders of merges in the cache: one for each, with a record next to it if it is kept."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QLockFile, QThreadPool

from ace_gui.caches import remove_old_stages
from ace_gui.engine.contract.distilled import Distilled
from ace_gui.engine.contract.events import MergeFinished
from ace_gui.gui.state.activity import MergeRun
from ace_gui.output_files import MARK, MARK_TEXT, STORE_COMPLETE, replacing, there
from ace_gui.paths import merges_folder
from ace_gui.recipe import Recipe
from ace_gui.recipe.values import ParameterValue

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_DAY: Final = 24 * 3600
KEPT_SECONDS: Final = 7 * _DAY
"""Time for which an unfinished merge stays, so that it can be continued, and an unused stage."""

RECORD: Final = ".json"
_TRASH: Final = ".trash"
_NAME: Final = re.compile(r"[0-9a-f]{32}")
_OF_TRASH: Final = re.compile(rf"{_NAME.pattern}\{_TRASH}")


class MergeStores:
    """Assigns folders to merges and removes them when they are no longer needed.

    An unfinished merge of a recipe always has the same folder. The next window can therefore
    continue the merge of a window that crashed. A finished merge stays as long as it has a record.
    A lock next to each folder shows that a window uses it. New merges go into the first of
    ``roots``; earlier merges may be in any of them. A root may be a user's own folder, so only what
    is named and marked as a merge is ever removed.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.roots: tuple[Path, ...] = (root or merges_folder(),)
        self._locks: dict[Path, QLockFile] = {}

    @property
    def root(self) -> Path:
        """The folder for new merges."""
        return self.roots[0]

    def new(self, recipe: Recipe) -> Path:
        """A folder for the recipe. Its parent exists, and it holds at most an unfinished merge."""
        self._make_root()
        store = self._folder(recipe)
        if _is_taken(store) or not self._lock(store):  # a kept merge, or in use by another window
            store = self.root / uuid.uuid4().hex
            self._lock(store)
        return store

    def _make_root(self) -> None:
        """Create the root folder, or a temporary one if the cache is not usable."""
        with contextlib.suppress(OSError):
            self.root.mkdir(parents=True, exist_ok=True)
        if not os.access(self.root, os.R_OK | os.W_OK | os.X_OK):
            self.roots = (Path(tempfile.mkdtemp(prefix="ace-merges-")), *self.roots[1:])

    def has(self, recipe: Recipe) -> bool:
        """Whether there is an unfinished merge of the recipe."""
        store = self._folder(recipe)
        return _is_ours(store, _NAME) and not _is_complete(store)

    def take(self, store: Path) -> bool:
        """Reserve a finished merge. False if it is gone or another window uses it."""
        return _is_complete(store) and _is_ours(store, _NAME) and self._lock(store)

    def release(self, store: Path) -> None:
        lock = self._locks.pop(store, None)
        if lock is not None:
            lock.unlock()

    def discard(self, store: Path) -> None:
        """Remove a folder of this window, and its record."""
        if _is_ours(store, _NAME):
            trash = store.with_name(f"{uuid.uuid4().hex}{_TRASH}")
            _give_up(store)
            store.rename(trash)  # deleted later, as it may have many gigabytes
            QThreadPool.globalInstance().start(lambda: _remove(trash))
        self.release(store)

    def close(self) -> None:
        """Remove this window's finished merges without a record; the others stay."""
        for store in tuple(self._locks):
            if _is_complete(store) and not record_of(store).exists():
                self.discard(store)
            else:
                self.release(store)

    def sweep(self, days: int = 0) -> None:
        """Remove in the background what closed windows have left without a record.

        ``days``: also remove finished merges that were made or renamed longer ago; 0: none.
        """
        locked = frozenset(self._locks)
        roots = self.roots

        def work() -> None:
            for root in roots:
                _sweep(root, locked, days)

        QThreadPool.globalInstance().start(work)

    def _folder(self, recipe: Recipe) -> Path:
        return self.root / hashlib.sha256(_canonical(recipe).encode()).hexdigest()[:32]

    def _lock(self, store: Path) -> bool:
        lock = lock_beside(store)
        if store not in self._locks and not lock.tryLock(0):
            return False
        self._locks.setdefault(store, lock)
        return True


def record_of(store: Path) -> Path:
    """The path of a finished merge's record."""
    return store.with_suffix(RECORD)


def store_of(record: Path) -> Path:
    """The merge that a record belongs to."""
    return record.with_suffix("")


def lock_beside(path: Path) -> QLockFile:
    """The lock next to a file or a folder that belongs to one window."""
    lock = QLockFile(f"{path}.lock")
    lock.setStaleLockTime(0)  # a merge may stay for days
    return lock


def _is_complete(store: Path) -> bool:
    return (store / STORE_COMPLETE).exists()


def _is_taken(store: Path) -> bool:
    """Whether the folder contains anything but an unfinished merge of this program."""
    if there(record_of(store)) or _is_complete(store):
        return True
    return there(store) and not _is_ours(store, _NAME)


def _is_ours(store: Path, name: re.Pattern[str]) -> bool:
    """Whether a folder has the name and the mark of this program. Links are not followed.

    Earlier versions left the mark empty. In that case the record of the merge is the proof.
    """
    try:
        mark = store / MARK
        if not name.fullmatch(store.name) or not stat.S_ISDIR(store.lstat().st_mode):
            return False
        if not stat.S_ISREG(mark.lstat().st_mode) or mark.stat().st_size > len(MARK_TEXT):
            return False
        content = mark.read_bytes()
    except OSError:
        return False
    return content == MARK_TEXT or (not content and _is_record(record_of(store)))


def _is_record(file: Path) -> bool:
    """Whether this is a regular file with a merge record."""
    with contextlib.suppress(OSError):
        named = file.suffix == RECORD and _NAME.fullmatch(file.stem)
        if named and stat.S_ISREG(file.lstat().st_mode):
            return read_record(file) is not None
    return False


def _give_up(store: Path) -> None:
    """Remove the record. Then only the mark still shows that the folder is this program's."""
    (store / MARK).write_bytes(MARK_TEXT)
    if _is_record(record_of(store)):
        record_of(store).unlink(missing_ok=True)


def _remove(store: Path) -> None:
    """Remove a folder of this program. The mark goes last, so the removal can be continued."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(store)):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            elif entry.name != MARK:
                Path(entry.path).unlink()
        if os.listdir(store) == [MARK]:  # noqa: PTH208
            (store / MARK).unlink()
            store.rmdir()


def _sweep(root: Path, locked: frozenset[Path], days: int) -> None:
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):  # missing, or no permission
        return
    remove_old_stages(root, KEPT_SECONDS)
    for path in list(root.iterdir()):
        if _is_ours(path, _OF_TRASH):
            _remove(path)
            continue
        if path.suffix == RECORD:
            store = store_of(path)
        else:
            store = path
        if store in locked or not (_is_ours(path, _NAME) or _is_record(path)):
            continue
        lock = lock_beside(store)
        if lock.tryLock(0):
            with contextlib.suppress(OSError):  # another window has just removed it
                _sweep_one(path, store, days)
            lock.unlock()


def _sweep_one(path: Path, store: Path, days: int) -> None:
    """Remove a store that nothing refers to, or a record without a store."""
    record = record_of(store)
    if path == record:
        if not there(store) and _seconds_since(record) > KEPT_SECONDS:
            record.unlink()
        return
    given_up = _is_complete(store) or _seconds_since(store) > KEPT_SECONDS
    expired = bool(days) and _seconds_since(record) > days * _DAY and _is_record(record)
    if expired or (given_up and not there(record)):
        _give_up(store)
        _remove(store)


def _seconds_since(file: Path) -> float:
    """Seconds since a file was written; 0 if there is none."""
    try:
        return time.time() - file.stat().st_mtime
    except OSError:
        return 0.0


def _canonical(value: object) -> str:
    """A text that is the same for equal recipes, whatever the order of their parameters."""
    if is_dataclass(value):
        parts = {field.name: getattr(value, field.name) for field in fields(value) if field.compare}
        return f"{type(value).__name__}{_canonical(parts)}"
    if isinstance(value, Mapping):
        return repr(sorted((str(name), _canonical(item)) for name, item in value.items()))
    if isinstance(value, tuple | list):
        return repr([_canonical(item) for item in value])
    if isinstance(value, int | float) and isfinite(value):
        return repr(value.as_integer_ratio())  # 1, 1.0 and True give the same text
    return repr(str(value) if isinstance(value, str) else value)


SCHEMA: Final = 1
_SHARED: Final = (  # the fields of a record that a MergeRun has, too
    *("recipe", "parameters", "name", "made", "bytes", "norm", "accuracies", "exported"),
)


@dataclass(frozen=True, kw_only=True)
class _Record:
    """The record of a finished merge. Its store, next to it, has its tensors and reports."""

    recipe: Recipe
    """What was merged."""
    parameters: Mapping[str, ParameterValue]
    """The method's, all resolved."""
    name: str
    """The person's own; empty without one."""
    made: float
    """The time of its end, in seconds since 1970."""
    seconds: float
    """The time of merging."""
    peak_bytes: int
    """Peak memory of the process."""
    bytes: int
    """Size of its tensors."""
    norm: float | None
    """Of the merged change, over the experts' mean; None if unknown."""
    accuracies: Mapping[str, float]
    """The measured scores by task."""
    exported: bool
    """Whether it was exported."""
    distilled: Distilled | None = None
    """What aligning it with its experts gave; None if it was not aligned."""
    schema: int = SCHEMA
    """Version of this layout."""


def write_record(run: MergeRun) -> None:
    """Write the record of a finished merge atomically. Raises OSError."""
    took = run.finished or MergeFinished(store=run.store, seconds=0.0, peak_bytes=0)
    shared = {name: getattr(run, name) for name in _SHARED}
    record = _Record(
        seconds=took.seconds, peak_bytes=took.peak_bytes, distilled=took.distilled, **shared
    )
    with replacing(record_of(run.store)) as fresh:
        fresh.write_bytes(_adapter().dump_json(record))


def read_record(file: Path) -> MergeRun | None:
    """The recorded merge without its reports, or None if this version cannot read the record."""
    try:
        record = _adapter().validate_json(file.read_bytes())
    except (OSError, ValueError):
        return None
    if record.schema != SCHEMA:
        return None
    store = store_of(file)
    took = MergeFinished(
        store=store,
        seconds=record.seconds,
        peak_bytes=record.peak_bytes,
        distilled=record.distilled,
    )
    shared = {name: getattr(record, name) for name in _SHARED}
    return MergeRun(store=store, finished=took, **shared)


@cache
def _adapter() -> TypeAdapter[_Record]:
    from pydantic import TypeAdapter  # takes a third of a second: not when the window opens

    return TypeAdapter(_Record)
