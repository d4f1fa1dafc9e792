"""The layers table with its filter."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QComboBox,
    QHBoxLayout,
    QHeaderView,
    QLineEdit,
    QStackedLayout,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from ace_gui.gui.models.layers import Column, LayersModel
from ace_gui.gui.session import Session
from ace_gui.gui.widgets.labels import heading, muted_label

EVERY_ROLE = "all roles"
_WIDTHS = {
    Column.ROLE: 124,
    Column.SHAPE: 84,
    Column.OUTCOME: 104,
    Column.GAMMA: 54,
    Column.REGIME: 58,
    Column.STATE: 78,
}

_NEEDED = {Column.SHAPE: 640, Column.OUTCOME: 545, Column.ROLE: 470}
"""Width of the table below which a column is hidden."""


class LayersTable(QTableView):
    """Gives up columns that can be read elsewhere where there is little room."""

    def resizeEvent(self, event: QResizeEvent) -> None:
        room = self.viewport().width()
        for column, needed in _NEEDED.items():
            self.setColumnHidden(column, room < needed)
        super().resizeEvent(event)


class LayersPanel(QWidget):
    """Shows the session's layers; its current row and the session's selection follow each other."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.model = LayersModel(session, self)
        self.text = QLineEdit(self)
        self.text.setPlaceholderText("Filter by name")
        self.text.setAccessibleName("Filter layers by name")
        self.text.setClearButtonEnabled(True)
        self.role = QComboBox(self)
        self.role.setAccessibleName("Filter layers by role")
        self._count = muted_label("", self)
        self._count.setWordWrap(False)
        self.table = self._make_table()
        self._empty = muted_label("", self)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._lay_out()
        self.text.textChanged.connect(self._filter)
        self.role.currentTextChanged.connect(self._filter)
        self.model.modelReset.connect(self._after_reset)
        session.plan_changed.connect(self._fill_roles)
        session.inputs_changed.connect(self._show_empty)
        session.selection_changed.connect(self._follow)
        self._fill_roles()
        self._after_reset()

    def focus_filter(self) -> None:
        """Put the cursor into the filter."""
        self.text.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.text.selectAll()

    def step(self, by: int) -> None:
        """Select the row so many places further."""
        row = self.table.currentIndex().row() + by
        if 0 <= row < self.model.rowCount():
            self._session.select(self.model.name_at(row))

    def _make_table(self) -> QTableView:
        table = LayersTable(self)
        table.setObjectName("layers")
        table.setAccessibleName("Layers")
        table.setModel(self.model)
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        table.setTextElideMode(Qt.TextElideMode.ElideLeft)
        table.setAlternatingRowColors(True)
        table.setShowGrid(False)
        table.setTabKeyNavigation(False)
        table.setWordWrap(False)
        table.verticalHeader().hide()
        table.verticalHeader().setDefaultSectionSize(table.fontMetrics().height() + 8)
        header = table.horizontalHeader()
        header.setObjectName("layers-header")
        header.setHighlightSections(False)
        header.setSectionResizeMode(Column.TENSOR, QHeaderView.ResizeMode.Stretch)
        for column, width in _WIDTHS.items():
            table.setColumnWidth(column, width)
        header.setMinimumSectionSize(40)
        table.setSortingEnabled(True)
        table.sortByColumn(-1, Qt.SortOrder.AscendingOrder)
        header.setSortIndicatorClearable(True)
        table.selectionModel().currentRowChanged.connect(self._choose)
        return table

    def _lay_out(self) -> None:
        line = QHBoxLayout()
        line.addWidget(heading("Layers", self))
        line.addWidget(self.text, 1)
        line.addWidget(self.role)
        line.addWidget(self._count)
        place = QWidget(self)
        self._stack = QStackedLayout(place)
        self._stack.addWidget(self._empty)
        self._stack.addWidget(self.table)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 8, 8, 8)
        layout.addLayout(line)
        layout.addWidget(place, 1)

    def _fill_roles(self) -> None:
        chosen = self.role.currentText()
        self.role.blockSignals(True)
        self.role.clear()
        self.role.addItems([EVERY_ROLE, *self.model.roles])
        self.role.setCurrentIndex(max(0, self.role.findText(chosen)))
        self.role.blockSignals(False)
        self._filter()

    def _filter(self) -> None:
        role = self.role.currentText()
        self.model.set_filter(self.text.text().strip(), "" if role == EVERY_ROLE else role)
        self._after_reset()

    def _after_reset(self) -> None:
        shown, total = self.model.rowCount(), self.model.total
        self._count.setText(f"{shown} of {total}" if shown != total else f"{total} tensors")
        self._show_empty()
        self._follow()

    def _show_empty(self) -> None:
        if self.model.rowCount():
            self._stack.setCurrentWidget(self.table)
            return
        base = self._session.inputs.base is not None
        reading = "Reading headers …" if base else "Open a base model to see its layers."
        self._empty.setText("No tensor fits this filter." if self.model.total else reading)
        self._stack.setCurrentWidget(self._empty)

    def _choose(self, current: QModelIndex) -> None:
        if current.isValid():
            self._session.select(self.model.name_at(current.row()))

    def _follow(self) -> None:
        """The session's selection as the table's current row."""
        name = self._session.selection
        position = -1 if name is None else self.model.position(name)
        if position < 0:
            self.table.clearSelection()
            return
        if position != self.table.currentIndex().row():
            index = self.model.index(position, Column.TENSOR)
            self.table.setCurrentIndex(index)
            self.table.scrollTo(index)
