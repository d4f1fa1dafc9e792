"""The tree of layers: its visible columns, the drawing of rows, the expanded blocks."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyleOptionViewItem,
    QTreeView,
    QWidget,
)

from ace_gui.engine.contract.plan import Disposition
from ace_gui.formatting import shape_text
from ace_gui.gui.models.layer_columns import OVERRIDDEN, Column
from ace_gui.gui.models.layer_tree import LayerTree
from ace_gui.gui.panels.layer_cells import Cell, GammaCell, HealthCell, NameCell, RegimeCell
from ace_gui.gui.theme import Face, current_theme, face
from ace_gui.gui.widgets.layout.font_metrics import on_font_change

_NEEDED: Final = {  # in digits: below this tree width a column is hidden
    Column.STATE: 140,
    Column.LOG_VARIANCE: 130,
    Column.OUTCOME: 92,
    Column.SHAPE: 84,
    Column.ROLE: 72,
    Column.HEALTH: 60,
    Column.REGIME: 50,  # γ is bold, and its bar has the accent colour
}
_WIDTHS: Final = {  # in digits
    Column.GAMMA: 20,
    Column.LOG_VARIANCE: 10,
    Column.HEALTH: 6,
    Column.STATE: 12,
}
# in digits: width for all columns, and for γ
_BAR: Final = ((118, 26), (102, 22), (84, 15), (0, 13))
_ROOM: Final = (7, 18)  # in digits: minimum and maximum width for roles and shapes
_ALL_OPEN: Final = 60  # all blocks are expanded up to this number of rows
_LOW: Final = 800  # px: rows are closer in a lower window
_CHOSEN: Final = 3  # px: the mark at the left of the selected row


class LayerView(QTreeView):
    """Hides columns that are shown elsewhere if there is little room."""

    def __init__(self, tree: LayerTree, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("layers")
        self.setAccessibleName("Layers")
        self._tree = tree
        self._texts: dict[Column, set[str]] = {}
        self._cells: dict[Column, Cell] = {}
        self._gamma = GammaCell(self)
        for column in Column:
            self._cells[column] = self._cell(column)
            self.setItemDelegateForColumn(column, self._cells[column])
        self.setModel(tree)
        self.setUniformRowHeights(True)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setAllColumnsShowFocus(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._set_header()
        on_font_change(self, self._measure)
        tree.modelReset.connect(self._unfold)
        tree.dataChanged.connect(lambda *_: self._scale())
        tree.much_changed.connect(self._scale)
        tree.much_changed.connect(self.viewport().update)
        self._unfold()

    def drawRow(
        self,
        painter: QPainter,
        options: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        super().drawRow(painter, options, index)
        if self.selectionModel().isSelected(index):
            rect = options.rect
            accent = QColor(current_theme().accent)
            painter.fillRect(0, rect.top(), _CHOSEN, rect.height(), accent)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._choose_columns()
        self._space_rows()
        super().resizeEvent(event)

    def _choose_columns(self) -> None:
        room = self.viewport().width() / self.fontMetrics().horizontalAdvance("0")
        for column, needed in _NEEDED.items():
            usual = column == Column.OUTCOME and not self._tree.rows.outcomes_differ
            self.setColumnHidden(column, usual or room < needed)
        digits = next(digits for least, digits in _BAR if room >= least)
        metrics = self.fontMetrics()
        digit = metrics.horizontalAdvance("0")
        self.setColumnWidth(Column.GAMMA, digits * digit)
        for column, texts in self._texts.items():
            longest = max(map(metrics.horizontalAdvance, texts), default=0) + 2 * digit
            least, most = (count * digit for count in _ROOM)
            self.setColumnWidth(column, min(max(longest, least), most))

    def go_to(self, name: str) -> None:
        """Make a tensor the current row and expand its block."""
        index = self._tree.index_of(name)
        if index.isValid() and index != self.currentIndex().siblingAtColumn(0):
            self.expand(index.parent())
            self.setCurrentIndex(index)
            self.scrollTo(index)

    def _cell(self, column: Column) -> Cell:
        kinds = {
            Column.TENSOR: NameCell,
            Column.REGIME: RegimeCell,
            Column.HEALTH: HealthCell,
        }
        return self._gamma if column is Column.GAMMA else kinds.get(column, Cell)(self)

    def _set_header(self) -> None:
        header = self.header()
        header.setObjectName("layers-header")
        header.setFont(face(Face.CAPTION))
        header.setStretchLastSection(False)
        header.setSectionsMovable(False)
        header.setMinimumSectionSize(40)
        header.setSectionResizeMode(Column.TENSOR, QHeaderView.ResizeMode.Stretch)
        self.setSortingEnabled(True)
        self.sortByColumn(-1, Qt.SortOrder.AscendingOrder)
        header.setSortIndicatorClearable(True)

    def _measure(self, metrics: QFontMetrics) -> None:
        digit = metrics.horizontalAdvance("0")
        self.setIndentation(round(0.6 * metrics.height()))
        for column, digits in _WIDTHS.items():
            self.setColumnWidth(column, digits * digit)
        words = (f"{OVERRIDDEN} {kind.value}" for kind in Disposition)
        longest = max(map(metrics.horizontalAdvance, words))
        self.setColumnWidth(Column.OUTCOME, longest + 2 * digit)
        self.setColumnWidth(Column.REGIME, RegimeCell.widest())
        self._choose_columns()

    def _space_rows(self) -> None:
        padding = 10 if self.window().height() < _LOW else 14
        if padding != self._gamma.padding:
            for cell in self._cells.values():
                cell.padding = padding
            self.scheduleDelayedItemsLayout()

    def _unfold(self) -> None:
        """Expand all blocks of a small model, and none of a large one."""
        rows = self._tree.rows
        found = [rows.row_at(index) for index in range(rows.rowCount())]
        self._texts = {
            Column.ROLE: {row.role for row in found},
            Column.SHAPE: {shape_text(shape) for shape in {row.shape for row in found}},
        }
        self._scale()
        self._choose_columns()
        if rows.rowCount() <= _ALL_OPEN:
            self.expandAll()
        self.scrollToTop()

    def _scale(self) -> None:
        """The bars of all rows have the same scale."""
        now = self._tree.rows.gamma_scale, self._tree.rows.tau
        if now != (self._gamma.scale, self._gamma.tau):
            self._gamma.scale, self._gamma.tau = now
            self.viewport().update()
