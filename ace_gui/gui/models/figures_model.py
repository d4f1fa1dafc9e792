"""A plot's data as a table, which screen readers can read, and as CSV."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from ace_gui.formatting import csv_text
from ace_gui.gui.saving import save
from ace_gui.gui.text import plain, tooltip
from ace_gui.gui.theme import Face, face

_Index = QModelIndex | QPersistentModelIndex
_DIGITS = 5
NONE: Final = "–"
GAP = "\u2002"  # space between right-aligned numbers and the next column, and before a row's title


@dataclass(frozen=True)
class FigureColumn:
    """A column of texts or of numbers."""

    title: str
    """Its heading."""
    values: Sequence[str] | NDArray[np.float64] | NDArray[np.int64]
    """Texts, or numbers where NaN means unknown."""
    tip: str = ""
    """Explains it."""
    texts: Sequence[str] = ()
    """Displayed instead of the values; empty: the values."""
    tips: Sequence[str] = ()
    """The cells' tooltips instead of the texts."""
    strong: frozenset[int] = frozenset()
    """The rows in bold."""

    @property
    def is_number(self) -> bool:
        return isinstance(self.values, np.ndarray)


def column_of(title: str, values: Iterable[object]) -> FigureColumn:
    """A column of texts, or else of numbers, where None means unknown."""
    listed_values = list(values)
    if all(isinstance(value, str) for value in listed_values):
        return FigureColumn(title, [str(value) for value in listed_values])
    return FigureColumn(title, np.array(listed_values, dtype=np.float64))


class FiguresModel(QAbstractTableModel):
    """Columns of equal length, sortable by any of them. ``gap`` follows every number."""

    gap = GAP

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._columns: tuple[FigureColumn, ...] = ()
        self._order: NDArray[np.intp] = np.empty(0, dtype=np.intp)
        self._positions: NDArray[np.intp] = np.empty(0, dtype=np.intp)
        self.sorting: tuple[int, Qt.SortOrder] = (-1, Qt.SortOrder.AscendingOrder)

    @property
    def columns(self) -> tuple[FigureColumn, ...]:
        """The columns with their rows as they were set."""
        return self._columns

    def set_columns(self, columns: Sequence[FigureColumn]) -> None:
        self.beginResetModel()
        self._columns = tuple(columns)
        self._arrange()
        self.endResetModel()

    def source_row(self, position: int) -> int:
        """The index in the columns of the row at this position."""
        return int(self._order[position])

    def columns_of(self, positions: Iterable[int]) -> tuple[FigureColumn, ...]:
        """The columns with only the rows at these positions, in this order."""
        rows = [self.source_row(position) for position in positions]

        def chosen(column: FigureColumn) -> FigureColumn:
            values: Any = column.values
            if column.is_number:
                selected = values[rows]
            else:
                selected = [values[row] for row in rows]
            return FigureColumn(column.title, selected, column.tip)

        return tuple(map(chosen, self._columns))

    def position(self, source_row: int) -> int:
        """The position of the row with this index in the columns, or -1."""
        if 0 <= source_row < len(self._positions):
            return int(self._positions[source_row])
        return -1

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008
        if parent.isValid():
            return 0
        return len(self._order)

    def columnCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008
        if parent.isValid():
            return 0
        return len(self._columns)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation != Qt.Orientation.Horizontal or not 0 <= section < len(self._columns):
            return None
        column = self._columns[section]
        if role == Qt.ItemDataRole.DisplayRole:
            if column.is_number:
                return column.title + self.gap
            return column.title
        if role == Qt.ItemDataRole.ToolTipRole:
            if column.tip:
                return tooltip(column.tip)
            return None
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(column)
        return None

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid() or index.row() >= len(self._order):
            return None
        column = self._columns[index.column()]
        row = self.source_row(index.row())
        if column.texts:
            text = column.texts[row]
        else:
            text = cell_text(column.values[row])
        match role:
            case Qt.ItemDataRole.DisplayRole:
                if column.is_number:
                    return text + self.gap
                return text
            case Qt.ItemDataRole.AccessibleTextRole:
                return text
            case Qt.ItemDataRole.ToolTipRole:
                return tooltip(column.tips[row] if column.tips else text)
            case Qt.ItemDataRole.FontRole if row in column.strong:
                return face(Face.STRONG)
            case Qt.ItemDataRole.TextAlignmentRole:
                return _alignment(column)
        return None

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column; -1 restores the original order of the rows."""
        self.layoutAboutToBeChanged.emit()
        old = self.persistentIndexList()
        rows = [self.source_row(index.row()) for index in old]
        self.sorting = (column, order)
        self._arrange()
        new = [
            self.index(self.position(row), index.column())
            for row, index in zip(rows, old, strict=True)
        ]
        self.changePersistentIndexList(old, new)
        self.layoutChanged.emit()

    def _arrange(self) -> None:
        if self._columns:
            count = len(self._columns[0].values)
        else:
            count = 0
        column, order = self.sorting
        self._order = np.arange(count)
        if 0 <= column < len(self._columns):
            ranks = _ranks(self._columns[column])
            descending = order == Qt.SortOrder.DescendingOrder
            self._order = np.argsort(-ranks if descending else ranks, kind="stable")
        self._positions = np.empty(count, dtype=np.intp)
        self._positions[self._order] = np.arange(count)


def _ranks(column: FigureColumn) -> NDArray[np.float64]:
    """The sort keys of a column; NaN comes last in both directions."""
    if isinstance(column.values, np.ndarray):
        return column.values.astype(np.float64)
    return np.unique(column.values, return_inverse=True)[1].astype(np.float64)


def cell_text(value: object) -> str:
    """The text of a cell: at most five significant digits, a dash for unknown."""
    if isinstance(value, np.integer | int):
        return str(value)
    if isinstance(value, np.floating | float):
        if np.isnan(value):
            return NONE
        return f"{value:.{_DIGITS}g}".replace("-", "−")
    return plain(str(value))


def rows_of(columns: Sequence[FigureColumn]) -> list[tuple[object, ...]]:
    """The titles, then every row with full precision; unknown values are empty."""
    lists = [
        ["" if value != value else value for value in column.values.tolist()]
        if isinstance(column.values, np.ndarray)
        else list(column.values)
        for column in columns
    ]
    return [tuple(column.title for column in columns), *zip(*lists, strict=True)]


def write_csv(columns: Sequence[FigureColumn], path: Path) -> None:
    """Write the columns with full precision; unknown values are empty.

    ``path`` gets an extension if it has none. Raises OutputError or ResourceError.
    """
    data = csv_text(rows_of(columns)).encode("utf-8", "backslashreplace")
    save(path if path.suffix else path.with_suffix(".csv"), data, path)


def _alignment(column: FigureColumn) -> Qt.AlignmentFlag:
    if column.is_number:
        side = Qt.AlignmentFlag.AlignRight
    else:
        side = Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter
