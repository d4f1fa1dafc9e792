"""The health of the model: how many layers are unusual, which ones, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
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
)

from ace_gui.engine.contract.health import LayerHealth
from ace_gui.formatting import counted
from ace_gui.gui.models.layer_figures import Healths
from ace_gui.gui.panels.checks_panel import VERDICTS
from ace_gui.gui.state.chosen.layer_rules import ACE, automatic_for
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, shared_prefix, tooltip
from ace_gui.gui.theme import icon
from ace_gui.gui.widgets.controls import push_button
from ace_gui.gui.widgets.labels import explain, heading, muted_label, plain_label
from ace_gui.gui.widgets.layout import Column, across, down
from ace_gui.gui.widgets.lazy import Following
from ace_gui.gui.widgets.tables import plain_rows

_WIDEST: Final = 250  # px of the names; the findings take the rest
_APART: Final = 8  # px between two wrapped rows


class HealthPanel(Following):
    """The summary, and the layers with the worst findings.

    If the published variant of ACE causes findings, the automatic one is offered, for the affected
    layers or for all.
    """

    def __init__(self, session: Session, healths: Healths) -> None:
        super().__init__()
        explain(self, "Ridge mass")
        self._session, self._healths = session, healths
        self._misbehaving: tuple[str, ...] = ()
        self.summary, self._titles = heading(""), muted_label()
        self.worst = _WorstLayers()
        self.worst.chosen.connect(session.select)
        self.offered = plain_label()
        tip = "Add an override that merges them with the automatic variant"
        use, these = self._use, lambda: self._misbehaving
        self.for_these = push_button("Use it for these layers", lambda: use(these()), tip=tip)
        tip = "Merge every layer with the automatic variant"
        self.for_all = push_button("Use it for all", lambda: use(None), tip=tip)
        self.offer = Column()
        parts = (self.offered, 1), self.for_these, self.for_all
        self.offer.setLayout(across(*parts, margins=(0, 2, 0, 4)))
        head = down(self.summary, self._titles, self.offer, gap=2)
        self.setLayout(down(head, (self.worst, 1), margins=(8, 6, 8, 4)))
        self.follow(healths.changed)
        session.selection_changed.connect(self._mark)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self.plan_refresh()  # icons have the theme's colours

    def refresh(self) -> None:
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
        self.offered.setText(
            f"In {counted(len(found.misbehaving), 'layer', 'layers')}, the published variant moves "
            "far more than the experts did, or refines against them. The automatic variant does "
            "neither."
        )
        self.for_all.setVisible(self._session.draft.inputs.method == ACE)
        self.offer.setVisible(bool(found.misbehaving))
        inside = [row.name for row in self._session.layers.rows if row.block is not None]
        self.worst.fill(found.worst, shared_prefix(inside))  # keeps the block numbers visible
        self.worst.setVisible(bool(found.worst))
        self._mark()

    def _use(self, names: tuple[str, ...] | None) -> None:
        self._session.inputs_wanted.emit(automatic_for(self._session, names))

    def _mark(self) -> None:
        self.worst.mark(self._session.selection)


class _OneLine(QStyledItemDelegate):
    """Elides a tensor's name instead of breaking it."""

    def initStyleOption(
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        super().initStyleOption(option, index)
        option.features &= ~QStyleOptionViewItem.ViewItemFeature.WrapText


class _WorstLayers(QTableWidget):
    """One layer per row, with its worst finding. ``chosen`` carries a layer's name."""

    chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__(0, 2)
        self._names: tuple[str, ...] = ()
        self.setAccessibleName("Layers with the worst findings")
        self.setHorizontalHeaderLabels(["Layer", "Finding, and what to do"])
        plain_rows(self, padding=6)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        header = self.horizontalHeader()
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        header.setStretchLastSection(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setItemDelegateForColumn(0, _OneLine(self))
        self.itemSelectionChanged.connect(self._choose)

    def fill(self, layers: Sequence[LayerHealth], prefix: str) -> None:
        """Show these layers, without the ``prefix`` of their names."""
        self.blockSignals(True)
        self._names = tuple(layer.name for layer in layers)
        self.setRowCount(len(layers))
        for row, layer in enumerate(layers):
            for column, cell in enumerate(_cells(layer, prefix)):
                self.setItem(row, column, cell)
        self.resizeColumnToContents(0)
        self.setColumnWidth(0, min(self.columnWidth(0) + 8, _WIDEST))
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
        """Select a layer's row, if there is one, without a signal."""
        self.blockSignals(True)
        if name in self._names:
            self.selectRow(self._names.index(name))
        else:
            self.clearSelection()
        self.blockSignals(False)

    def _choose(self) -> None:
        rows = {index.row() for index in self.selectedIndexes()}
        if rows:
            self.chosen.emit(self._names[rows.pop()])


def _cells(layer: LayerHealth, prefix: str) -> tuple[QTableWidgetItem, QTableWidgetItem]:
    word, picture, _ = VERDICTS[layer.verdict]
    shortened = prefix and layer.name.startswith(prefix)
    short = "…" + layer.name.removeprefix(prefix) if shortened else layer.name
    name = QTableWidgetItem(plain(short))
    name.setIcon(icon(picture))
    name.setData(Qt.ItemDataRole.AccessibleTextRole, plain(f"{word}: {layer.name}"))
    worst, *others = layer.findings
    more = f"(and {len(others)} more: hover over it)" if others else ""
    finding = QTableWidgetItem(plain(f"{worst.sentence} {more}".rstrip()))
    for cell in (name, finding):
        cell.setToolTip(tooltip(f"{layer.name}\n{layer.tooltip}"))
    return name, finding
