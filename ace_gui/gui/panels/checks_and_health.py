"""Verdicts, worst first: the checks before a merge, and the health of the layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableWidget,
    QTableWidgetItem,
    QToolButton,
    QVBoxLayout,
)

from ace_gui.engine.contract.health import LayerHealth
from ace_gui.engine.contract.plan import EVERYTHING, Check, Verdict
from ace_gui.formatting import counted
from ace_gui.gui.models.layer_figures import Healths
from ace_gui.gui.state.planned_layers import ACE, automatic_for
from ace_gui.gui.state.session import Session, count_of
from ace_gui.gui.text import breakable, plain, quoted, shared_prefix, tooltip
from ace_gui.gui.theme import Face, icon
from ace_gui.gui.widgets.controls import named, push_button, read_only
from ace_gui.gui.widgets.labels import (
    ElidedLabel,
    IconLabel,
    explain,
    heading,
    muted_label,
    plain_label,
)
from ace_gui.gui.widgets.layout import Column, across, clear_layout, down, scroll_area
from ace_gui.gui.widgets.lazy import Following
from ace_gui.gui.widgets.tables import plain_rows

VERDICTS: Final = {
    Verdict.ERROR: ("Error", "error", "bad"),
    Verdict.WARNING: ("Warning", "warning", "warn"),
    Verdict.NOTE: ("Note", "info", "accent"),
    Verdict.OK: ("Fine", "check", "secondary"),
}
"""The word, icon and colour of each."""
_ICON: Final = 16  # px
_DETAIL_LINES: Final = 6


class PreflightPanel(Following):
    """Follows the session's checks. Details stay open as long as the checks are the same."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._open: set[object] = set()
        self._shown: tuple[Check, ...] = ()
        self.summary, self._advice = heading(""), muted_label()
        column = Column()
        self.rows = QVBoxLayout(column)
        self.rows.setContentsMargins(0, 0, 4, 0)
        self.rows.setSpacing(0)
        area = scroll_area("Checks", column)
        area.setFocusPolicy(Qt.FocusPolicy.StrongFocus)  # scrollable with the keyboard
        self.setLayout(down(self.summary, self._advice, (area, 1), margins=(4, 8, 0, 0)))
        self.follow(session.checks.changed)

    def refresh(self) -> None:
        checks = self._session.checks.all
        self.summary.setText(self._session.checks.summary)
        self._advice.setText(self._advice_text())
        if checks == self._shown:
            return
        self._shown = checks
        self._open &= {check.key for check in checks}
        clear_layout(self.rows)
        for check in checks:
            row = CheckRow(check)
            row.details_button.setChecked(check.key in self._open)
            row.details_button.toggled.connect(
                lambda shown, key=check.key: (self._open.add if shown else self._open.discard)(key)
            )
            self.rows.addWidget(row)
        self.rows.addStretch(1)

    def _advice_text(self) -> str:
        checks = self._session.checks
        if not checks.all:
            return "Open a base and experts: the checks before a merge appear here."
        if checks.errors:
            return "A merge would fail: see the errors. Merge offers to check again."
        if checks.worries:
            return "A merge is possible. Merge asks once whether to continue."
        if count_of(checks.all):
            return "Accepted: Merge does not ask again for these models."
        return "From the files' headers and configs, and later the compared tensors."


class CheckRow(QFrame):
    """One check: icon, verdict, title, model and sentence, with collapsed details."""

    def __init__(self, check: Check) -> None:
        super().__init__()
        self.check = check
        word, picture, _ = VERDICTS[check.verdict]
        title, subject = plain(check.title), plain(check.subject)
        self.setAccessibleName(f"{word}: {title}, {subject}. {plain(quoted(check.sentence))}")
        button = self.details_button = QToolButton(autoRaise=True)
        named(button, f"Details of {title}, {subject}", "Show or hide the details")
        button.setText("Details")
        button.setCheckable(True)
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        button.setArrowType(Qt.ArrowType.RightArrow)
        lines = min(_DETAIL_LINES, check.details.count("\n") + 1) + 1
        self.details = read_only(f"All of {title}, {subject}", lines, Face.MONO)
        self.details.setPlainText(plain(check.details))
        button.toggled.connect(self._fold)
        sentence = plain_label()
        sentence.setText(breakable(quoted(check.sentence), names=True))
        foot = across(button, None)
        body = down(self._head(title, subject), sentence, foot, self.details, gap=2)
        sign = down(IconLabel(_ICON, icon(picture)), None)
        self.setLayout(across(sign, (body, 1), margins=(0, 7, 0, 7)))
        self.details.hide()
        button.setVisible(bool(check.details))

    def _fold(self, shown: bool) -> None:
        arrows = Qt.ArrowType
        self.details_button.setArrowType(arrows.DownArrow if shown else arrows.RightArrow)
        self.details.setVisible(shown)

    def _head(self, title: str, subject: str) -> QHBoxLayout:
        word, _, kind = VERDICTS[self.check.verdict]
        about = ElidedLabel(caption=True)
        about.set_full_text("" if self.check.subject == EVERYTHING else subject)
        role = Face.CAPTION_STRONG if self.check.is_worry else Face.CAPTION
        verdict = plain_label(word, wrap=False, kind=kind, role=role)
        return across(heading(title), (about, 1), verdict, gap=6)


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
        self._session.inputs_wanted.emit(automatic_for(self._session.layers, names))

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
