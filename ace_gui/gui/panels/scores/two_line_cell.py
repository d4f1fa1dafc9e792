"""A list item with two lines: a name and a description."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QIcon, QPainter
from PySide6.QtWidgets import QStyleOptionViewItem

from ace_gui.gui.panels.layer_cells import Cell
from ace_gui.gui.theme import Face, current_theme, face
from ace_gui.gui.widgets.labels.written import write

_Index = QModelIndex | QPersistentModelIndex
_PADDING: Final = 7.0  # px above and below
_ICON: Final = 14  # px
_LEAST: Final = 120  # px: maximum width; longer lines are elided in the middle
BAD: Final = Qt.ItemDataRole.UserRole + 1
"""Whether the second line describes a problem."""


class TwoLineCell(Cell):
    """The text's first line, and the second as a caption; the item's icon at the left."""

    def sizeHint(self, option: QStyleOptionViewItem, index: _Index) -> QSize:  # noqa: ARG002
        height = self._height(Face.BUTTON) + self._height(Face.CAPTION) + 2 * _PADDING + 2
        return QSize(_LEAST, round(height))

    def draw(
        self,
        painter: QPainter,
        rect: QRectF,
        option: QStyleOptionViewItem,  # noqa: ARG002  (required by Qt's signature)
        index: _Index,
        *,
        chosen: bool,
    ) -> None:
        theme = current_theme()
        first, _, second = str(index.data()).partition("\n")
        icon = index.data(Qt.ItemDataRole.DecorationRole)
        if isinstance(icon, QIcon) and not icon.isNull():
            square = QRectF(rect.left(), rect.top() + _PADDING, _ICON, self._height(Face.BUTTON))
            icon.paint(painter, square.toRect())
        rect = rect.adjusted(_ICON + 8, _PADDING, 0, -_PADDING)
        upper = QRectF(rect.left(), rect.top(), rect.width(), self._height(Face.BUTTON))
        lower = QRectF(rect.left(), upper.bottom() + 2, rect.width(), self._height(Face.CAPTION))
        write(painter, upper, first, face(Face.BUTTON), theme.text)
        quiet = theme.bad if index.data(BAD) else theme.text2 if chosen else theme.text3
        write(painter, lower, second, face(Face.CAPTION), quiet)

    def _height(self, role: Face) -> float:
        return QFontMetricsF(face(role)).height()
