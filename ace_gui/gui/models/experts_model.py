"""The experts table: colour and name, weight, size and warnings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QRectF,
    Qt,
    Signal,
)
from PySide6.QtGui import QPainter, QPixmap

from ace_gui.engine.contract.plan import ExpertSummary
from ace_gui.formatting import human_bytes
from ace_gui.gui.numbers import value_text
from ace_gui.gui.state.chosen.inputs import Expert
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, tooltip
from ace_gui.gui.theme import current_theme
from ace_gui.gui.theme.painting import SWATCH, paint_swatch

NAME, WEIGHT, STATUS = range(3)
HEADERS = ("Expert", "Weight", "Size")
HEADER_TIPS = (
    "Name of the expert. Double-click to change it.",
    (
        "How much the expert counts; its task vector is multiplied by this. "
        "Double-click to change it."
    ),
    "Size on disk, and warnings about the files.",
)

_Index = QModelIndex | QPersistentModelIndex


class ExpertsModel(QAbstractTableModel):
    """A view of the session; ``expert_edited`` carries an index and the new Expert."""

    expert_edited = Signal(int, object)

    def __init__(self, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._experts: tuple[Expert, ...] = ()
        self._names: tuple[str, ...] = ()
        session.draft.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        inputs = self._session.draft.inputs
        if len(inputs.experts) == len(self._experts) and self._experts:
            self._experts, self._names = inputs.experts, inputs.names
            last = self.index(len(self._experts) - 1, len(HEADERS) - 1)
            self.dataChanged.emit(self.index(0, 0), last)
            return
        self.beginResetModel()
        self._experts, self._names = inputs.experts, inputs.names
        self.endResetModel()

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._experts)

    def columnCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(HEADERS)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation != Qt.Orientation.Horizontal or not 0 <= section < len(HEADERS):
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return HEADERS[section]
        return HEADER_TIPS[section] if role == Qt.ItemDataRole.ToolTipRole else None

    def flags(self, index: _Index) -> Qt.ItemFlag:
        flags = super().flags(index)
        if index.isValid() and index.column() in (NAME, WEIGHT):
            flags |= Qt.ItemFlag.ItemIsEditable
        return flags

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not self.checkIndex(index, QAbstractTableModel.CheckIndexOption.IndexIsValid):
            return None
        row, column = index.row(), index.column()
        expert = self._experts[row]
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return self._text(row, column)
        if role == Qt.ItemDataRole.EditRole:
            return {NAME: self._names[row], WEIGHT: expert.weight}.get(column)
        if role == Qt.ItemDataRole.DecorationRole and column == NAME:
            theme = current_theme()
            repeated = expert.colour >= len(theme.expert_colours)
            return swatch(theme.expert_colour(expert.colour), hollow=repeated)
        if role == Qt.ItemDataRole.ToolTipRole:
            return self._tip(row)
        if role == Qt.ItemDataRole.TextAlignmentRole and column == WEIGHT:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        return None

    def setData(self, index: _Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        if role != Qt.ItemDataRole.EditRole or not index.isValid():
            return False
        expert = self._experts[index.row()]
        if index.column() == NAME:
            name = plain(str(value)).strip()
            changed = replace(expert, name=name or None)
        else:
            changed = replace(expert, weight=float(value))
        if changed != expert:
            self.expert_edited.emit(index.row(), changed)
        return True

    def _text(self, row: int, column: int) -> str:
        if column == NAME:
            return plain(self._names[row])
        if column == WEIGHT:
            return value_text(self._experts[row].weight)
        summary = self._summary(row)
        if summary is None:
            return "reading …"
        size = human_bytes(summary.bytes)
        return f"⚠ {size}" if summary.warnings else f"✓ {size}"

    def _tip(self, row: int) -> str:
        lines = [str(self._experts[row].path)]
        summary = self._summary(row)
        if summary is not None:
            lines += [f"{summary.architecture}, {summary.dtype}", *summary.warnings]
        return tooltip("\n".join(lines))

    def _summary(self, row: int) -> ExpertSummary | None:
        """The plan's summary of the expert, if the plan is current."""
        plan = self._session.draft.plan
        if plan is None:
            return None
        for entry, summary in zip(plan.recipe.models, plan.experts, strict=True):
            if entry.model == self._experts[row].path:
                return summary
        return None


def swatch(colour: str, *, hollow: bool = False) -> QPixmap:
    """A small rounded square in one colour."""
    pixmap = QPixmap(2 * SWATCH, 2 * SWATCH)
    pixmap.setDevicePixelRatio(2.0)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    paint_swatch(painter, QRectF(0, 0, SWATCH, SWATCH), colour, hollow=hollow)
    painter.end()
    return pixmap


def expert_colour(session: Session, name: str | None) -> tuple[str, bool]:
    """The colour of an expert ("" for none) in the current theme, and whether another expert has
    it, too."""
    inputs, theme = session.draft.inputs, current_theme()
    if name is None or name not in inputs.names:
        return "", False
    index = inputs.experts[inputs.names.index(name)].colour
    return theme.expert_colour(index), index >= len(theme.expert_colours)


def expert_colours(session: Session) -> dict[str, str]:
    """Every expert's colour in the current theme, by name."""
    return {name: expert_colour(session, name)[0] for name in session.draft.inputs.names}
