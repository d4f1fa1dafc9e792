"""Models to choose from: those found in folders, and those in the Hugging Face cache."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import (
    QAbstractItemView,
    QButtonGroup,
    QHeaderView,
    QRadioButton,
    QTreeWidgetItem,
    QWidget,
)

from ace_gui.engine.contract.events import CachedModelInfo, CachedModelsFound, Event, ModelsFound
from ace_gui.engine.contract.jobs import CachedModelsJob, ScanJob
from ace_gui.formatting import counted, human_bytes
from ace_gui.gui.control.engine.engine_client import EngineClient
from ace_gui.gui.dialogs.dialog import Dialog
from ace_gui.gui.models.figures_model import GAP
from ace_gui.gui.text import plain, tooltip
from ace_gui.gui.widgets.fields.named import search_field
from ace_gui.gui.widgets.labels.plain_label import muted_label
from ace_gui.gui.widgets.tables.table_tools import row_tree
from ace_gui.recipe.values import model_name

_EXPERT, _BASE, _ARCHITECTURE, _SIZE, _SAID = range(5)
_ON: Final = Qt.CheckState.Checked
_RIGHT: Final = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_MODEL: Final = Qt.ItemDataRole.UserRole + 2


class ScanDialog(Dialog):
    """The models found in a folder. ``chosen`` carries the base, or None if one is open, and the
    experts."""

    chosen = Signal(object, object)

    def __init__(
        self,
        engine: EngineClient,
        paths: Sequence[Path],
        base: Path | None,
        parent: QWidget | None = None,
    ) -> None:
        title = "Models in this folder" if len(paths) == 1 else "Models"
        super().__init__(title, parent, cancels=True)
        self._given = base
        self._found: ModelsFound | None = None
        self.fit(52, 27, lines=True)
        self.tree = row_tree("Models found", ["Expert", "Base", "Architecture", "Size", ""], self)
        self.tree.header().setStretchLastSection(True)
        self.tree.itemChanged.connect(lambda *_: self._allow())
        self.bases = QButtonGroup(self)
        self.bases.idToggled.connect(lambda *_: self._judge())
        self.note = muted_label("Reading headers …", self)
        self.take = self.add_button("&Open", self._choose)
        self.fill((self.tree, 1), self.note)
        self.take.setEnabled(False)
        scan = engine.run(ScanJob(paths=tuple(paths), base=base), self._show)
        self.finished.connect(lambda _: scan.drop())

    def _show(self, found: Event) -> None:
        if not isinstance(found, ModelsFound):
            return
        blocked = QSignalBlocker(self.tree)
        self._found = found
        for index, model in enumerate(found.models):
            name = plain(model_name(model.path))
            facts = " ".join(part for part in (model.architecture, model.dtype) if part)
            size = human_bytes(model.bytes) if model.bytes else ""
            item = QTreeWidgetItem(self.tree, [name, "", facts, size, ""])
            item.setToolTip(_EXPERT, tooltip(str(model.path)))
            item.setTextAlignment(_SIZE, _RIGHT)
            button = QRadioButton(self.tree)
            button.setAccessibleName(f"{name} is the base model")
            button.setEnabled(not model.problem and self._given is None)
            self.bases.addButton(button, index)
            self.tree.setItemWidget(item, _BASE, button)
        blocked.unblock()
        if found.base is not None:
            self.bases.button(found.base).setChecked(True)
        self._judge()

    def _items(self) -> list[QTreeWidgetItem]:
        items = (self.tree.topLevelItem(row) for row in range(self.tree.topLevelItemCount()))
        return [item for item in items if item is not None]

    def _judge(self) -> None:
        """Show for each model whether it fits the base, and check those that do."""
        found, base = self._found, self.bases.checkedId()
        if found is None:
            return
        for index, (model, item) in enumerate(zip(found.models, self._items(), strict=True)):
            fits = base >= 0 and index != base and index in found.alike[base]
            words = model.problem
            if not words and base >= 0:
                other = "fits" if fits else "tensors differ from the base"
                words = "the base" if index == base else other
            item.setText(_SAID, GAP + plain(words))
            item.setToolTip(_SAID, tooltip(model.problem))
            allowed = fits and not model.problem
            flags = Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEnabled
            item.setFlags(flags | Qt.ItemFlag.ItemIsUserCheckable if allowed else flags)
            item.setData(_EXPERT, Qt.ItemDataRole.CheckStateRole, _ON if allowed else None)
        self._allow()

    def experts(self) -> list[Path]:
        """The checked models."""
        models = self._found.models if self._found is not None else ()
        pairs = zip(models, self._items(), strict=True)
        return [model.path for model, item in pairs if item.checkState(_EXPERT) == _ON]

    def _allow(self) -> None:
        found, base = self._found, self.bases.checkedId()
        if found is None:
            return
        experts, adding = self.experts(), self._given is not None
        self.take.setEnabled(base >= 0 and (bool(experts) or not adding))
        self.take.setText(
            counted(len(experts), "&Add %n expert", "&Add %n experts")
            if adding
            else counted(len(experts), "&Open with %n expert", "&Open with %n experts")
        )
        if not found.models:
            self.note.setText("There is no model in this folder or its subfolders.")
        elif base < 0:
            self.note.setText("Which one is the base, from which the others were fine-tuned?")
        else:
            self.note.setText("Only headers were read; the models are checked once they are open.")

    def _choose(self) -> None:
        found, base, experts = self._found, self.bases.checkedId(), self.experts()
        if found is not None and base >= 0:
            self.accept()
            self.chosen.emit(found.models[base].path if self._given is None else None, experts)


class HubCacheDialog(Dialog):
    """The models in the local Hugging Face cache, to open as base or experts.

    ``base_chosen`` carries a folder, ``experts_chosen`` a list of folders; both close the dialog.
    """

    base_chosen = Signal(object)
    experts_chosen = Signal(object)

    def __init__(self, engine: EngineClient, parent: QWidget, *, can_add: bool) -> None:
        super().__init__("Models in the Hugging Face cache", parent)
        self._can_add = can_add
        self.fit(620, 420)
        self.filter = search_field("Filter models by name", "Filter by name")
        self.filter.textChanged.connect(self._narrow)
        self.tree = row_tree("Models in the cache", ["Model", "Revision", "Size"], self)
        self.tree.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.tree.header().setStretchLastSection(False)
        self.tree.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self.tree.setSortingEnabled(True)
        self.tree.sortByColumn(0, Qt.SortOrder.AscendingOrder)
        self.message = muted_label("Searching the cache …", self)
        tip = "Replaces what is loaded"
        self.base_button = self.add_button("Open as base", self._choose_base, tip=tip)
        tip = "Models fine-tuned from the base" if can_add else "Open a base model first"
        self.experts_button = self.add_button("Add as experts", self._choose_experts, tip=tip)
        note = muted_label("Only models on this disk. Nothing is downloaded.", self)
        self.fill(self.filter, self.message, (self.tree, 1), note)
        main = self.experts_button if can_add else self.base_button
        self.tree.itemDoubleClicked.connect(lambda *_: main.click())
        self.tree.itemSelectionChanged.connect(self._allow)
        self._allow()
        listing = engine.run(CachedModelsJob(), self._show)
        self.finished.connect(lambda _: listing.drop())

    def _show(self, found: Event) -> None:
        if not isinstance(found, CachedModelsFound):
            return
        self.tree.clear()
        self.tree.addTopLevelItems([_CachedRow(model) for model in found.models])
        self.message.setText(f"No models with weights in {found.folder}.")
        self.message.setVisible(not found.models)
        self._narrow()

    def _narrow(self) -> None:
        """Show only models with this text in their names."""
        for row in range(self.tree.topLevelItemCount()):
            item = self.tree.topLevelItem(row)
            assert item is not None
            item.setHidden(self.filter.text().casefold() not in item.text(0).casefold())
        self._allow()

    def _selected(self) -> list[Path]:
        items = (item for item in self.tree.selectedItems() if not item.isHidden())
        return [item.data(0, _MODEL).folder for item in items]

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


class _CachedRow(QTreeWidgetItem):
    """Sorted by name, revision, or size in bytes."""

    def __init__(self, model: CachedModelInfo) -> None:
        super().__init__([plain(model.name), plain(model.revision), human_bytes(model.bytes)])
        self._order = (model.name.lower(), model.revision, model.bytes)
        self.setData(0, _MODEL, model)
        self.setTextAlignment(2, _RIGHT)
        for column in range(self.columnCount()):
            self.setToolTip(column, tooltip(str(model.folder)))

    def __lt__(self, other: QTreeWidgetItem) -> bool:
        tree = self.treeWidget()
        column = 0 if tree is None else tree.sortColumn()
        return bool(self._order[column] < other._order[column])  # type: ignore[attr-defined]
