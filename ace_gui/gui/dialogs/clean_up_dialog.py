"""All kept merges, to choose which to remove from disk."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QDateTime, QLocale, Qt
from PySide6.QtWidgets import QTreeWidgetItem, QWidget

from ace_gui.formatting import human_bytes
from ace_gui.gui.control.operations.run_operations import RunOperations
from ace_gui.gui.dialogs.dialog import Dialog
from ace_gui.gui.numbers import value_text
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.text import plain
from ace_gui.gui.widgets.labels import muted_label
from ace_gui.gui.widgets.tables import row_tree
from ace_gui.recipe.values import model_name

_CHECKED, _UNCHECKED = Qt.CheckState.Checked, Qt.CheckState.Unchecked


class CleanUpDialog(Dialog):
    """Exported merges are checked. Nothing is removed without confirmation."""

    def __init__(self, runs: RunOperations, parent: QWidget | None = None) -> None:
        super().__init__("Clean up kept merges", parent, cancels=True)
        self._runs = runs
        self._kept: list[MergeRun] = []
        self.fit(48, 26, lines=True)
        self.tree = row_tree("Kept merges", ("Merge", "Base", "Made", "Size", "Exported"))
        self.tree.itemChanged.connect(lambda *_: self._sum_up())
        self.summary = muted_label()
        self.remove = self.add_button("&Delete", self._delete, kind="destructive")
        self.fill((self.tree, 1), self.summary)
        runs.listed.connect(self._show)
        self._sum_up()
        self.summary.setText("Searching …")
        runs.list_all()

    def _show(self, kept: Sequence[MergeRun]) -> None:
        self._kept = list(kept)
        self.tree.clear()
        for run in self._kept:
            recipe = run.recipe
            parameters = ", ".join(f"{n} {value_text(v)}" for n, v in recipe.parameters.items())
            title = run.name or " ".join(filter(None, (recipe.merge_method, parameters)))
            made = QDateTime.fromSecsSinceEpoch(int(run.made))
            when = QLocale().toString(made, QLocale.FormatType.ShortFormat)
            size, out = human_bytes(run.bytes), "yes" if run.exported else "no"
            words = (title, model_name(recipe.base_model), when, size, out)
            item = QTreeWidgetItem(self.tree, [plain(word) for word in words])
            item.setCheckState(0, _CHECKED if run.exported else _UNCHECKED)
            item.setTextAlignment(3, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._sum_up()

    def _ticked(self) -> list[MergeRun]:
        items = (self.tree.topLevelItem(index) for index in range(self.tree.topLevelItemCount()))
        ticked = [item is not None and item.checkState(0) == _CHECKED for item in items]
        return [kept for kept, on in zip(self._kept, ticked, strict=False) if on]

    def _sum_up(self) -> None:
        ticked = self._ticked()
        total = sum(run.bytes for run in self._kept)
        freed = sum(run.bytes for run in ticked)
        self.remove.setEnabled(bool(ticked))
        self.remove.setText(f"&Delete {len(ticked)}" if ticked else "&Delete")
        self.remove.setToolTip("" if ticked else "Select what to delete")
        lost = sum(not run.exported for run in ticked)
        text = f"{human_bytes(freed)} of {human_bytes(total)} will be free."
        text += f" {lost} not exported will be lost." if lost else ""
        if not ticked:
            text = f"{human_bytes(total)} in total. Select what to delete."
        self.summary.setText(text if self._kept else "There are no kept merges.")

    def _delete(self) -> None:
        self._runs.delete_kept([run.store for run in self._ticked()])
        self.accept()
