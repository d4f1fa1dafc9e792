"""How a run is drawn: its name above the differences, and its score at the right."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPen
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from ace_gui.gui.models.runs_model import LINES, RunLines
from ace_gui.gui.theme import Face, current_theme, face

_Index = QModelIndex | QPersistentModelIndex
_PADDING: Final = 8  # px
_RADIUS: Final = 6.0


class RunCell(QStyledItemDelegate):
    """The window's merge is on a card; selected rows are tinted."""

    def sizeHint(self, option: QStyleOptionViewItem, index: _Index) -> QSize:  # noqa: ARG002
        lines = sum(QFontMetrics(face(each)).height() for each in (Face.STRONG, Face.CAPTION))
        return QSize(0, lines + _PADDING + 2)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        lines = index.data(LINES)
        if not isinstance(lines, RunLines):
            return
        theme, rect = current_theme(), QRectF(option.rect).adjusted(0.5, 0.5, -0.5, -1.5)
        state = option.state
        chosen = bool(state & QStyle.StateFlag.State_Selected)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        ground = theme.tint if chosen else theme.card if lines.current else ""
        if not ground and state & QStyle.StateFlag.State_MouseOver:
            ground = theme.hover
        if ground:
            painter.setBrush(QColor(ground))
            painter.drawRoundedRect(rect, _RADIUS, _RADIUS)
        if state & QStyle.StateFlag.State_HasFocus and chosen:
            painter.setPen(QPen(QColor(theme.accent), 2.0))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(rect.adjusted(1, 1, -1, -1), _RADIUS, _RADIUS)
        self._write(painter, rect.adjusted(_PADDING, 0, -_PADDING, 0), lines, chosen=chosen)
        painter.restore()

    def _write(self, painter: QPainter, rect: QRectF, lines: RunLines, *, chosen: bool) -> None:
        theme = current_theme()
        strong, caption = face(Face.STRONG), face(Face.CAPTION)
        above, below = QFontMetrics(strong), QFontMetrics(caption)
        score = QFontMetrics(strong).horizontalAdvance(lines.score) if lines.score else 0
        width = rect.width() - (score + _PADDING if score else 0)
        top = rect.top() + (rect.height() - above.height() - below.height()) / 2
        ink = theme.text if lines.current else theme.text2
        elide = Qt.TextElideMode.ElideRight
        painter.setFont(strong if lines.current else face(Face.BUTTON))
        painter.setPen(QColor(ink))
        first = QRectF(rect.left(), top, width, above.height())
        painter.drawText(first, 0, above.elidedText(lines.title, elide, int(width)))
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        painter.drawText(rect, right, lines.score)
        painter.setFont(caption)
        painter.setPen(QColor(theme.text2 if chosen else theme.text3))
        second = QRectF(rect.left(), top + above.height(), width, below.height())
        painter.drawText(second, 0, below.elidedText(lines.line, elide, int(width)))
