"""The models in the local Hugging Face cache, to open as base or experts."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from PySide6.QtCore import QSortFilterProxyModel, Qt, Signal
from PySide6.QtGui import QStandardItem, QStandardItemModel
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QLineEdit,
    QPushButton,
    QStackedWidget,
    QTableView,
    QWidget,
)

from ace_gui.engine.contract.events import CachedModelInfo, CachedModelsFound
from ace_gui.formatting import human_bytes
from ace_gui.gui.control.conductor import Conductor
from ace_gui.gui.text import plain, tooltip
from ace_gui.gui.widgets.labels.plain_label import muted_label
from ace_gui.gui.widgets.layout.arrangement import down
from ace_gui.gui.widgets.tables.table_tools import plain_rows

NAME, REVISION, SIZE = range(3)
_TITLES: Final = ("Model", "Revision", "Size")
_SORT: Final = Qt.ItemDataRole.UserRole + 2


class HubCacheDialog(QDialog):
    """``base_chosen`` carries a folder, ``experts_chosen`` a list of folders; both close it."""

    base_chosen = Signal(object)
    experts_chosen = Signal(object)

    def __init__(self, conductor: Conductor, parent: QWidget, *, can_add: bool) -> None:
        super().__init__(parent)
        self._can_add = can_add
        self.setWindowTitle("Models in the Hugging Face cache")
        self.resize(620, 420)
        self.model = QStandardItemModel(0, len(_TITLES), self)
        self.model.setHorizontalHeaderLabels(_TITLES)
        self._models: tuple[CachedModelInfo, ...] = ()
        self._sorted = QSortFilterProxyModel(self)
        self._sorted.setSourceModel(self.model)
        self._sorted.setSortRole(_SORT)
        self._sorted.setFilterCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        self.filter = QLineEdit(self)
        self.filter.setPlaceholderText("Filter by name")
        self.filter.setAccessibleName("Filter models by name")
        self.filter.setClearButtonEnabled(True)
        self.filter.textChanged.connect(self._sorted.setFilterFixedString)
        self.table = self._make_table()
        self.message = muted_label("Searching the cache …", self)
        self.message.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._pages = QStackedWidget(self)
        self._pages.addWidget(self.message)
        self._pages.addWidget(self.table)
        self.base_button = QPushButton("Open as base", self)
        self.base_button.setToolTip("Replaces what is loaded")
        self.experts_button = QPushButton("Add as experts", self)
        self.experts_button.setToolTip(
            "Models fine-tuned from the base" if can_add else "Open a base model first"
        )
        self._lay_out()
        self.base_button.clicked.connect(self._choose_base)
        self.experts_button.clicked.connect(self._choose_experts)
        self.table.doubleClicked.connect(
            lambda _: (self.experts_button if can_add else self.base_button).click()
        )
        self.table.selectionModel().selectionChanged.connect(self._allow)
        conductor.cached_models.connect(self._show)
        self._allow()
        conductor.list_cached_models()

    def _make_table(self) -> QTableView:
        table = QTableView(self)
        table.setAccessibleName("Models in the cache")
        table.setModel(self._sorted)
        plain_rows(table, padding=10)
        table.setSortingEnabled(True)
        table.sortByColumn(NAME, Qt.SortOrder.AscendingOrder)
        header = table.horizontalHeader()
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        header.setSectionResizeMode(NAME, QHeaderView.ResizeMode.Stretch)
        header.setSectionResizeMode(REVISION, QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(SIZE, QHeaderView.ResizeMode.ResizeToContents)
        return table

    def _lay_out(self) -> None:
        roles = QDialogButtonBox.ButtonRole
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        buttons.addButton(self.base_button, roles.ActionRole)
        buttons.addButton(self.experts_button, roles.ActionRole)
        buttons.rejected.connect(self.reject)
        note = muted_label("Only models on this disk. Nothing is downloaded.", self)
        self.setLayout(down(self.filter, (self._pages, 1), note, buttons, margins=(12, 12, 12, 12)))

    def _show(self, found: CachedModelsFound) -> None:
        self._models = found.models
        self.model.setRowCount(0)
        for index, model in enumerate(found.models):
            self.model.appendRow(_row(index, model))
        self.message.setText(f"No models with weights in {found.folder}.")
        self._pages.setCurrentWidget(self.table if found.models else self.message)
        self._allow()

    def _selected(self) -> list[Path]:
        rows = sorted(index.row() for index in self.table.selectionModel().selectedRows())
        own = [self._sorted.mapToSource(self._sorted.index(row, NAME)).row() for row in rows]
        return [self._models[self.model.item(row).data()].folder for row in own]

    def _allow(self) -> None:
        chosen = len(self._selected())
        self.base_button.setEnabled(chosen == 1)
        self.experts_button.setEnabled(chosen > 0 and self._can_add)

    def _choose_base(self) -> None:
        (folder,) = self._selected()
        self.accept()
        self.base_chosen.emit(folder)

    def _choose_experts(self) -> None:
        chosen = self._selected()
        self.accept()
        self.experts_chosen.emit(chosen)


def _row(index: int, model: CachedModelInfo) -> list[QStandardItem]:
    """Name, revision and size, each with what it is sorted by; the name has ``index``, too."""
    shown = (plain(model.name), plain(model.revision), human_bytes(model.bytes))
    items = [QStandardItem(text) for text in shown]
    for item, value in zip(items, (model.name.lower(), model.revision, model.bytes), strict=True):
        item.setData(value, _SORT)
        item.setToolTip(tooltip(str(model.folder)))
        item.setEditable(False)
    items[NAME].setData(index)
    items[SIZE].setTextAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
    return items
