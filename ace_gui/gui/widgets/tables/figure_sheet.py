"""A table of a few figures of several items: items as columns, or as rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor, QPixmap, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from ace_gui.formatting import number_text
from ace_gui.gui.models.figures_model import GAP, FigureColumn
from ace_gui.gui.text import tooltip
from ace_gui.gui.widgets.tables.table_tools import add_table_actions, fit_rows

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
            FigureColumn(title=self._kind, values=[row.title for row in rows]),
            *(
                FigureColumn(title=title, values=np.array([row.values[index] for row in rows]))
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
