"""A plot that can also be shown as a table, which can be sorted, copied and saved as CSV."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QItemSelectionModel, Qt, QTimer, Signal
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QHeaderView, QStackedWidget, QWidget

from ace_gui.gui.models.figures_model import FiguresModel
from ace_gui.gui.plots.frame.base_plot import Plot
from ace_gui.gui.theme import Face, face
from ace_gui.gui.widgets.controls import head_button, widget_action
from ace_gui.gui.widgets.labels import ElidedLabel
from ace_gui.gui.widgets.layout import across, down, pane
from ace_gui.gui.widgets.tables import FittedTable, copy_table, plain_rows, save_table

REFRESH: Final = 100  # ms between updates of changing figures


class PlotWithTable(QStackedWidget):
    """A plot or the table of its data, with a button that switches between them.

    The plot's columns are read when the table is shown and after ``Plot.changed``, but never for a
    hidden table. ``row_chosen`` carries the index in them of the row that the user selected.
    """

    row_chosen = Signal(int)

    def __init__(self, plot: Plot, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.plot = plot
        self._wanted = False
        self._selected: int | None = None
        self.model = FiguresModel(self)
        self.table = self._make_table()
        tip = "Show the same figures as a table"
        self.table_button = head_button("Table", tip, lambda: self.show_table(True), "table")
        plot.add_control(self.table_button)
        self.addWidget(plot)
        self.addWidget(self._make_page())
        self._timer = QTimer(self, singleShot=True, interval=REFRESH)
        self._timer.timeout.connect(self._read)
        plot.changed.connect(self._plan_reading)
        self.setFocusProxy(plot)

    def show_table(self, wanted: bool) -> None:
        """Show the table, or the plot again."""
        self._wanted = wanted
        self._read()
        (self.table if self.shows_table else self.plot).setFocus()

    @property
    def shows_table(self) -> bool:
        """Whether the table is shown; a plot that only has a message stays visible."""
        return self.currentIndex() == 1

    def select(self, row: int | None) -> None:
        """Mark the row with this index in the columns, without a signal."""
        self._selected = row
        if self.shows_table:
            self._mark()

    def save_csv(self) -> None:
        """Ask for a path and write the table there; report a failure."""
        save_table(self, self.plot.accessibleName(), self.model.columns)

    def copy(self) -> None:
        """Copy the selected rows, or all of them, to the clipboard, separated by tabs."""
        chosen = sorted(index.row() for index in self.table.selectionModel().selectedRows())
        rows = chosen if len(chosen) > 1 else range(self.model.rowCount())
        copy_table(self.model.columns_of(rows))

    # The table

    def _plan_reading(self) -> None:
        if self._wanted and not self._timer.isActive():
            self._timer.start()

    def _read(self) -> None:
        self._timer.stop()
        shown = self._wanted and self.plot.message() is None
        if shown:
            self.model.set_columns(self.plot.columns())
            self.table.fit_columns()
        self.setCurrentIndex(int(shown))
        self.setFocusProxy(self.table if shown else self.plot)
        if shown:
            self._mark()

    def _mark(self) -> None:
        position = -1 if self._selected is None else self.model.position(self._selected)
        selection = self.table.selectionModel()
        selection.blockSignals(True)
        flags = QItemSelectionModel.SelectionFlag
        if position < 0:
            selection.clear()
        else:
            index = self.model.index(position, 0)
            selection.setCurrentIndex(index, flags.ClearAndSelect | flags.Rows)
            self.table.scrollTo(index)
        selection.blockSignals(False)
        self.table.viewport().update()

    def _choose(self) -> None:
        rows = self.table.selectionModel().selectedRows()
        if len(rows) == 1:  # several rows are selected for copying
            self._selected = self.model.source_row(rows[0].row())
            self.row_chosen.emit(self._selected)

    def _make_table(self) -> FittedTable:
        table = FittedTable(self)
        table.setAccessibleName(f"Table: {self.plot.accessibleName()}")
        table.setModel(self.model)
        plain_rows(table, padding=6)
        table.setWordWrap(False)
        header = table.horizontalHeader()
        header.setResizeContentsPrecision(50)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        table.setSortingEnabled(True)
        table.sortByColumn(-1, Qt.SortOrder.AscendingOrder)
        header.setSortIndicatorClearable(True)
        table.selectionModel().selectionChanged.connect(self._choose)
        widget_action(table, "Copy table", self.copy, QKeySequence.StandardKey.Copy)
        widget_action(table, "Save table…", self.save_csv)
        table.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        return table

    def _make_page(self) -> QWidget:
        title = ElidedLabel()
        title.setFont(face(Face.HEADING))
        title.set_full_text(self.plot.accessibleName())
        tip = "Save the table as CSV with full precision"
        save = head_button("Save CSV…", tip, self.save_csv)
        back = head_button("Plot", "Show the plot again", lambda: self.show_table(False))
        head = across((title, 1), save, back)
        return pane(down(head, (self.table, 1), margins=(8, 6, 8, 4)))
