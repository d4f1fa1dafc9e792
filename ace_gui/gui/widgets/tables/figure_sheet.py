"""A table of a few figures of several items: items as columns, or as rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, QSize, Qt
from PySide6.QtGui import QColor, QIcon, QPixmap
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from ace_gui.formatting import number_text
from ace_gui.gui.models.figures_model import GAP, FigureColumn
from ace_gui.gui.text import tooltip
from ace_gui.gui.widgets.tables.table_tools import add_table_actions, fit_rows

_SWATCH = 9  # px
_DIGITS = 3
_Index = QModelIndex | QPersistentModelIndex
_Role, _Align = Qt.ItemDataRole, Qt.AlignmentFlag
_CELL: Final = _Align.AlignRight | _Align.AlignVCenter
_OVER_COLUMN: Final = _Align.AlignRight | _Align.AlignBottom


@dataclass(frozen=True, kw_only=True)
class FigureRow:
    """One figure of every item, NaN if it has none. ``tip``: its definition.

    ``percent``: the values are shares.
    """

    title: str
    tip: str
    values: Sequence[float]
    percent: bool = False


class _Figures(QAbstractTableModel):
    """One row per figure, or one per item if ``turned``. Tooltips are created on demand."""

    def __init__(self, parent: QWidget, *, turned: bool) -> None:
        super().__init__(parent)
        self._turned = turned
        self._heads: tuple[object, ...] = ()
        self._titles: tuple[str, ...] = ()
        self._swatches: list[QIcon] = []
        self._rows: tuple[FigureRow, ...] = ()

    def show(
        self, titles: Sequence[str], rows: Sequence[FigureRow], colours: Sequence[str]
    ) -> None:
        """Update only the cells if the headers are the same, which keeps the selection."""
        heads = tuple(titles), tuple(colours), tuple((row.title, row.tip) for row in rows)
        if heads == self._heads:
            self._rows = tuple(rows)
            last = self.index(self.rowCount() - 1, self.columnCount() - 1)
            self.dataChanged.emit(self.index(0, 0), last)
            return
        self.beginResetModel()
        self._heads, self._titles, self._rows = heads, tuple(titles), tuple(rows)
        self._swatches = [_swatch(colour) for colour in colours]
        self.endResetModel()

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._titles if self._turned else self._rows)

    def columnCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._rows if self._turned else self._titles)

    def data(self, index: _Index, role: int = _Role.DisplayRole) -> Any:
        if role == _Role.TextAlignmentRole:
            return _CELL
        if role not in (_Role.DisplayRole, _Role.ToolTipRole):
            return None
        position, thing = index.row(), index.column()
        if self._turned:
            position, thing = thing, position
        figure = self._rows[position]
        text = figure_text(figure.values[thing], percent=figure.percent)
        if role == _Role.DisplayRole:
            return text
        return tooltip(f"{figure.title}, {self._titles[thing]}: {text}\n{figure.tip}")

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = _Role.DisplayRole
    ) -> Any:
        if (orientation == Qt.Orientation.Horizontal) == self._turned:
            return self._head_of_figure(self._rows[section], role)
        if role == _Role.DisplayRole:
            return (GAP if self._turned else "") + self._titles[section]
        if role == _Role.DecorationRole and section < len(self._swatches):
            return self._swatches[section]
        return None

    def _head_of_figure(self, figure: FigureRow, role: int) -> Any:
        """The header of a column in two lines, so that four or five fit next to each other."""
        if role == _Role.DisplayRole:
            return _in_two_lines(figure.title) if self._turned else GAP + figure.title
        if role == _Role.ToolTipRole:
            return tooltip(figure.tip)
        return _OVER_COLUMN if role == _Role.TextAlignmentRole and self._turned else None


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
        self._kind = kind
        self._columns: tuple[FigureColumn, ...] = ()
        self._figures = _Figures(self, turned=turned)
        self.setModel(self._figures)
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
            FigureColumn(title=self._kind, values=[row.title for row in rows]),
            *(
                FigureColumn(title=title, values=np.array([row.values[index] for row in rows]))
                for index, title in enumerate(titles)
            ),
        )
        self._figures.show(titles, rows[:shown], colours)
        self.updateGeometry()

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


def _swatch(colour: str) -> QIcon:
    pixmap = QPixmap(_SWATCH, _SWATCH)
    pixmap.fill(QColor(colour))
    return QIcon(pixmap)
