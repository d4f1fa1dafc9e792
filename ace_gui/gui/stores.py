"""Where merges wait before they are exported: one folder each, in the cache."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

from PySide6.QtCore import QLockFile, QStandardPaths, QThreadPool


class MergeStores:
    """Gives out folders for merges and removes them when they are no longer needed.

    A lock beside each folder tells those of this window from those that a window left behind.
    """

    def __init__(self, root: Path | None = None) -> None:
        cache = QStandardPaths.StandardLocation.CacheLocation
        self._root = root or Path(QStandardPaths.writableLocation(cache)) / "merges"
        self._locks: dict[Path, QLockFile] = {}

    def new(self) -> Path:
        """A folder name of its own, not made yet; its parent is."""
        self._root.mkdir(parents=True, exist_ok=True)
        store = self._root / uuid.uuid4().hex
        lock = QLockFile(str(store.with_suffix(".lock")))
        lock.setStaleLockTime(0)  # a merge may stand for days
        lock.tryLock(0)
        self._locks[store] = lock
        return store

    def discard(self, store: Path) -> None:
        """Remove a folder of this window, in the background: it may be many gigabytes."""
        lock = self._locks.pop(store, None)
        if lock is not None:
            lock.unlock()
        QThreadPool.globalInstance().start(lambda: _remove(store))

    def discard_all(self) -> None:
        """Remove every folder of this window."""
        for store in tuple(self._locks):
            self.discard(store)

    def sweep(self) -> None:
        """Remove, in the background, what windows that are gone left behind."""
        own = frozenset(self._locks)
        QThreadPool.globalInstance().start(lambda: _sweep(self._root, own))


def _sweep(root: Path, own: frozenset[Path]) -> None:
    if not root.is_dir():
        return
    for store in root.iterdir():
        if store.suffix == ".lock" or store in own:
            continue
        lock = QLockFile(str(store.with_suffix(".lock")))
        lock.setStaleLockTime(0)
        if lock.tryLock(0):
            _remove(store)
            lock.unlock()


def _remove(store: Path) -> None:
    shutil.rmtree(store, ignore_errors=True)
