"""File dialogs that start in the last used folder, and actions for a written file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QFileDialog,
    QListView,
    QMessageBox,
    QTreeView,
    QWidget,
)

from ace_gui.errors import WorkbenchError
from ace_gui.gui.state.settings import Settings

Use = Callable[[list[Path]], object]

MODELS: Final = "models"
PICTURES: Final = "pictures"
TABLES: Final = "tables"
DATA: Final = "data"
"""Purposes of dialogs, each with its own folder."""


def show_once(dialog: QDialog, *, modal: bool = True) -> None:
    """Show a dialog, which is deleted when it is closed."""
    dialog.finished.connect(dialog.deleteLater)
    (dialog.open if modal else dialog.show)()


def ask_folders(
    parent: QWidget, title: str, purpose: str, use: Use, *, start: Path | None = None
) -> QFileDialog:
    """Ask for one or several folders; ``start`` is the initial folder of the first dialog."""
    dialog = QFileDialog(parent, title)
    dialog.setFileMode(QFileDialog.FileMode.Directory)
    dialog.setOption(QFileDialog.Option.ShowDirsOnly)
    # the system's dialog takes only one folder
    dialog.setOption(QFileDialog.Option.DontUseNativeDialog)
    for kind in (QListView, QTreeView):
        for view in dialog.findChildren(kind):
            view.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
    return _show(dialog, purpose, use, start)


class _Paths(QFileDialog):
    """Opens what is selected, also a folder. A double click on a folder shows its content."""

    def accept(self) -> None:
        chosen = self.selectedFiles()
        if not any(Path(text).is_dir() for text in chosen):
            super().accept()
            return
        self.filesSelected.emit(chosen)
        self.done(QDialog.DialogCode.Accepted)


def ask_paths(
    parent: QWidget, title: str, kinds: str, purpose: str, use: Use, *, start: Path | None = None
) -> QFileDialog:
    """Ask for files or folders, one or several; ``start``: as for ``ask_folders``."""
    dialog = _Paths(parent, title, "", kinds)
    dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
    # the system's dialog takes either files or folders
    dialog.setOption(QFileDialog.Option.DontUseNativeDialog)
    return _show(dialog, purpose, use, start)


def ask_files(parent: QWidget, title: str, kinds: str, purpose: str, use: Use) -> QFileDialog:
    """Ask for an existing file."""
    dialog = QFileDialog(parent, title, "", kinds)
    dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
    return _show(dialog, purpose, use, None)


def ask_target(
    parent: QWidget, title: str, name: str, kinds: str, purpose: str, use: Use
) -> QFileDialog:
    """Ask where to write a file, with ``name`` proposed; the first of ``kinds`` is the default.

    ``use`` writes the file; a failure is reported.
    """

    def write(paths: list[Path]) -> None:
        try:
            use(paths)
        except WorkbenchError as error:
            QMessageBox.warning(parent, title, error.sentence)

    dialog = QFileDialog(parent, title, "", kinds)
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setFileMode(QFileDialog.FileMode.AnyFile)
    path = Path(name)
    chosen = _show(dialog, purpose, write, path.parent if path.is_absolute() else None)
    dialog.selectFile(path.name)
    return chosen


def folder_of(purpose: str) -> Path | None:
    """The last folder of the dialogs for this purpose, or None if there is none any more."""
    folder = Settings().folder(purpose)
    if folder is not None and folder.is_dir():
        return folder
    return None


def _show(dialog: QFileDialog, purpose: str, use: Use, start: Path | None) -> QFileDialog:
    begin = start if start is not None and start.is_dir() else folder_of(purpose)
    if begin is not None:
        dialog.setDirectory(str(begin))

    def take(names: Sequence[str]) -> None:
        paths = [Path(text) for text in names]
        # Qt also lists the parent folder if several folders are selected in it
        above = {parent for path in paths for parent in path.parents}
        paths = [path for path in paths if path not in above] or paths
        Settings().remember_folder(purpose, paths[0].parent)
        use(paths)

    dialog.filesSelected.connect(take)
    dialog.finished.connect(dialog.deleteLater)
    dialog.open()
    return dialog


def offers(path: Path) -> Mapping[str, Callable[[], object]]:
    """*Open* and *Show in folder*, as far as the desktop supports them for such files."""
    return {"Open": lambda: show(path), "Show in folder": lambda: show(path.parent)}


def show(path: Path) -> None:
    """Open a file or a folder with the desktop."""
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(path.absolute())))
