"""The experts table: colour and name, weight, size and warnings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from PySide6.QtCore import QModelIndex, QObject, QPersistentModelIndex, QRectF, Qt, Signal
from PySide6.QtGui import QPainter, QPixmap, QStandardItemModel

from ace_gui.engine.contract.plan import ExpertSummary
from ace_gui.formatting import human_bytes
from ace_gui.gui.models.item_models import item_of
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

_ACROSS = Qt.Orientation.Horizontal
_Index = QModelIndex | QPersistentModelIndex


class ExpertsModel(QStandardItemModel):
    """A view of the session; ``expert_edited`` carries an index and the new Expert."""

    expert_edited = Signal(int, object)

    def __init__(self, session: Session, parent: QObject | None = None) -> None:
        super().__init__(0, len(HEADERS), parent)
        self.setHorizontalHeaderLabels(HEADERS)
        for column, tip in enumerate(HEADER_TIPS):
            self.setHeaderData(column, _ACROSS, tip, Qt.ItemDataRole.ToolTipRole)
        self._session = session
        session.draft.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        inputs, theme = self._session.draft.inputs, current_theme()
        if self.rowCount() != len(inputs.experts):
            self.setRowCount(0)
            for _ in inputs.experts:
                cells = [item_of("") for _ in HEADERS]
                for column in (NAME, WEIGHT):
                    cells[column].setEditable(True)
                self.appendRow(cells)
        for row, (expert, name) in enumerate(zip(inputs.experts, inputs.names, strict=True)):
            repeated = expert.colour >= len(theme.expert_colours)
            mark = swatch(theme.expert_colour(expert.colour), hollow=repeated)
            summary = self._summary(expert)
            values = (plain(name), expert.weight, _status(summary))
            words = (plain(name), value_text(expert.weight), _status(summary))
            lines = [str(expert.path)]
            if summary is not None:
                lines += [f"{summary.architecture}, {summary.dtype}", *summary.warnings]
            self.item(row, NAME).setData(mark, Qt.ItemDataRole.DecorationRole)
            for column, (value, word) in enumerate(zip(values, words, strict=True)):
                item = self.item(row, column)
                item.setData(value, Qt.ItemDataRole.EditRole)
                item.setAccessibleText(word)
                item.setToolTip(tooltip("\n".join(lines)))

    def setData(self, index: _Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        if role != Qt.ItemDataRole.EditRole or not index.isValid():
            return False
        expert = self._session.draft.inputs.experts[index.row()]
        if index.column() == NAME:
            name = plain(str(value)).strip()
            changed = replace(expert, name=name or None)
        else:
            changed = replace(expert, weight=float(value))
        if changed != expert:
            self.expert_edited.emit(index.row(), changed)
        return True

    def _summary(self, expert: Expert) -> ExpertSummary | None:
        """The plan's summary of the expert, if the plan is current."""
        plan = self._session.draft.plan
        if plan is None:
            return None
        for entry, summary in zip(plan.recipe.models, plan.experts, strict=True):
            if entry.model == expert.path:
                return summary
        return None


def _status(summary: ExpertSummary | None) -> str:
    """The size, marked if there are warnings."""
    if summary is None:
        return "reading …"
    return f"{'⚠' if summary.warnings else '✓'} {human_bytes(summary.bytes)}"


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
