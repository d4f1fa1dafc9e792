"""The look of all tables, and their export as CSV or to the clipboard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QSize, Qt
from PySide6.QtGui import QGuiApplication, QKeySequence, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QMessageBox,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QTreeWidget,
    QWidget,
)

from ace_gui.errors import WorkbenchError
from ace_gui.gui.models.figures_model import FigureColumn, rows_of, write_csv
from ace_gui.gui.widgets.fields.buttons import widget_action
from ace_gui.gui.widgets.files.file_dialogs import TABLES, ask_target
from ace_gui.gui.widgets.layout.arrangement import on_font_change

_LEAST: Final = 22  # digits
_Index = QModelIndex | QPersistentModelIndex
_ROOM: Final = 8  # px


class RoomyCell(QStyledItemDelegate):
    """Qt's delegate with rows higher than the font."""

    def sizeHint(self, option: QStyleOptionViewItem, index: _Index) -> QSize:
        hint = super().sizeHint(option, index)
        return QSize(hint.width(), option.fontMetrics.height() + _ROOM)


def plain_rows(table: QTableView, *, padding: int) -> None:
    """Select whole rows, without grid and row numbers, ``padding`` pixels higher than their
    text."""
    table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    table.setShowGrid(False)
    table.setTabKeyNavigation(False)
    table.verticalHeader().hide()
    fit_rows(table, padding)
    table.horizontalHeader().setHighlightSections(False)


def fit_rows(table: QTableView, padding: int) -> None:
    """Rows ``padding`` pixels higher than their text."""
    rows = table.verticalHeader()
    rows.setMinimumSectionSize(1)  # Qt's own follows the font later
    on_font_change(table, lambda metrics: rows.setDefaultSectionSize(metrics.height() + padding))


class FittedTable(QTableView):
    """Its first column takes the remaining width, and shrinks before the others."""

    _first = 0  # px that the first column's content needs

    def fit_columns(self) -> None:
        """Fit each column to its content, and give the first one the remaining width."""
        self.resizeColumnsToContents()
        self._first = self.horizontalHeader().sectionSize(0)
        self._fill()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fill()

    def _fill(self) -> None:
        header = self.horizontalHeader()
        spare = self.viewport().width() - header.length()
        least = min(_LEAST * self.fontMetrics().horizontalAdvance("0"), self._first)
        if header.count():
            header.resizeSection(0, max(header.sectionSize(0) + spare, least))


def save_table(parent: QWidget, name: str, columns: Sequence[FigureColumn]) -> None:
    """Ask for a path and write the table there; report a failure."""

    def write(chosen: list[Path]) -> None:
        try:
            write_csv(columns, chosen[0])
        except WorkbenchError as error:
            QMessageBox.warning(parent, "Save table", error.sentence)

    ask_target(parent, "Save table", f"{name}.csv", "Table (*.csv)", TABLES, write)


def add_table_actions(
    table: QAbstractItemView, name: str, columns: Callable[[], Sequence[FigureColumn]]
) -> None:
    """Give a table the actions, also of its menu, that copy ``columns`` and save them."""
    widget_action(table, "Copy table", lambda: copy_table(columns()), QKeySequence.StandardKey.Copy)
    widget_action(table, "Save table…", lambda: save_table(table, name, columns()))
    table.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)


def row_tree(name: str, titles: Sequence[str], parent: QWidget | None = None) -> QTreeWidget:
    """A list with a few columns, as wide as their texts."""
    tree = QTreeWidget(parent)
    tree.setAccessibleName(name)
    tree.setRootIsDecorated(False)
    tree.setItemDelegate(RoomyCell(tree))
    tree.setHeaderLabels(list(titles))
    tree.header().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
    return tree


def copy_table(columns: Sequence[FigureColumn]) -> None:
    """Copy the table to the clipboard, separated by tabs for spreadsheets."""
    lines = ("\t".join(map(str, row)) for row in rows_of(columns))
    QGuiApplication.clipboard().setText("\n".join(lines))
