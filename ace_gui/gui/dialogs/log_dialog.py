"""The log: messages of the engine and the window, with filter and copy."""

from __future__ import annotations

import time
from typing import Final

from PySide6.QtCore import QItemSelectionModel, QTimer
from PySide6.QtGui import QGuiApplication, QStandardItemModel
from PySide6.QtWidgets import QAbstractItemView, QTreeView, QWidget

from ace_gui.gui.dialogs.dialog import Dialog
from ace_gui.gui.models.item_models import VALUE, item_of
from ace_gui.gui.state.log import KEPT, Entry, Level, Log
from ace_gui.gui.text import plain, tooltip
from ace_gui.gui.theme import Face, icon
from ace_gui.gui.widgets.controls import Choice, named, read_only, search_field
from ace_gui.gui.widgets.layout import across
from ace_gui.gui.widgets.tables import RoomyCell

_DETAIL_LINES: Final = 7
_GATHERS: Final = 100  # ms between updates, because scrolling lays out all rows
_COLUMNS: Final = ("Time", "Level", "From", "Message")
_ICONS: Final = {Level.INFO: "info", Level.WARNING: "warning", Level.ERROR: "error"}
_SAMPLES: Final = ("00:00:00", "Warning", "Window")
_PADDING: Final = 44  # px: the level's icon and the cell's margins


class LogDialog(Dialog):
    """A window of its own that follows the log."""

    def __init__(self, log: Log, parent: QWidget | None = None) -> None:
        super().__init__("Log", parent)
        self.fit(820, 520)
        tip = "Show messages of at least this level"
        worse = {level: "" if level is Level.ERROR else " and above" for level in Level}
        titles = {level: (level.title + worse[level], tip) for level in Level}
        self.levels = Choice("Minimum level", titles)
        self.levels.choose(Level.INFO)
        self.filter = search_field("Find in the log", "Text in the message")
        self._log, self.found = log, QStandardItemModel(0, len(_COLUMNS), self)
        self.found.setHorizontalHeaderLabels(_COLUMNS)
        self.table = self._make_table()
        name = "The message and its details"
        self.details = read_only(name, _DETAIL_LINES, Face.MONO_CAPTION)
        tip = "Copy the selected messages, or all that are shown"
        self.copy = self.add_button("&Copy", self._copy, tip=tip)
        above = across(self.levels, (self.filter, 1))
        self.fill(above, (self.table, 1), self.details)
        self.levels.chosen.connect(self._look)
        self.filter.textChanged.connect(lambda _: self._look())
        self.table.selectionModel().currentChanged.connect(lambda *_: self._show())
        self._following = QTimer(self, singleShot=True, interval=_GATHERS)
        self._following.timeout.connect(self._select_last)
        log.added.connect(self._add)
        self._look()

    def _make_table(self) -> QTreeView:
        table = named(QTreeView(), "Messages")
        table.setModel(self.found)
        table.setRootIsDecorated(False)
        table.setUniformRowHeights(True)
        table.setItemDelegate(RoomyCell(table))
        table.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        metrics = table.fontMetrics()
        for column, sample in enumerate(_SAMPLES):  # measuring all rows for each new one is slow
            table.header().resizeSection(column, metrics.horizontalAdvance(sample) + _PADDING)
        table.header().setStretchLastSection(True)
        return table

    def shown(self) -> list[Entry]:
        """The selected entries if there are several; else all that are shown."""
        selected = sorted(index.row() for index in self.table.selectionModel().selectedRows())
        rows = selected if len(selected) > 1 else range(self.found.rowCount())
        return [self.found.index(row, 0).data(VALUE) for row in rows]

    def _look(self) -> None:
        """Show the entries of at least the chosen level that contain the text."""
        self.found.setRowCount(0)
        for entry in self._log.entries:
            self._add(entry)
        self._select_last()

    def _add(self, entry: Entry) -> None:
        words = self.filter.text().casefold()
        if entry.level < self.levels.current or words not in entry.line.casefold():
            return
        clock = time.strftime("%H:%M:%S", time.localtime(entry.when))
        first = plain(entry.text).partition("\n")[0]
        texts = (clock, entry.level.title, entry.source, first)
        cells = [item_of(text, entry) for text in texts]
        if entry.level in _ICONS:
            cells[1].setIcon(icon(_ICONS[entry.level]))
        cells[-1].setToolTip(tooltip(f"{entry.text}\n{entry.details}".strip()))
        self.found.appendRow(cells)
        if self.found.rowCount() > KEPT:
            self.found.removeRow(0)
        self._follow()

    def _follow(self) -> None:
        """Scroll to the end, unless the user has scrolled up."""
        at_end = self.table.currentIndex().row() >= self.found.rowCount() - 2
        if at_end and not self._following.isActive():
            self._following.start()

    def _select_last(self) -> None:
        last = self.found.index(self.found.rowCount() - 1, 0)
        flags = QItemSelectionModel.SelectionFlag
        self.table.selectionModel().setCurrentIndex(last, flags.ClearAndSelect | flags.Rows)
        self.table.scrollTo(last)
        self._show()

    def _show(self) -> None:
        entry = self.table.currentIndex().data(VALUE)
        text = f"{entry.text}\n{entry.details}" if isinstance(entry, Entry) else ""
        self.details.setPlainText(plain(text.strip()))

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText("\n".join(entry.line for entry in self.shown()))
