"""A few figures of several things side by side: a row a figure, a column a thing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QColor, QIcon, QKeySequence, QPixmap
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from ace_gui.gui.models.figures_model import GAP, FigureColumn
from ace_gui.gui.numbers import number_text
from ace_gui.gui.text import tooltip
from ace_gui.gui.widgets.tables.table_tools import copy_table, fit_rows, save_table
from ace_gui.gui.words import tr

_SWATCH = 9  # px
_DIGITS = 3


@dataclass(frozen=True, kw_only=True)
class FigureRow:
    """One figure of every thing, NaN where it has none. ``tip``: how it is defined.

    ``percent``: the values are shares.
    """

    title: str
    tip: str
    values: Sequence[float]
    percent: bool = False


class FigureSheet(QTableWidget):
    """Copied and saved as CSV by its menu; every row's title explains its figure.

    ``kind``: what a row is, the title of the first column of the CSV.
    """

    def __init__(self, name: str, parent: QWidget | None = None, *, kind: str = "figure") -> None:
        super().__init__(parent)
        self._kind = kind
        self._columns: tuple[FigureColumn, ...] = ()
        self._heads: tuple[tuple[str, ...], tuple[str, ...]] = (), ()
        self.setAccessibleName(name)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        self.setShowGrid(False)
        contents = QHeaderView.ResizeMode.ResizeToContents
        self.horizontalHeader().setSectionResizeMode(contents)
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        fit_rows(self, 5)
        self.setCornerButtonEnabled(False)
        self._add_actions()

    def show_figures(
        self, titles: Sequence[str], rows: Sequence[FigureRow], colours: Sequence[str] = ()
    ) -> None:
        """Show ``rows`` under ``titles``, each title with its colour if there are any."""
        self._columns = (
            FigureColumn(title=self._kind, values=[row.title for row in rows]),
            *(
                FigureColumn(title=title, values=np.array([row.values[place] for row in rows]))
                for place, title in enumerate(titles)
            ),
        )
        self._show_titles(tuple(titles), tuple(colours))
        self.setRowCount(len(rows))
        for row, figure in enumerate(rows):
            head = QTableWidgetItem(GAP + figure.title)
            head.setToolTip(tooltip(figure.tip))
            self.setVerticalHeaderItem(row, head)
            for column, value in enumerate(figure.values):
                self.setItem(row, column, _cell(figure, value, titles[column]))

    def _show_titles(self, titles: tuple[str, ...], colours: tuple[str, ...]) -> None:
        """Unless they are there already: each title that is set has all columns measured."""
        if (titles, colours) == self._heads:
            return
        self._heads = titles, colours
        self.setColumnCount(len(titles))
        for column, title in enumerate(titles):
            head = QTableWidgetItem(title)
            if colours:
                head.setIcon(_swatch(colours[column]))
            self.setHorizontalHeaderItem(column, head)

    @property
    def columns(self) -> tuple[FigureColumn, ...]:
        """What is shown, with every digit."""
        return self._columns

    def copy(self) -> None:
        """Put the figures on the clipboard."""
        copy_table(self._columns)

    def save_csv(self) -> None:
        """Ask where to, and write the figures there."""
        save_table(self, self.accessibleName(), self._columns)

    def _add_actions(self) -> None:
        copy = QAction(tr("Copy table"), self)
        copy.setShortcut(QKeySequence.StandardKey.Copy)
        copy.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        copy.triggered.connect(self.copy)
        save = QAction(tr("Save table…"), self)
        save.triggered.connect(self.save_csv)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        self.addActions([copy, save])


def figure_text(value: float, *, percent: bool = False) -> str:
    """``1.25``, ``48 %``, ``12`` of a whole number, a dash where there is none."""
    if np.isnan(value):
        return "–"
    if percent:
        return f"{number_text(100 * value, _DIGITS)} %"
    whole = float(value).is_integer() and abs(value) < 1e6
    return str(int(value)) if whole else number_text(value, _DIGITS)


def _cell(figure: FigureRow, value: float, title: str) -> QTableWidgetItem:
    text = figure_text(value, percent=figure.percent)
    item = QTableWidgetItem(text)
    item.setTextAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
    item.setToolTip(tooltip(f"{figure.title}, {title}: {text}\n{figure.tip}"))
    return item


def _swatch(colour: str) -> QIcon:
    pixmap = QPixmap(_SWATCH, _SWATCH)
    pixmap.fill(QColor(colour))
    return QIcon(pixmap)
