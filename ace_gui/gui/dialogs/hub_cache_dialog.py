"""The models in the local Hugging Face cache, to open as base or experts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QPersistentModelIndex,
    QSortFilterProxyModel,
    Qt,
    Signal,
)
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QLineEdit,
    QPushButton,
    QStackedWidget,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from ace_gui.engine.contract.events import CachedModelInfo, CachedModelsFound
from ace_gui.formatting import human_bytes
from ace_gui.gui.control.conductor import Conductor
from ace_gui.gui.text import plain, tooltip
from ace_gui.gui.widgets.labels.plain_label import muted_label
from ace_gui.gui.widgets.tables.table_tools import plain_rows

NAME, REVISION, SIZE = range(3)
_TITLES: Final = ("Model", "Revision", "Size")
_SORT: Final = Qt.ItemDataRole.UserRole
_Index = QModelIndex | QPersistentModelIndex


class CachedModels(QAbstractTableModel):
    """One row per revision: the model's name, its revision, the size of its files."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.models: tuple[CachedModelInfo, ...] = ()

    def fill(self, models: Sequence[CachedModelInfo]) -> None:
        """Show these models."""
        self.beginResetModel()
        self.models = tuple(models)
        self.endResetModel()

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008 (as Qt has it)
        return 0 if parent.isValid() else len(self.models)

    def columnCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(_TITLES)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> object:
        if orientation is Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return _TITLES[section]
        return None

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        model = self.models[index.row()]
        shown = (plain(model.name), plain(model.revision), human_bytes(model.bytes))
        if role == Qt.ItemDataRole.DisplayRole:
            return shown[index.column()]
        if role == _SORT:
            return (model.name.lower(), model.revision, model.bytes)[index.column()]
        if role == Qt.ItemDataRole.ToolTipRole:
            return tooltip(str(model.folder))
        if role == Qt.ItemDataRole.TextAlignmentRole and index.column() == SIZE:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        return None


class HubCacheDialog(QDialog):
    """``base_chosen`` carries a folder, ``experts_chosen`` a list of folders; both close it."""

    base_chosen = Signal(object)
    experts_chosen = Signal(object)

    def __init__(self, conductor: Conductor, parent: QWidget, *, can_add: bool) -> None:
        super().__init__(parent)
        self._can_add = can_add
        self.setWindowTitle("Models in the Hugging Face cache")
        self.resize(620, 420)
        self.model = CachedModels(self)
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
        layout = QVBoxLayout(self)
        layout.addWidget(self.filter)
        layout.addWidget(self._pages, 1)
        layout.addWidget(muted_label("Only models on this disk. Nothing is downloaded.", self))
        layout.addWidget(buttons)

    def _show(self, found: CachedModelsFound) -> None:
        self.model.fill(found.models)
        self.message.setText(f"No models with weights in {found.folder}.")
        self._pages.setCurrentWidget(self.table if found.models else self.message)
        self._allow()

    def _selected(self) -> list[Path]:
        rows = sorted(index.row() for index in self.table.selectionModel().selectedRows())
        own = (self._sorted.mapToSource(self._sorted.index(row, NAME)).row() for row in rows)
        return [self.model.models[row].folder for row in own]

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
