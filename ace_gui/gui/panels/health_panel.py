"""The health of the model: how many layers are unusual, which ones, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from PySide6.QtCore import QEvent, QModelIndex, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from ace_gui.engine.contract.checks import Verdict
from ace_gui.engine.contract.figures.health import LayerHealth
from ace_gui.formatting import counted
from ace_gui.gui.models.layer_health import Healths
from ace_gui.gui.panels.checks_panel import WORDS
from ace_gui.gui.state.chosen.layer_rules import ACE, automatic_for
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, shared_prefix, tooltip
from ace_gui.gui.theme import icon
from ace_gui.gui.widgets.fields.buttons import push_button
from ace_gui.gui.widgets.labels.plain_label import heading, muted_label, plain_label
from ace_gui.gui.widgets.labels.terms import explain
from ace_gui.gui.widgets.layout.arrangement import Column, across, down
from ace_gui.gui.widgets.layout.following import Following
from ace_gui.gui.widgets.tables.table_tools import plain_rows

ICONS: Final = {Verdict.ERROR: "error", Verdict.WARNING: "warning", Verdict.NOTE: "info"}
_WIDEST: Final = 250  # px per column; the last takes the rest
_WORST = ("Layer", "Finding, and what to do")


class HealthPanel(Following):
    """The summary, and the layers with the worst findings.

    If the published variant of ACE causes findings, the automatic one is offered.
    """

    def __init__(self, session: Session, healths: Healths, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        explain(self, "Ridge mass")
        self._session = session
        self._healths = healths
        self.summary = heading("")
        self._titles = muted_label("")
        self.worst = _LayerTable("Layers with the worst findings", _WORST)
        self.worst.chosen.connect(session.select)
        self.offer = _Offer(lambda: self._take(self._misbehaving), lambda: self._take(None))
        self._misbehaving: tuple[str, ...] = ()
        head = down(self.summary, self._titles, self.offer, gap=2)
        self.setLayout(down(head, (self.worst, 1), margins=(8, 6, 8, 4)))
        self.follow(healths.changed)
        session.selection_changed.connect(self._mark)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self.plan_refresh()  # icons have the theme's colours

    def refresh(self) -> None:
        """Update the health."""
        found = self._healths.summary()
        known = bool(found.counts)
        self.summary.setText(found.sentence if known else "Nothing is known about the layers yet.")
        titles = (
            f"{plain(title)}: {counted(count, 'tensor', 'tensors')}"
            for title, count in found.titles.items()
        )
        self._titles.setText(" · ".join(titles))
        self._titles.setVisible(bool(found.titles))
        self._misbehaving = found.misbehaving
        self.offer.fill(len(found.misbehaving), all_too=self._session.draft.inputs.method == ACE)
        inside = [row.name for row in self._session.layers.rows if row.block is not None]
        prefix = shared_prefix(inside)  # keeps the block numbers visible
        self.worst.fill([_worst_cells(layer, prefix) for layer in found.worst])
        self.worst.setVisible(bool(found.worst))
        self._mark()

    def _take(self, names: tuple[str, ...] | None) -> None:
        self._session.inputs_wanted.emit(automatic_for(self._session, names))

    def _mark(self) -> None:
        self.worst.mark(self._session.selection)


class _Offer(Column):
    """The offer of the automatic variant, for the affected layers or for all."""

    def __init__(self, use: Callable[[], object], use_all: Callable[[], object]) -> None:
        super().__init__()
        self.text = plain_label("")
        tip = "Add an override that merges them with the automatic variant"
        self.for_these = push_button("Use it for these layers", use, tip=tip)
        tip = "Merge every layer with the automatic variant"
        self.for_all = push_button("Use it for all", use_all, tip=tip)
        parts = (self.text, 1), self.for_these, self.for_all
        self.setLayout(across(*parts, margins=(0, 2, 0, 4)))

    def fill(self, count: int, *, all_too: bool) -> None:
        """Set the number of affected layers; zero hides the offer."""
        self.text.setText(
            f"In {counted(count, 'layer', 'layers')}, the published variant moves far more than "
            "the experts did, or refines against them. The automatic variant does neither."
        )
        self.for_all.setVisible(all_too)
        self.setVisible(count > 0)


class _OneLine(QStyledItemDelegate):
    """Elides a tensor's name instead of breaking it."""

    def initStyleOption(
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        super().initStyleOption(option, index)
        option.features &= ~QStyleOptionViewItem.ViewItemFeature.WrapText


_APART: Final = 8  # px between two wrapped rows


class _LayerTable(QTableWidget):
    """A table with one layer per row. ``chosen`` carries its name."""

    chosen = Signal(str)

    def __init__(self, name: str, titles: Sequence[str]) -> None:
        super().__init__(0, len(titles))
        self._names: tuple[str, ...] = ()
        self.setAccessibleName(name)
        self.setHorizontalHeaderLabels(list(titles))
        plain_rows(self, padding=6)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        header = self.horizontalHeader()
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        header.setStretchLastSection(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setItemDelegateForColumn(titles.index("Layer"), _OneLine(self))
        self.itemSelectionChanged.connect(self._choose)

    def fill(self, rows: Sequence[tuple[str, list[QTableWidgetItem]]]) -> None:
        """Set the rows: the layer's name, and the cells."""
        self.blockSignals(True)
        self._names = tuple(name for name, _ in rows)
        self.setRowCount(len(rows))
        for row, (_, cells) in enumerate(rows):
            for column, cell in enumerate(cells):
                self.setItem(row, column, cell)
        for column in range(self.columnCount() - 1):
            self.resizeColumnToContents(column)
            self.setColumnWidth(column, min(self.columnWidth(column) + 8, _WIDEST))
        self._fit_rows()
        self.blockSignals(False)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_rows()

    def _fit_rows(self) -> None:
        """Fit the row heights to the wrapped sentences."""
        self.resizeRowsToContents()
        for row in range(self.rowCount()):
            self.setRowHeight(row, self.rowHeight(row) + _APART)

    def mark(self, name: str | None) -> None:
        """Select a layer's first row, if there is one, without a signal."""
        self.blockSignals(True)
        if name in self._names:
            if name not in {self._names[index.row()] for index in self.selectedIndexes()}:
                self.selectRow(self._names.index(name))
        else:
            self.clearSelection()
        self.blockSignals(False)

    def _choose(self) -> None:
        rows = {index.row() for index in self.selectedIndexes()}
        if rows:
            self.chosen.emit(self._names[rows.pop()])


def _short(name: str, prefix: str) -> str:
    shortened = prefix and name.startswith(prefix)
    return plain("…" + name.removeprefix(prefix) if shortened else name)


def _worst_cells(layer: LayerHealth, prefix: str) -> tuple[str, list[QTableWidgetItem]]:
    name = QTableWidgetItem(_short(layer.name, prefix))
    name.setIcon(icon(ICONS[layer.verdict]))
    worst, *others = layer.findings
    more = f"(and {len(others)} more: hover over it)" if others else ""
    finding = QTableWidgetItem(plain(f"{worst.sentence} {more}".rstrip()))
    for cell in (name, finding):
        cell.setToolTip(tooltip(f"{layer.name}\n{layer.tooltip}"))
    spoken = f"{WORDS[layer.verdict]}: {layer.name}"
    name.setData(Qt.ItemDataRole.AccessibleTextRole, plain(spoken))
    return layer.name, [name, finding]
