"""A few figures of several things: a row a figure and a column a thing, or the other way round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QSize, Qt
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

    ``kind``: what a row is, the title of the first column of the CSV. ``turned``: on the screen the
    things are rows and the figures columns, which takes less width.
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
        self._heads: tuple[tuple[str, ...], ...] = ()
        self.setAccessibleName(name)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        self.setShowGrid(False)
        contents = QHeaderView.ResizeMode.ResizeToContents
        self.horizontalHeader().setSectionResizeMode(contents)
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        fit_rows(self, 8)  # the head of a row has margins above and below its letters
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
        self._show_heads(tuple(titles), tuple(colours), rows)
        for place, figure in enumerate(rows):
            for thing, value in enumerate(figure.values):
                row, column = (thing, place) if self._turned else (place, thing)
                self.setItem(row, column, _cell(figure, value, titles[thing]))
        self.updateGeometry()

    def _show_heads(
        self, titles: tuple[str, ...], colours: tuple[str, ...], rows: Sequence[FigureRow]
    ) -> None:
        """Unless they are there already: each title that is set has all columns measured."""
        heads = titles, colours, tuple(row.title for row in rows), tuple(row.tip for row in rows)
        if heads == self._heads:
            return
        self._heads = heads
        things = [QTableWidgetItem(GAP + title if self._turned else title) for title in titles]
        for thing, colour in zip(things, colours, strict=False):
            thing.setIcon(_swatch(colour))
        figures = [_figure_head(row, turned=self._turned) for row in rows]
        across, down = (figures, things) if self._turned else (things, figures)
        self.setColumnCount(len(across))
        self.setRowCount(len(down))
        for place, head in enumerate(across):
            self.setHorizontalHeaderItem(place, head)
        for place, head in enumerate(down):
            self.setVerticalHeaderItem(place, head)

    def sizeHint(self) -> QSize:
        """As high as its rows."""
        rows = self.horizontalHeader().height() + self.verticalHeader().length()
        bar = self.horizontalScrollBar().sizeHint().height()
        return QSize(super().sizeHint().width(), rows + bar + 2 * self.frameWidth())

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


def _figure_head(row: FigureRow, *, turned: bool) -> QTableWidgetItem:
    """Over a column in two lines, so that four or five have room beside each other."""
    head = QTableWidgetItem(_in_two_lines(row.title) if turned else GAP + row.title)
    head.setToolTip(tooltip(row.tip))
    if turned:
        head.setTextAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignBottom)
    return head


def _in_two_lines(title: str) -> str:
    """Broken at the space next to its middle."""
    spaces = [place for place, sign in enumerate(title) if sign == " "]
    middle = min(spaces, key=lambda place: abs(place - len(title) / 2), default=None)
    return title if middle is None else f"{title[:middle]}\n{title[middle + 1 :]}"


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
