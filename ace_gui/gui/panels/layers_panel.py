"""The tree of layers with its columns and blocks, its filter and its context menu."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from PySide6.QtCore import QItemSelectionModel, QModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import QAction, QColor, QFontMetrics, QPainter, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QMenu,
    QStackedLayout,
    QStyleOptionViewItem,
    QTreeView,
    QVBoxLayout,
    QWidget,
)

from ace_gui.field_info import ParameterValue
from ace_gui.formatting import counted
from ace_gui.gui.models.figures_model import FigureColumn
from ace_gui.gui.models.layer_columns import COLUMNS, GAMMA, REGIME, TENSOR, exported
from ace_gui.gui.models.layer_figures import Healths
from ace_gui.gui.models.layers_model import LayersModel
from ace_gui.gui.panels.layer_cells import CELLS, Cell, GammaCell, Index, RegimeCell
from ace_gui.gui.state.activity import ActivityState
from ace_gui.gui.state.draft import by_family
from ace_gui.gui.state.planned_layers import Rules, open_to_override, overridden, reset, rule_for
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import tooltip
from ace_gui.gui.theme import Face, current_theme, face
from ace_gui.gui.widgets.controls import Choice, Segments, push_button, search_field
from ace_gui.gui.widgets.labels import explain, heading, muted_label, secondary_label
from ace_gui.gui.widgets.layout import across, down, on_font_change
from ace_gui.gui.widgets.tables import add_table_actions
from ace_gui.recipe import Override

_BAR: Final = ((118, 26), (102, 22), (95, 19), (84, 15), (0, 13))
"""Pairs in digits: the table's minimum width for a width of the column γ."""
_ROOM: Final = (7, 18)  # digits: minimum and maximum width of a column that fits its texts
_LOW: Final = 800  # px: a lower window has lower rows
_CHOSEN: Final = 3  # px: width of the mark at the left of the selected row


class LayerView(QTreeView):
    """The tree of layers. If there is little room, it hides columns that are shown elsewhere.

    At first only the block of the selected layer is expanded, so that the whole model is in view.
    If a filter leaves few rows, all blocks are expanded.
    """

    def __init__(self, layers: LayersModel) -> None:
        super().__init__()
        self.setObjectName("layers")
        self.setAccessibleName("Layers")
        self._layers = layers
        self._longest: dict[int, int] = {}
        self._expanded: set[str] = set()
        self._cells = [CELLS.get(column.cell, Cell)(self) for column in COLUMNS]
        for index, cell in enumerate(self._cells):
            self.setItemDelegateForColumn(index, cell)
        self.setModel(layers)
        self.setUniformRowHeights(True)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setAllColumnsShowFocus(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._set_header()
        on_font_change(self, self._measure)
        self.expanded.connect(lambda index: self._expanded.add(index.data()))
        self.collapsed.connect(lambda index: self._expanded.discard(index.data()))
        layers.modelReset.connect(self._unfold)
        layers.headerDataChanged.connect(self._choose_columns)
        layers.figures_changed.connect(self._scale)
        layers.figures_changed.connect(self.viewport().update)
        self._unfold()

    def drawRow(self, painter: QPainter, options: QStyleOptionViewItem, index: Index) -> None:
        super().drawRow(painter, options, index)
        if self.selectionModel().isSelected(index):
            rect = options.rect
            accent = QColor(current_theme().accent)
            painter.fillRect(0, rect.top(), _CHOSEN, rect.height(), accent)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._choose_columns()
        if self.window().height() < _LOW:
            padding = 10
        else:
            padding = 14
        if padding != self._cells[0].padding:
            for cell in self._cells:
                cell.padding = padding
            self.scheduleDelayedItemsLayout()
        super().resizeEvent(event)
        if self.selectionModel().hasSelection():
            self.scrollTo(self.currentIndex())

    def go_to(self, name: str) -> None:
        """Make a tensor the current row and expand its block."""
        index = self._layers.index_of(name)
        if index.isValid() and index != self.currentIndex().siblingAtColumn(0):
            self.expand(index.parent())
            self.setCurrentIndex(index)
            self.scrollTo(index)

    @property
    def row_height(self) -> int:
        return self.fontMetrics().height() + self._cells[0].padding

    def _choose_columns(self) -> None:
        metrics = self.fontMetrics()
        digit = metrics.horizontalAdvance("0")
        room = self.viewport().width() / digit
        for index, column in enumerate(COLUMNS):
            is_useful = index in self._layers.useful and room >= (column.least or 0)
            self.setColumnHidden(index, not is_useful)
            digits = column.digits
            if column is GAMMA:
                digits = next(digits for least, digits in _BAR if room >= least)
            longest = max(self._longest.get(index, 0) + 2 * digit, _ROOM[0] * digit)
            width = digits * digit or min(longest, _ROOM[1] * digit)
            self.setColumnWidth(index, RegimeCell.widest() if column is REGIME else width)

    def _set_header(self) -> None:
        header = self.header()
        header.setObjectName("layers-header")
        header.setFont(face(Face.CAPTION))
        header.setStretchLastSection(False)
        header.setSectionsMovable(False)
        header.setMinimumSectionSize(40)
        header.setSectionResizeMode(TENSOR.index, QHeaderView.ResizeMode.Stretch)
        self.setSortingEnabled(True)
        self.sortByColumn(-1, Qt.SortOrder.AscendingOrder)
        header.setSortIndicatorClearable(True)

    def _measure(self, metrics: QFontMetrics) -> None:
        self.setIndentation(round(0.6 * metrics.height()))
        layers = self._layers.shown
        for index, column in enumerate(COLUMNS):
            if not column.digits and column is not TENSOR:
                texts = {column.text(layer) for layer in layers}
                self._longest[index] = max(map(metrics.horizontalAdvance, texts), default=0)
        self._choose_columns()

    def _unfold(self) -> None:
        """Expand what was expanded before, or all of a short list."""
        self._measure(self.fontMetrics())
        self._scale()
        layers = self._layers
        if len(layers.groups) == 1 or layers.is_narrowed:
            expanded = set(self._expanded)
            self.expandAll()
            self._expanded = expanded  # as it was before the filter
        else:
            for row in range(layers.rowCount()):
                if layers.index(row, 0).data() in self._expanded:
                    self.expand(layers.index(row, 0))
        self.scrollToTop()

    def _scale(self) -> None:
        """Give the bars of all rows the same scale."""
        bars = self._cells[GAMMA.index]
        assert isinstance(bars, GammaCell)
        new = self._layers.gamma_scale, self._layers.tau
        if new != (bars.scale, bars.tau):
            bars.scale, bars.tau = new
            self.viewport().update()


class WholeRows(QWidget):
    """Gives the table the height of a whole number of rows, so that it cuts none."""

    def __init__(self, table: LayerView) -> None:
        super().__init__()
        self._table = table
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addWidget(table)

    def resizeEvent(self, event: QResizeEvent) -> None:
        header = self._table.header().sizeHint().height()
        spare = (event.size().height() - header) % self._table.row_height
        self._column.setContentsMargins(0, 0, 0, spare if event.size().height() > 3 * header else 0)
        super().resizeEvent(event)


EVERY_ROLE = "All roles"
MERGED, ALL = range(2)
# in text lines: width
_TITLE_NEEDS = 37
_ROLE_NEEDS = 30
_LEAST = 22


class LayersPanel(QWidget):
    """Shows the session's layers. Its current row is always the session's selection.

    ``rule_wanted`` carries an Override for the user to complete.
    """

    rule_wanted = Signal(object)

    def __init__(self, session: Session, healths: Healths) -> None:
        super().__init__()
        explain(self, "Regime")
        self._session = session
        self.model = LayersModel(session, healths, self)
        self.text = search_field("Filter layers by name", "Filter by name")
        self.shown = Segments("Which tensors are shown")
        self.shown.add(
            "Merged",
            "Tensors that an expert changes and a method merges, and those with an override",
        )
        self.shown.add("All", "Every tensor of the model")
        self.role = Choice("Filter layers by role", {"": (EVERY_ROLE, "")})
        self.table = LayerView(self.model)
        self.table.customContextMenuRequested.connect(self._open_menu)
        self.table.selectionModel().currentRowChanged.connect(self._choose)
        add_table_actions(self.table, "Layers", self._columns)
        self.table.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.left_out = muted_label()
        self.left_out.setWordWrap(False)
        self.show_all = push_button("", self._clear_filters, kind="link", role=Face.CAPTION)
        self._empty = secondary_label()
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._lay_out()
        on_font_change(self, self._measure)
        self.text.textChanged.connect(self._filter)
        self.role.chosen.connect(self._filter)
        self.shown.chosen.connect(lambda _: self._filter())
        self.model.modelReset.connect(self._after_reset)
        session.draft.changed.connect(self._fill_roles)
        session.draft.changed.connect(self._show_empty)
        session.selection_changed.connect(self._follow)
        self._fill_roles()
        self._after_reset()

    def _measure(self, metrics: QFontMetrics) -> None:
        self.setMinimumWidth(_LEAST * metrics.height())
        words = metrics.horizontalAdvance(self.text.placeholderText())
        self.text.setMinimumWidth(words + 4 * metrics.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Hide the least important parts first."""
        super().resizeEvent(event)
        lines = event.size().width() / self.fontMetrics().height()
        self._title.setVisible(lines >= _TITLE_NEEDS)
        self.role.setVisible(lines >= _ROLE_NEEDS)

    def show_only(self, which: int) -> None:
        """Show the ``MERGED`` or ``ALL`` tensors."""
        self.shown.choose(which)
        self._filter()

    def _clear_filters(self) -> None:
        self.text.clear()
        self.role.setCurrentIndex(0)
        self.show_only(ALL)

    def focus_filter(self) -> None:
        self.text.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.text.selectAll()

    def step(self, by: int) -> None:
        row = self.model.position(self._session.selection) + by
        if 0 <= row < len(self.model.shown):
            self._session.select(self.model.name_at(row))

    @property
    def selected(self) -> list[str]:
        rows = (self.model.position_of(i) for i in self.table.selectionModel().selectedRows())
        return [self.model.name_at(row) for row in sorted(rows) if row >= 0]

    def choose(self, names: Sequence[str]) -> None:
        """Select these tensors; the first becomes the window's selection."""
        if any(self.model.position(name) < 0 for name in names):
            self._clear_filters()
        self._session.select(names[0])
        self._follow()
        selection = self.table.selectionModel()
        flags = QItemSelectionModel.SelectionFlag
        for name in names[1:]:
            index = self.model.index_of(name)
            self.table.expand(index.parent())
            selection.select(index, flags.Select | flags.Rows)

    def menu(self) -> QMenu:
        locked = self._session.activity.is_running(ActivityState.MERGING)
        if locked:
            names = []
        else:
            names = self.selected
        return layer_menu(self._session, names, self.rule_wanted.emit, self)

    def _columns(self) -> tuple[FigureColumn, ...]:
        """The filtered rows, in the displayed order."""
        return exported(self.model.shown, self._session.draft.inputs.names)

    def _open_menu(self, point: QPoint) -> None:
        menu = self.menu()
        menu.addSeparator()
        menu.addActions(self.table.actions())
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(self.table.viewport().mapToGlobal(point))

    def _lay_out(self) -> None:
        self._title = heading("Layers")
        line = across(self._title, (self.text, 2), None, self.shown, self.role, gap=12)
        below = across(self.left_out, self.show_all, None)
        content = QWidget(self)
        self._stack = QStackedLayout(content)
        self._stack.addWidget(self._empty)
        self._stack.addWidget(WholeRows(self.table))
        self.setLayout(down(line, (content, 1), below, margins=(8, 6, 8, 2)))

    def _fill_roles(self) -> None:
        self.role.offer({"": (EVERY_ROLE, "")} | {role: (role, "") for role in self.model.roles})
        self._filter()

    def _filter(self) -> None:
        text = self.text.text().strip()
        merged = self.shown.current == MERGED
        self.model.set_filter(text, self.role.current, merged=merged)
        self._after_reset()

    def _after_reset(self) -> None:
        merged = self.model.total_merged
        total = self.model.total
        self.shown.set_title(MERGED, f"Merged {merged}")
        self.shown.set_title(ALL, f"All {total}")
        self.shown.setVisible(0 < merged < total)
        left_out = total - len(self.model.shown)
        for widget in (self.left_out, self.show_all):
            widget.setVisible(left_out > 0)
        words = "%n other tensor is not shown.", "%n other tensors are not shown."
        self.left_out.setText(counted(left_out, *words))
        self.show_all.setText(f"Show all {total}")
        self._show_empty()
        self._follow()

    def _show_empty(self) -> None:
        base = self._session.draft.inputs.base is not None
        if base:
            reading = "Reading headers …"
        else:
            reading = "Open a base model to see its layers."
        self._empty.setText("No tensor matches this filter." if self.model.total else reading)
        self._stack.setCurrentIndex(1 if self.model.rowCount() else 0)

    def _choose(self, current: QModelIndex) -> None:
        row = self.model.position_of(current)
        if row >= 0:
            self._session.select(self.model.name_at(row))

    def _follow(self) -> None:
        """Make the session's selection the tree's current row."""
        name = self._session.selection
        if name is None or self.model.position(name) < 0:
            self.table.clearSelection()
        else:
            self.table.go_to(name)


def _further_parameters(session: Session, method: str) -> Mapping[str, ParameterValue]:
    """What the project sets for a method; nothing for its own, which a rule need not repeat."""
    inputs = session.draft.inputs
    if method == inputs.method:
        return {}
    return inputs.parameters.get(method, {})


def layer_menu(
    session: Session, names: Collection[str], ask: Callable[[Override], object], parent: QWidget
) -> QMenu:
    """The menu for the selected layers. ``ask`` gets a rule that the user completes."""
    menu = QMenu(parent)
    layers = session.layers
    tensors = open_to_override(layers, names)
    if tensors:
        title = counted(len(tensors), "tensor", "tensors")
    else:
        title = "Not part of the merge"
    menu.addSection(next(iter(tensors)).split(".", 1)[-1] if len(tensors) == 1 else title)

    def take(rules: Rules) -> None:
        session.inputs_wanted.emit(replace(session.draft.inputs, overrides=rules))

    def offer(where: QMenu, text: str, change: Override) -> QAction:
        action = where.addAction(text)
        action.triggered.connect(lambda _=False: take(overridden(layers, tensors, change)))
        return action

    methods = menu.addMenu("&Merge with")
    for family, members in by_family(session.draft.methods):
        group = methods.addMenu(family)
        group.setToolTipsVisible(True)
        for method in members:
            parameters = _further_parameters(session, method.name)
            change = Override(
                merge_method=method.name, disposition="merge", parameters=dict(parameters)
            )
            action = offer(group, method.label(parameters.get("variant")), change)
            action.setToolTip(tooltip(method.summary))
    offer(menu, "&Average", Override(disposition="average"))
    offer(menu, "&Keep from the base", Override(disposition="base"))
    override = rule_for(layers, tensors, Override())
    menu.addAction("&Other…").triggered.connect(lambda _=False: ask(override))
    menu.addSeparator()
    reset_action = menu.addAction("&Reset")
    reset_action.triggered.connect(lambda _=False: take(reset(layers, tensors)))
    for action in menu.actions():
        action.setEnabled(bool(tensors))
    reset_action.setEnabled(any((row := layers.row(n)) and row.override for n in tensors))
    return menu
