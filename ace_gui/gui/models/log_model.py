"""The log as a table, filtered by level and text."""

from __future__ import annotations

import time
from typing import Final

from PySide6.QtCore import QModelIndex, QObject, QPersistentModelIndex, QSortFilterProxyModel, Qt
from PySide6.QtGui import QStandardItem, QStandardItemModel

from ace_gui.gui.state.log import KEPT, Entry, Level, Log
from ace_gui.gui.text import plain, tooltip
from ace_gui.gui.theme import icon

_Index = QModelIndex | QPersistentModelIndex
ENTRY: Final = Qt.ItemDataRole.UserRole
COLUMNS: Final = ("Time", "Level", "From", "Message")
_ICONS: Final = {Level.INFO: "info", Level.WARNING: "warning", Level.ERROR: "error"}


class LogModel(QStandardItemModel):
    """The entries, newest last. ``ENTRY`` is the role of a row's Entry."""

    def __init__(self, log: Log, parent: QObject | None = None) -> None:
        super().__init__(0, len(COLUMNS), parent)
        self.setHorizontalHeaderLabels(COLUMNS)
        for entry in log.entries:
            self._add(entry)
        log.added.connect(self._add)

    def _add(self, entry: Entry) -> None:
        clock = time.strftime("%H:%M:%S", time.localtime(entry.when))
        first = plain(entry.text).partition("\n")[0]
        cells = [QStandardItem(text) for text in (clock, entry.level.title, entry.source, first)]
        for cell in cells:
            cell.setEditable(False)
            cell.setData(entry, ENTRY)
        if entry.level in _ICONS:
            cells[1].setIcon(icon(_ICONS[entry.level]))
        cells[-1].setToolTip(tooltip(f"{entry.text}\n{entry.details}".strip()))
        self.appendRow(cells)
        if self.rowCount() > KEPT:
            self.removeRow(0)


class FoundEntries(QSortFilterProxyModel):
    """Entries of at least this level that contain the text."""

    def __init__(self, source: LogModel, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._least, self._words = Level.INFO, ""
        self.setSourceModel(source)

    def look(self, least: Level, words: str) -> None:
        self.beginFilterChange()
        self._least, self._words = least, words.casefold()
        self.endFilterChange()

    def filterAcceptsRow(self, row: int, parent: _Index) -> bool:
        entry = self.sourceModel().index(row, 0, parent).data(ENTRY)
        return entry.level >= self._least and self._words in entry.line.casefold()
