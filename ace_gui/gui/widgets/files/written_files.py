"""What one can do with a file or folder that was written: open it, or see where it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices


def offers(path: Path) -> Mapping[str, Callable[[], object]]:
    """*Open* and *Show in folder*, by what the desktop opens such files with."""
    return {"Open": lambda: show(path), "Show in folder": lambda: show(path.parent)}


def show(path: Path) -> None:
    """Have the desktop open a file or a folder."""
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(path.absolute())))
