"""The layers table with its filter."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QPoint, QSize, Qt, Signal
from PySide6.QtGui import QAction, QKeySequence, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QComboBox,
    QHBoxLayout,
    QHeaderView,
    QLineEdit,
    QMenu,
    QStackedLayout,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from ace_gui.engine.contract.plan import PlanRow
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.models.layer_columns import Column
from ace_gui.gui.models.layer_health import Healths
from ace_gui.gui.models.layers_csv import layers_table
from ace_gui.gui.models.layers_model import LayersModel
from ace_gui.gui.panels.layer_menu import layer_menu
from ace_gui.gui.state.activity import State
from ace_gui.gui.state.session import Session
from ace_gui.gui.widgets.plain_label import heading, muted_label
from ace_gui.gui.widgets.table_tools import copy_table, plain_rows, save_table

EVERY_ROLE = "all roles"
_WIDTHS = {
    Column.ROLE: 118,
    Column.SHAPE: 84,
    Column.OUTCOME: 96,
    Column.GAMMA: 58,
    Column.LOG_VARIANCE: 62,
    Column.REGIME: 58,
    Column.HEALTH: 54,
    Column.STATE: 78,
}

_NEEDED = {
    Column.SHAPE: 840,
    Column.LOG_VARIANCE: 760,
    Column.OUTCOME: 640,
    Column.ROLE: 500,
    Column.HEALTH: 400,
}
"""Width of the table below which a column is hidden."""


class LayersTable(QTableView):
    """Gives up columns that can be read elsewhere where there is little room."""

    def resizeEvent(self, event: QResizeEvent) -> None:
        room = self.viewport().width()
        for column, needed in _NEEDED.items():
            self.setColumnHidden(column, room < needed)
        super().resizeEvent(event)


class _BothEnds(QStyledItemDelegate):
    """Shortens text in its middle: names are told apart by their block and by their end."""

    def initStyleOption(
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        super().initStyleOption(option, index)
        option.textElideMode = Qt.TextElideMode.ElideMiddle


class LayersPanel(QWidget):
    """Shows the session's layers; its current row and the session's selection follow each other.

    ``overrides_edited`` carries the new rules; ``rule_wanted`` an Override to be completed.
    """

    overrides_edited = Signal(object)
    rule_wanted = Signal(object)

    def __init__(self, session: Session, healths: Healths, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.model = LayersModel(session, healths, self)
        self.text = QLineEdit(self)
        self.text.setPlaceholderText("Filter by name")
        self.text.setAccessibleName("Filter layers by name")
        self.text.setClearButtonEnabled(True)
        self.role = QComboBox(self)
        self.role.setAccessibleName("Filter layers by role")
        self._count = muted_label("", self)
        self._count.setWordWrap(False)
        self._rows: tuple[PlanRow, ...] = ()
        self.table = self._make_table()
        self._add_table_actions()
        self._empty = muted_label("", self)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._lay_out()
        self.text.textChanged.connect(self._filter)
        self.role.currentTextChanged.connect(self._filter)
        self.model.modelReset.connect(self._take_rows)
        session.draft.changed.connect(self._show_empty)
        session.selection_changed.connect(self._follow)
        self._fill_roles()

    def focus_filter(self) -> None:
        """Put the cursor into the filter."""
        self.text.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.text.selectAll()

    def step(self, by: int) -> None:
        """Select the row so many places further."""
        row = self.table.currentIndex().row() + by
        if 0 <= row < self.model.rowCount():
            self._session.select(self.model.name_at(row))

    @property
    def selected(self) -> list[str]:
        """Names of the selected tensors, from top to bottom."""
        rows = self.table.selectionModel().selectedRows()
        return [self.model.name_at(row) for row in sorted(index.row() for index in rows)]

    def menu(self) -> QMenu:
        """What can be done with the selected tensors."""
        locked = self._session.activity.is_running(State.MERGING)
        names = [] if locked else self.selected
        take, ask = self.overrides_edited.emit, self.rule_wanted.emit
        return layer_menu(self._session, names, take, ask, self)

    def _add_table_actions(self) -> None:
        copy = QAction("Copy table", self.table)
        copy.setShortcut(QKeySequence.StandardKey.Copy)
        copy.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        copy.triggered.connect(lambda: copy_table(self._columns()))
        save = QAction("Save table…", self.table)
        save.triggered.connect(lambda: save_table(self, "Layers", self._columns()))
        self.table.addActions([copy, save])

    def _columns(self) -> tuple[FigureColumn, ...]:
        """The rows that the filter lets through, in the order shown."""
        shown = [self.model.name_at(row) for row in range(self.model.rowCount())]
        return layers_table(self._session, shown)

    def _open_menu(self, place: QPoint) -> None:
        menu = self.menu()
        menu.addSeparator()
        menu.addActions(self.table.actions())
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(self.table.viewport().mapToGlobal(place))

    def _make_table(self) -> QTableView:
        table = LayersTable(self)
        table.setObjectName("layers")
        table.setAccessibleName("Layers")
        table.setModel(self.model)
        plain_rows(table, padding=8)
        table.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        table.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        table.customContextMenuRequested.connect(self._open_menu)
        table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        table.setItemDelegateForColumn(Column.TENSOR, _BothEnds(table))
        table.setIconSize(QSize(14, 14))
        table.setAlternatingRowColors(True)
        table.setWordWrap(False)
        header = table.horizontalHeader()
        header.setObjectName("layers-header")
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

    def _take_rows(self) -> None:
        """The model shows other rows, of another plan or by another filter."""
        if self._rows is self._session.layers.rows:
            self._after_reset()
        else:
            self._fill_roles()

    def _fill_roles(self) -> None:
        self._rows = self._session.layers.rows
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
        base = self._session.draft.inputs.base is not None
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
