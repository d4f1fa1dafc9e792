"""The models found in a folder: choose the base and the experts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import (
    QButtonGroup,
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QRadioButton,
    QTreeWidget,
    QTreeWidgetItem,
    QWidget,
)

from ace_gui.engine.contract.events import ModelsFound
from ace_gui.formatting import counted, human_bytes
from ace_gui.gui.control.conductor import Conductor
from ace_gui.gui.models.figures_model import GAP
from ace_gui.gui.text import plain, tooltip
from ace_gui.gui.widgets.labels.plain_label import muted_label
from ace_gui.gui.widgets.layout.arrangement import down
from ace_gui.gui.widgets.tables.table_tools import RoomyCell
from ace_gui.recipe.values import model_name

_TITLES: Final = ("Expert", "Base", "Architecture", "Size")
_EXPERT, _BASE, _ARCHITECTURE, _SIZE, _SAID = range(5)
_ON: Final = Qt.CheckState.Checked


class ScanDialog(QDialog):
    """``chosen`` carries the base, or None if one is open, and the experts."""

    chosen = Signal(object, object)

    def __init__(
        self,
        conductor: Conductor,
        paths: Sequence[Path],
        base: Path | None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._given = base
        self._found: ModelsFound | None = None
        self.setWindowTitle("Models in this folder" if len(paths) == 1 else "Models")
        line = self.fontMetrics().height()
        self.resize(QSize(52 * line, 27 * line).boundedTo(self.screen().availableSize() * 0.92))
        self.tree = QTreeWidget(self)
        self.tree.setAccessibleName("Models found")
        self.tree.setRootIsDecorated(False)
        self.tree.setItemDelegate(RoomyCell(self.tree))
        self.tree.setHeaderLabels([*(title for title in _TITLES), ""])
        header = self.tree.header()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setStretchLastSection(True)
        self.tree.itemChanged.connect(lambda *_: self._allow())
        self.bases = QButtonGroup(self)
        self.bases.idToggled.connect(lambda *_: self._judge())
        self.note = muted_label("Reading headers …", self)
        self._buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel, self)
        self.take = self._buttons.addButton("&Open", QDialogButtonBox.ButtonRole.AcceptRole)
        self._buttons.accepted.connect(self._choose)
        self._buttons.rejected.connect(self.reject)
        parts = (self.tree, 1), self.note, self._buttons
        self.setLayout(down(*parts, margins=(12, 12, 12, 12)))
        self.take.setEnabled(False)
        conductor.models_found.connect(self._fill)
        conductor.scan(paths, base)

    def _fill(self, found: ModelsFound) -> None:
        if self._found is not None:  # requested by another dialog
            return
        self._found = found
        for index, model in enumerate(found.models):
            facts = " ".join(part for part in (model.architecture, model.dtype) if part)
            size = human_bytes(model.bytes) if model.bytes else ""
            item = QTreeWidgetItem([plain(model_name(model.path)), "", facts, size, ""])
            item.setToolTip(_EXPERT, tooltip(str(model.path)))
            item.setTextAlignment(
                _SIZE, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            )
            self.tree.addTopLevelItem(item)
            button = QRadioButton(self.tree)
            button.setAccessibleName(f"{plain(model_name(model.path))} is the base model")
            button.setEnabled(not model.problem and self._given is None)
            self.bases.addButton(button, index)
            self.tree.setItemWidget(item, _BASE, button)
        if found.base is not None:
            self.bases.button(found.base).setChecked(True)
        self._judge()

    def _judge(self) -> None:
        """Show for each model whether it fits the base, and check those that do."""
        found, base = self._found, self.bases.checkedId()
        if found is None:
            return
        for index, model in enumerate(found.models):
            item = self.tree.topLevelItem(index)
            if item is None:
                continue
            fits = base >= 0 and index != base and index in found.alike[base]
            words = self._words(index, base, model.problem, fits=fits)
            item.setText(_SAID, GAP + plain(words))
            item.setToolTip(_SAID, tooltip(model.problem))
            allowed = fits and not model.problem
            flags = Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEnabled
            item.setFlags(flags | Qt.ItemFlag.ItemIsUserCheckable if allowed else flags)
            if allowed:
                item.setCheckState(_EXPERT, _ON)
            else:
                item.setData(_EXPERT, Qt.ItemDataRole.CheckStateRole, None)
        self._allow()

    def _words(self, index: int, base: int, problem: str, *, fits: bool) -> str:
        if problem:
            return problem
        if base < 0:
            return ""
        if index == base:
            return "the base"
        return "fits" if fits else "tensors differ from the base"

    def experts(self) -> list[Path]:
        """The checked models."""
        models = self._found.models if self._found is not None else ()
        items = (self.tree.topLevelItem(index) for index in range(len(models)))
        ticked = [item is not None and item.checkState(_EXPERT) == _ON for item in items]
        return [model.path for model, on in zip(models, ticked, strict=True) if on]

    def _allow(self) -> None:
        found, base, experts = self._found, self.bases.checkedId(), self.experts()
        if found is None:
            return
        adding = self._given is not None
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
        found, base = self._found, self.bases.checkedId()
        if found is not None and base >= 0:
            chosen = None if self._given is not None else found.models[base].path
            experts = self.experts()
            self.accept()
            self.chosen.emit(chosen, experts)
