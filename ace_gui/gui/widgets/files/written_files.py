"""Actions for a written file or folder: open it, or show its folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices


def offers(path: Path) -> Mapping[str, Callable[[], object]]:
    """*Open* and *Show in folder*, as far as the desktop supports them for such files."""
    return {"Open": lambda: show(path), "Show in folder": lambda: show(path.parent)}


def show(path: Path) -> None:
    """Open a file or a folder with the desktop."""
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(path.absolute())))
