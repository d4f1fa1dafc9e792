"""The tree of layers: its visible columns, the drawing of rows, the expanded blocks."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyleOptionViewItem,
    QTreeView,
    QVBoxLayout,
    QWidget,
)

from ace_gui.gui.models.layer_columns import COLUMNS, GAMMA, REGIME, TENSOR
from ace_gui.gui.models.layers_model import LayersModel
from ace_gui.gui.panels.layer_cells import CELLS, Cell, GammaCell, Index, RegimeCell
from ace_gui.gui.theme import Face, current_theme, face
from ace_gui.gui.widgets.layout import on_font_change

_BAR: Final = ((118, 26), (102, 22), (84, 15), (0, 13))  # digits: least table width, width of γ
_ROOM: Final = (7, 18)  # digits: minimum and maximum width of a column that fits its texts
_LOW: Final = 800  # px: rows are closer in a lower window
_CHOSEN: Final = 3  # px: the mark at the left of the selected row


class LayerView(QTreeView):
    """Hides columns that are shown elsewhere if there is little room.

    Blocks are folded at first, so that the whole model is in view; that of the selected layer is
    expanded, and all are where a filter leaves few rows.
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
            rect, accent = options.rect, QColor(current_theme().accent)
            painter.fillRect(0, rect.top(), _CHOSEN, rect.height(), accent)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._choose_columns()
        padding = 10 if self.window().height() < _LOW else 14
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
            shown = index in self._layers.useful and room >= (column.least or 0)
            self.setColumnHidden(index, not shown)
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
        shown = self._layers.shown
        for index, column in enumerate(COLUMNS):
            if not column.digits and column is not TENSOR:
                texts = {column.text(layer) for layer in shown}
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
            self._expanded = expanded  # as the person left it without the filter
        else:
            for row in range(layers.rowCount()):
                if layers.index(row, 0).data() in self._expanded:
                    self.expand(layers.index(row, 0))
        self.scrollToTop()

    def _scale(self) -> None:
        """The bars of all rows have the same scale."""
        bars = self._cells[GAMMA.index]
        assert isinstance(bars, GammaCell)
        now = self._layers.gamma_scale, self._layers.tau
        if now != (bars.scale, bars.tau):
            bars.scale, bars.tau = now
            self.viewport().update()


class WholeRows(QWidget):
    """As high as a whole number of the table's rows, so that none is cut at its end."""

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
