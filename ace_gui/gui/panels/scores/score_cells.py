"""Drawing of a merge's figures: the expert's swatch, and the kept share as a bar."""

from __future__ import annotations

from math import isfinite
from typing import Final

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRectF, QSize
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QStyleOptionViewItem, QWidget

from ace_gui.gui.models.task_figures_model import FIGURES, KEPT, TASK
from ace_gui.gui.panels.layer_cells import Cell
from ace_gui.gui.state.chosen.inputs import Inputs
from ace_gui.gui.state.found.score_figures import TaskFigures
from ace_gui.gui.state.session import Session
from ace_gui.gui.theme import Face, current_theme, face
from ace_gui.gui.theme.share_bar import paint_share
from ace_gui.gui.theme.swatch import SWATCH, paint_swatch
from ace_gui.gui.widgets.labels.written import write

_Index = QModelIndex | QPersistentModelIndex
_BAR: Final = (40.0, 5.0)  # px
_LEAST: Final = 12.0  # px: minimum useful width of a bar
_LONGEST: Final = "100 %"  # text that fits next to every bar of the column


def expert_colour(inputs: Inputs, owner: str | None) -> tuple[str, bool]:
    """The colour of an expert by its name ("" for none), and whether the colour is a repeated
    one."""
    if owner is None or owner not in inputs.names:
        return "", False
    index, theme = inputs.experts[inputs.names.index(owner)].colour, current_theme()
    return theme.expert_colour(index), index >= len(theme.expert_colours)


class FigureCell(Cell):
    """A cell of the table of figures."""

    padding = 12

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session

    def sizeHint(self, option: QStyleOptionViewItem, index: _Index) -> QSize:
        hint = super().sizeHint(option, index)
        more = {TASK: SWATCH + 10, KEPT: round(_BAR[0]) + 8}.get(index.column(), 0)
        return QSize(hint.width() + more, hint.height())

    def draw(
        self,
        painter: QPainter,
        rect: QRectF,
        option: QStyleOptionViewItem,
        index: _Index,
        *,
        chosen: bool,
    ) -> None:
        row: TaskFigures = index.data(FIGURES)
        theme, column = current_theme(), index.column()
        colour, hollow = expert_colour(self._session.draft.inputs, row.owner)
        if column == TASK:
            if colour:
                square = QRectF(rect.left(), rect.top(), SWATCH, rect.height())
                paint_swatch(painter, square, colour, hollow=hollow)
                rect = rect.adjusted(SWATCH + 8, 0, 0, 0)
            font = face(Face.STRONG if row.is_mean else Face.BODY)
            write(painter, rect, option.text, font, theme.text)
            return
        words = option.fontMetrics.horizontalAdvance(_LONGEST)
        room = min(_BAR[0], rect.width() - words - 4)
        if column == KEPT and isfinite(row.kept) and room >= _LEAST:
            bar = QRectF(0, 0, room, _BAR[1])
            bar.moveLeft(rect.left())
            bar.moveTop(rect.center().y() - _BAR[1] / 2)
            paint_share(painter, bar, row.kept, colour or theme.merged, theme.sunk)
        super().draw(painter, rect, option, index, chosen=chosen)
