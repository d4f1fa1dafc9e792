"""The models found in a folder, and the kept runs, to choose some of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from PySide6.QtCore import QDateTime, QLocale, QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QButtonGroup, QRadioButton, QTreeWidget, QTreeWidgetItem, QWidget

from ace_gui.engine.contract.events import Event, MethodInfo, ModelsFound
from ace_gui.engine.contract.jobs import ScanJob
from ace_gui.formatting import counted, human_bytes
from ace_gui.gui.control.engine_client import EngineClient
from ace_gui.gui.control.merge_operation import RunOperations
from ace_gui.gui.control.persistence import project_name
from ace_gui.gui.dialogs.dialog import Dialog
from ace_gui.gui.models.figures_model import GAP
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.run_names import run_title
from ace_gui.gui.text import plain, tooltip
from ace_gui.gui.widgets.controls import named, search_field
from ace_gui.gui.widgets.labels import muted_label
from ace_gui.gui.widgets.tables import row_tree
from ace_gui.recipe.values import hub_name, model_name

_EXPERT, _BASE, _ARCHITECTURE, _SIZE, _SAID = range(5)
_DIFFERS: Final = "tensors differ from the base"
_ON = Qt.CheckState.Checked
_OFF = Qt.CheckState.Unchecked
_RIGHT: Final = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class ScanDialog(Dialog):
    """Lets the user choose among the models in a folder. ``chosen`` carries the base, None if one
    is open already, and the experts."""

    chosen = Signal(object, object)

    def __init__(
        self,
        engine: EngineClient,
        paths: Sequence[Path],
        base: Path | None,
        parent: QWidget | None = None,
    ) -> None:
        if len(paths) == 1:
            title = "Models in this folder"
        else:
            title = "Models"
        super().__init__(title, parent, cancels=True)
        self._base = base
        self._paths = paths
        self._scan: ModelsFound | None = None
        self.fit(52, 27, lines=True)
        self.tree = row_tree("Models found", ["Expert", "Base", "Architecture", "Size", ""])
        self.tree.header().setStretchLastSection(True)
        self.tree.itemChanged.connect(lambda *_: self._allow())
        self.bases = QButtonGroup(self)
        self.bases.idToggled.connect(lambda *_: self._judge())
        self.filter = search_field("Filter models by name", "Filter by name")
        self.filter.textChanged.connect(self._narrow)
        self.note = muted_label("Reading headers …")
        self.take = self.add_button("&Open", self._choose)
        self.fill(self.filter, (self.tree, 1), self.note)
        self.take.setEnabled(False)
        scan = engine.run(ScanJob(paths=tuple(paths), base=base), self._show)
        self.finished.connect(lambda _: scan.drop())

    def _show(self, event: Event) -> None:
        if not isinstance(event, ModelsFound):
            return
        blocked = QSignalBlocker(self.tree)
        self._scan = event
        counts = Counter(model_name(model.path) for model in event.models)
        for index, model in enumerate(event.models):
            hub = hub_name(model.path)
            name = model_name(model.path)
            if counts[name] > 1:
                folder = f"{model.path.parent.name}/"
            else:
                folder = ""
            name = plain(hub or f"{folder}{name}")
            if hub:
                revision = model.path.name[:8]
            else:
                revision = ""
            facts = " ".join(filter(None, (model.architecture, model.dtype, revision)))
            if model.bytes:
                size = human_bytes(model.bytes)
            else:
                size = ""
            item = QTreeWidgetItem(self.tree, [name, "", facts, size, ""])
            item.setToolTip(_EXPERT, tooltip(str(model.path)))
            item.setTextAlignment(_SIZE, _RIGHT)
            button = named(QRadioButton(self.tree), f"{name} is the base model")
            button.setEnabled(not model.problem and self._base is None)
            self.bases.addButton(button, index)
            self.tree.setItemWidget(item, _BASE, button)
        blocked.unblock()
        if event.base is not None:
            self.bases.button(event.base).setChecked(True)
        self._judge()
        self._narrow()

    def _narrow(self) -> None:
        """Show only models with this text in their names. Checked models stay checked."""
        for item in _rows(self.tree):
            item.setHidden(self.filter.text().casefold() not in item.text(_EXPERT).casefold())

    def _judge(self) -> None:
        """Show for each model whether it fits the base, and check those that do."""
        scan = self._scan
        base = self.bases.checkedId()
        if scan is None:
            return
        for index, (model, item) in enumerate(zip(scan.models, _rows(self.tree), strict=True)):
            fits = base >= 0 and index != base and index in scan.alike[base]
            if fits:
                words = "fits"
            elif index == base:
                words = "the base"
            else:
                words = _DIFFERS
            words = model.problem or (words if base >= 0 else "")
            item.setText(_SAID, GAP + plain(words))
            item.setToolTip(_SAID, tooltip(model.problem))
            allowed = fits and not model.problem
            flags = Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEnabled
            item.setFlags(flags | Qt.ItemFlag.ItemIsUserCheckable if allowed else flags)
            item.setData(_EXPERT, Qt.ItemDataRole.CheckStateRole, _ON if allowed else None)
        self._allow()

    def experts(self) -> list[Path]:
        if self._scan is not None:
            models = self._scan.models
        else:
            models = ()
        pairs = zip(models, _rows(self.tree), strict=True)
        return [model.path for model, item in pairs if item.checkState(_EXPERT) == _ON]

    def _allow(self) -> None:
        scan = self._scan
        base = self.bases.checkedId()
        if scan is None:
            return
        experts = self.experts()
        adding = self._base is not None
        self.take.setEnabled(base >= 0 and (bool(experts) or not adding))
        count = counted(len(experts), "expert", "experts")
        self.take.setText(f"&Add {count}" if adding else f"&Open with {count}")
        if not scan.models:
            folders = ", ".join(map(str, self._paths))
            self.note.setText(plain(f"No model with weights was found in {folders}."))
        elif base < 0:
            self.note.setText("Which model is the base that the others were fine-tuned from?")
        else:
            self.note.setText("Only headers were read; the models are checked once they are open.")

    def _choose(self) -> None:
        scan = self._scan
        base = self.bases.checkedId()
        experts = self.experts()
        if scan is not None and base >= 0:
            self.accept()
            self.chosen.emit(scan.models[base].path if self._base is None else None, experts)


class CleanUpDialog(Dialog):
    """Exported runs are checked at first. Nothing is removed before the person presses Delete."""

    def __init__(
        self, runs: RunOperations, methods: Sequence[MethodInfo], parent: QWidget | None = None
    ) -> None:
        super().__init__("Clean up runs", parent, cancels=True)
        self._runs = runs
        self._methods = methods
        self._stored_runs: list[MergeRun] = []
        self.fit(48, 26, lines=True)
        self.tree = row_tree("Runs", ("Merge", "Project", "Made", "Size", "Exported"))
        self.tree.itemChanged.connect(lambda *_: self._sum_up())
        self.summary = muted_label()
        self.remove = self.add_button("&Delete", self._delete, kind="destructive")
        self.fill((self.tree, 1), self.summary)
        runs.listed.connect(self._show)
        self._sum_up()
        self.summary.setText("Searching …")
        runs.list_all()

    def _show(self, runs: Sequence[MergeRun]) -> None:
        self._stored_runs = list(runs)
        self.tree.clear()
        for run in self._stored_runs:
            title = run_title(run, self._methods)
            made_at = QDateTime.fromSecsSinceEpoch(int(run.made))
            when = QLocale().toString(made_at, QLocale.FormatType.ShortFormat)
            size = human_bytes(run.bytes)
            if run.exported:
                out = "yes"
            else:
                out = "no"
            words = (title, project_name(run.recipe), when, size, out)
            item = QTreeWidgetItem(self.tree, [plain(word) for word in words])
            item.setCheckState(0, _ON if run.exported else _OFF)
            item.setTextAlignment(3, _RIGHT)
        self._sum_up()

    def _ticked(self) -> list[MergeRun]:
        rows = zip(
            self._stored_runs, _rows(self.tree), strict=False
        )  # also while the tree is filled
        return [run for run, row in rows if row.checkState(0) == _ON]

    def _sum_up(self) -> None:
        ticked = self._ticked()
        total = sum(run.bytes for run in self._stored_runs)
        freed = sum(run.bytes for run in ticked)
        self.remove.setEnabled(bool(ticked))
        self.remove.setText(f"&Delete {len(ticked)}" if ticked else "&Delete")
        self.remove.setToolTip("" if ticked else "Select what to delete")
        lost = sum(not run.exported for run in ticked)
        text = f"{human_bytes(freed)} of {human_bytes(total)} will be freed."
        text += counted(lost, " %n is not exported.", " %n are not exported.") if lost else ""
        if not ticked:
            text = f"{human_bytes(total)} in total. Select what to delete."
        self.summary.setText(text if self._stored_runs else "There are no runs.")

    def _delete(self) -> None:
        self._runs.delete_kept([run.store for run in self._ticked()])
        self.accept()


def _rows(tree: QTreeWidget) -> list[QTreeWidgetItem]:
    rows = (tree.topLevelItem(index) for index in range(tree.topLevelItemCount()))
    return [row for row in rows if row is not None]
