"""Where merges are: one folder each, in the cache, with a record beside those that are kept."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from PySide6.QtCore import QLockFile, QThreadPool

from ace_gui.engine.contract.jobs import STORE_COMPLETE
from ace_gui.paths import merges_folder
from ace_gui.recipe import Recipe

_DAY: Final = 24 * 3600
KEPT_SECONDS: Final = 7 * _DAY
"""How long an unfinished merge waits for someone to continue it."""

RECORD: Final = ".json"
_LOCK: Final = ".lock"
_TRASH: Final = ".trash"


class MergeStores:
    """Gives out folders for merges and removes them when they are no longer needed.

    An unfinished merge of a recipe has the same folder every time, so that a merge whose window
    died is continued by the next one. A finished one stays as long as it has a record. A lock
    beside each folder tells those of this window from those of others.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._root = root or merges_folder()
        self._others: tuple[Path, ...] = ()
        self._locks: dict[Path, QLockFile] = {}

    @property
    def root(self) -> Path:
        """The folder of all merges."""
        return self._root

    @property
    def roots(self) -> tuple[Path, ...]:
        """Every folder in which merges are kept; new ones go into the first."""
        return self._root, *self._others

    def look_in(self, folders: Sequence[Path]) -> None:
        """New merges go into the first of these; those in all of them are known."""
        self._root, self._others = folders[0], tuple(folders[1:])

    def new(self, recipe: Recipe) -> Path:
        """A folder for the recipe; its parent exists, and it holds at most an unfinished merge."""
        self._make_root()
        store = self._folder(recipe)
        if not self._lock(store) or _is_complete(store):  # another window's, or to be kept
            store = self._root / uuid.uuid4().hex
            self._lock(store)
        return store

    def _make_root(self) -> None:
        """Make the folder of all merges; where the cache cannot be used, a temporary one."""
        with contextlib.suppress(OSError):
            self._root.mkdir(parents=True, exist_ok=True)
        if not os.access(self._root, os.R_OK | os.W_OK | os.X_OK):
            self._root = Path(tempfile.mkdtemp(prefix="ace-merges-"))

    def has(self, recipe: Recipe) -> bool:
        """Whether an unfinished merge of the recipe waits in its folder."""
        store = self._folder(recipe)
        return os.path.exists(store) and not _is_complete(store)  # noqa: PTH110

    def take(self, store: Path) -> bool:
        """Make a finished merge this window's; False where it is gone, or another window's."""
        return _is_complete(store) and self._lock(store)

    def release(self, store: Path) -> None:
        """Leave a merge to whoever wants it next."""
        lock = self._locks.pop(store, None)
        if lock is not None:
            lock.unlock()

    def discard(self, store: Path) -> None:
        """Remove a folder of this window, and its record."""
        record_of(store).unlink(missing_ok=True)
        if store.exists():
            _remove_in_background(store)
        self.release(store)

    def close(self) -> None:
        """Remove the finished merges of this window that have no record; the others stay."""
        for store in tuple(self._locks):
            if _is_complete(store) and not record_of(store).exists():
                self.discard(store)
            else:
                self.release(store)

    def sweep(self, days: int = 0) -> None:
        """Remove, in the background, what windows that are gone left and nobody wants.

        ``days``: of finished merges also those that were made or renamed longer ago; 0: none.
        """
        own, roots = frozenset(self._locks), self.roots

        def work() -> None:
            for root in roots:
                _sweep(root, own, days)

        QThreadPool.globalInstance().start(work)

    def _folder(self, recipe: Recipe) -> Path:
        merged = replace(recipe, tasks=())  # which are no part of what is merged
        return self._root / hashlib.sha256(repr(merged).encode()).hexdigest()[:32]

    def _lock(self, store: Path) -> bool:
        lock = _lock_of(store)
        if store not in self._locks and not lock.tryLock(0):
            return False
        self._locks.setdefault(store, lock)
        return True


def record_of(store: Path) -> Path:
    """Where the record of a finished merge is."""
    return store.with_suffix(RECORD)


def store_of(record: Path) -> Path:
    """The merge that a record is of."""
    return record.with_suffix("")


def _lock_of(store: Path) -> QLockFile:
    lock = QLockFile(str(store.with_suffix(_LOCK)))
    lock.setStaleLockTime(0)  # a merge may stand for days
    return lock


def _is_complete(store: Path) -> bool:
    return (store / STORE_COMPLETE).exists()


def _remove_in_background(store: Path) -> None:
    """Out of the way at once, gone later: it may be many gigabytes."""
    trash = store.with_name(f"{uuid.uuid4().hex}{_TRASH}")
    store.rename(trash)
    QThreadPool.globalInstance().start(lambda: shutil.rmtree(trash, ignore_errors=True))


def _sweep(root: Path, own: frozenset[Path], days: int) -> None:
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):  # no such folder, or not for us
        return
    for store in root.iterdir():
        if store.suffix in (_LOCK, RECORD) or store in own:
            continue
        lock = _lock_of(store)
        if lock.tryLock(0):
            given_up = _is_complete(store) and not record_of(store).exists()
            expired = bool(days) and _seconds_since(record_of(store)) > days * _DAY
            if store.suffix == _TRASH or given_up or expired or _is_old(store):
                record_of(store).unlink(missing_ok=True)
                shutil.rmtree(store, ignore_errors=True)
            lock.unlock()


def _seconds_since(file: Path) -> float:
    """How long ago a file was written; 0 where there is none."""
    try:
        return time.time() - file.stat().st_mtime
    except OSError:
        return 0.0


def _is_old(store: Path) -> bool:
    """Whether an unfinished merge has waited too long."""
    try:
        return not _is_complete(store) and time.time() - store.stat().st_mtime > KEPT_SECONDS
    except OSError:  # another window has just taken it away
        return False
