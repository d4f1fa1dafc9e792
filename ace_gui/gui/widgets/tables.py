"""The look of all tables, their export as CSV or to the clipboard, and a table of a few figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QGuiApplication,
    QKeySequence,
    QPixmap,
    QResizeEvent,
    QStandardItem,
    QStandardItemModel,
)
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
from ace_gui.formatting import number_text
from ace_gui.gui.models.figures_model import GAP, FigureColumn, rows_of, write_csv
from ace_gui.gui.text import tooltip
from ace_gui.gui.widgets.controls import widget_action
from ace_gui.gui.widgets.file_dialogs import TABLES, ask_target
from ace_gui.gui.widgets.layout import on_font_change

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


_DIGITS = 3
_SWATCH: Final = 9  # px
_Align = Qt.AlignmentFlag
_CELL: Final = _Align.AlignRight | _Align.AlignVCenter
_OVER_COLUMN: Final = _Align.AlignRight | _Align.AlignBottom


@dataclass(frozen=True)
class FigureRow:
    """One figure of every item, NaN if it has none. ``tip``: its definition.

    ``percent``: the values are shares.
    """

    title: str
    tip: str
    values: Sequence[float]
    percent: bool = False


class FigureSheet(QTableView):
    """Its menu copies it and saves it as CSV; every row's title explains its figure.

    ``kind``: what a row is, the title of the CSV's first column. ``turned``: items are rows and
    figures columns on screen, which needs less width.
    """

    def __init__(
        self,
        name: str,
        parent: QWidget | None = None,
        *,
        kind: str = "figure",
        turned: bool = False,
    ) -> None:
        super().__init__(parent)
        self._kind, self._turned = kind, turned
        self._columns: tuple[FigureColumn, ...] = ()
        self._cells = QStandardItemModel(self)
        self.setModel(self._cells)
        self.setAccessibleName(name)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        self.setShowGrid(False)
        contents = QHeaderView.ResizeMode.ResizeToContents
        self.horizontalHeader().setSectionResizeMode(contents)
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        fit_rows(self, 8)  # a row header has margins above and below its text
        self.setCornerButtonEnabled(False)
        add_table_actions(self, name, lambda: self._columns)

    def show_figures(
        self,
        titles: Sequence[str],
        rows: Sequence[FigureRow],
        colours: Sequence[str] = (),
        *,
        shown: int | None = None,
    ) -> None:
        """Show ``rows`` under ``titles``, each title with its colour if there are any.

        ``shown``: only so many rows are displayed; what is copied or saved has all.
        """
        self._columns = (
            FigureColumn(self._kind, [row.title for row in rows]),
            *(
                FigureColumn(title, np.array([row.values[index] for row in rows]))
                for index, title in enumerate(titles)
            ),
        )
        self._show(titles, rows[:shown], colours)
        self.updateGeometry()

    def _show(
        self, titles: Sequence[str], rows: Sequence[FigureRow], colours: Sequence[str]
    ) -> None:
        """Fill the cells; those that stay keep the selection."""
        cells, turned = self._cells, self._turned
        cells.setRowCount(len(titles) if turned else len(rows))
        cells.setColumnCount(len(rows) if turned else len(titles))
        across, down = cells.setHorizontalHeaderItem, cells.setVerticalHeaderItem
        set_figure, set_thing = (across, down) if turned else (down, across)
        for thing, title in enumerate(titles):
            head = QStandardItem((GAP if turned else "") + title)
            if colours:
                swatch = QPixmap(_SWATCH, _SWATCH)
                swatch.fill(QColor(colours[thing]))
                head.setIcon(swatch)
            set_thing(thing, head)
        for position, figure in enumerate(rows):
            head = QStandardItem(_in_two_lines(figure.title) if turned else GAP + figure.title)
            head.setToolTip(tooltip(figure.tip))
            if turned:
                head.setTextAlignment(_OVER_COLUMN)
            set_figure(position, head)
            for thing, value in enumerate(figure.values):
                text = figure_text(value, percent=figure.percent)
                cell = QStandardItem(text)
                cell.setTextAlignment(_CELL)
                cell.setToolTip(tooltip(f"{figure.title}, {titles[thing]}: {text}\n{figure.tip}"))
                cells.setItem(*((thing, position) if turned else (position, thing)), cell)

    def sizeHint(self) -> QSize:
        """As high as its rows."""
        rows = self.horizontalHeader().height() + self.verticalHeader().length()
        bar = self.horizontalScrollBar().sizeHint().height()
        return QSize(super().sizeHint().width(), rows + bar + 2 * self.frameWidth())

    @property
    def columns(self) -> tuple[FigureColumn, ...]:
        """The content with full precision."""
        return self._columns


def figure_text(value: float, *, percent: bool = False) -> str:
    """``1.25``, ``48 %``, ``12`` for a whole number, a dash for none."""
    if np.isnan(value):
        return "–"
    if percent:
        return f"{number_text(100 * value, _DIGITS)} %"
    whole = float(value).is_integer() and abs(value) < 1e6
    return str(int(value)) if whole else number_text(value, _DIGITS)


def _in_two_lines(title: str) -> str:
    """Broken at the space nearest to its middle."""
    spaces = [index for index, sign in enumerate(title) if sign == " "]
    middle = min(spaces, key=lambda index: abs(index - len(title) / 2), default=None)
    return title if middle is None else f"{title[:middle]}\n{title[middle + 1 :]}"
