"""The log as a table, filtered by level and text."""

from __future__ import annotations

import time
from typing import Final

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QSortFilterProxyModel,
    Qt,
)

from ace_gui.gui.state.log import KEPT, Entry, Level, Log
from ace_gui.gui.text import plain, tooltip
from ace_gui.gui.theme import icon

_Index = QModelIndex | QPersistentModelIndex
ENTRY: Final = Qt.ItemDataRole.UserRole
COLUMNS: Final = ("Time", "Level", "From", "Message")
_MESSAGE: Final = 3
_ICONS: Final = {Level.INFO: "info", Level.WARNING: "warning", Level.ERROR: "error"}


class LogModel(QAbstractTableModel):
    """The entries, newest last."""

    def __init__(self, log: Log, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._entries = list(log.entries)
        log.added.connect(self._add)

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008  (Qt's signature)
        return 0 if parent.isValid() else len(self._entries)

    def columnCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(COLUMNS)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> object:
        across = orientation == Qt.Orientation.Horizontal
        return COLUMNS[section] if across and role == Qt.ItemDataRole.DisplayRole else None

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if not index.isValid():
            return None
        entry, column = self._entries[index.row()], index.column()
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return _words(entry)[column]
            case Qt.ItemDataRole.DecorationRole if column == 1 and entry.level in _ICONS:
                return icon(_ICONS[entry.level])
            case Qt.ItemDataRole.ToolTipRole if column == _MESSAGE:
                return tooltip(f"{entry.text}\n{entry.details}".strip())
            case Qt.ItemDataRole.UserRole:
                return entry
        return None

    def _add(self, entry: Entry) -> None:
        index = len(self._entries)
        self.beginInsertRows(QModelIndex(), index, index)
        self._entries.append(entry)
        self.endInsertRows()
        if len(self._entries) > KEPT:
            self.beginRemoveRows(QModelIndex(), 0, 0)
            del self._entries[0]
            self.endRemoveRows()


class FoundEntries(QSortFilterProxyModel):
    """Entries of at least this level that contain the text."""

    def __init__(self, source: LogModel, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._least, self._words = Level.INFO, ""
        self.setSourceModel(source)

    def look(self, least: Level, words: str) -> None:
        """Show these entries."""
        self.beginFilterChange()
        self._least, self._words = least, words.casefold()
        self.endFilterChange()

    def filterAcceptsRow(self, row: int, parent: _Index) -> bool:
        entry = self.sourceModel().index(row, 0, parent).data(ENTRY)
        return entry.level >= self._least and self._words in entry.line.casefold()


def _words(entry: Entry) -> tuple[str, str, str, str]:
    clock = time.strftime("%H:%M:%S", time.localtime(entry.when))
    first = plain(entry.text).partition("\n")[0]
    return clock, entry.level.title, entry.source, first
