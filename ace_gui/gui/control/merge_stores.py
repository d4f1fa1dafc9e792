"""Where merges wait before they are exported: one folder each, in the cache."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Final

from PySide6.QtCore import QLockFile, QThreadPool

from ace_gui.engine.contract.jobs import STORE_COMPLETE
from ace_gui.paths import merges_folder
from ace_gui.recipe import Recipe

KEPT_SECONDS: Final = 7 * 24 * 3600
"""How long an unfinished merge waits for someone to continue it."""

_TRASH: Final = ".trash"


class MergeStores:
    """Gives out folders for merges and removes them when they are no longer needed.

    A recipe has the same folder every time, so that a merge whose window died is continued by the
    next one. A lock beside each folder tells those of this window from those left behind.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._root = root or merges_folder()
        self._locks: dict[Path, QLockFile] = {}

    def new(self, recipe: Recipe) -> Path:
        """The recipe's folder; its parent exists, and it holds at most an unfinished merge."""
        self._make_root()
        store = self._folder(recipe)
        if not self._lock(store):  # another window merges the same
            store = self._root / uuid.uuid4().hex
            self._lock(store)
        elif _is_complete(store):
            _remove_in_background(store)
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

    def discard(self, store: Path) -> None:
        """Remove a folder of this window."""
        if store.exists():
            _remove_in_background(store)
        lock = self._locks.pop(store, None)
        if lock is not None:
            lock.unlock()

    def close(self) -> None:
        """Remove the finished merges of this window; unfinished ones stay to be continued."""
        for store, lock in tuple(self._locks.items()):
            if _is_complete(store):
                self.discard(store)
            else:
                lock.unlock()
        self._locks.clear()

    def sweep(self) -> None:
        """Remove, in the background, what windows that are gone left and nobody continued."""
        own = frozenset(self._locks)
        QThreadPool.globalInstance().start(lambda: _sweep(self._root, own))

    def _folder(self, recipe: Recipe) -> Path:
        merged = replace(recipe, tasks=())  # which are no part of what is merged
        return self._root / hashlib.sha256(repr(merged).encode()).hexdigest()[:32]

    def _lock(self, store: Path) -> bool:
        lock = _lock_of(store)
        if store not in self._locks and not lock.tryLock(0):
            return False
        self._locks.setdefault(store, lock)
        return True


def _lock_of(store: Path) -> QLockFile:
    lock = QLockFile(str(store.with_suffix(".lock")))
    lock.setStaleLockTime(0)  # a merge may stand for days
    return lock


def _is_complete(store: Path) -> bool:
    return (store / STORE_COMPLETE).exists()


def _remove_in_background(store: Path) -> None:
    """Out of the way at once, gone later: it may be many gigabytes."""
    trash = store.with_name(f"{uuid.uuid4().hex}{_TRASH}")
    store.rename(trash)
    QThreadPool.globalInstance().start(lambda: shutil.rmtree(trash, ignore_errors=True))


def _sweep(root: Path, own: frozenset[Path]) -> None:
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):  # no such folder, or not for us
        return
    for store in root.iterdir():
        if store.suffix == ".lock" or store in own:
            continue
        lock = _lock_of(store)
        if lock.tryLock(0):
            if store.suffix == _TRASH or _is_complete(store) or _is_old(store):
                shutil.rmtree(store, ignore_errors=True)
            lock.unlock()


def _is_old(store: Path) -> bool:
    try:
        return time.time() - store.stat().st_mtime > KEPT_SECONDS
    except OSError:  # another window has just taken it away
        return False
