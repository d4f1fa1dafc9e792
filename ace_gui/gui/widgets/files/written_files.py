"""What one can do with a file or folder that was written: open it, or see where it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices

from ace_gui.gui.words import tr


def offers(path: Path) -> Mapping[str, Callable[[], object]]:
    """*Open* and *Show in folder*, by what the desktop opens such files with."""
    return {tr("Open"): lambda: show(path), tr("Show in folder"): lambda: show(path.parent)}


def show(path: Path) -> None:
    """Have the desktop open a file or a folder."""
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(path.absolute())))
