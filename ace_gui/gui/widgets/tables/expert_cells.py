"""The cells of the experts: swatch and name, size, and a weight that looks like a field."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPalette, QPen
from PySide6.QtWidgets import QAbstractSpinBox, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from ace_gui.gui.theme import Face, current_theme, face

_Index = QModelIndex | QPersistentModelIndex


class RowGround(QStyledItemDelegate):
    """A selected row tints its background; its swatch keeps its colour."""

    def initStyleOption(self, option: QStyleOptionViewItem, index: _Index) -> None:
        super().initStyleOption(option, index)
        states = option.state.__class__
        if option.state & states.State_Selected:
            option.state &= ~states.State_HasFocus


class SizeCell(RowGround):
    """The size of the files; a warning about them keeps its icon and colour."""

    def initStyleOption(self, option: QStyleOptionViewItem, index: _Index) -> None:
        super().initStyleOption(option, index)
        theme = current_theme()
        worry = option.text.startswith("⚠")
        option.text = option.text.removeprefix("✓ ")
        option.font = face(Face.CAPTION)
        option.palette.setColor(
            QPalette.ColorRole.Text, QColor(theme.warn if worry else theme.text3)
        )
        option.displayAlignment = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class WeightCell(RowGround):
    """Two digits in a frame."""

    def displayText(self, value: Any, locale: object) -> str:  # noqa: ARG002  (Qt's signature)
        try:
            number = float(value)
        except ValueError:
            return str(value)
        return f"{number:.2f}" if round(number, 2) == number else f"{number:g}"

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: _Index) -> QWidget:
        editor = super().createEditor(parent, option, index)
        if isinstance(editor, QAbstractSpinBox):
            editor.setAlignment(Qt.AlignmentFlag.AlignRight)
        return editor

    def sizeHint(self, option: QStyleOptionViewItem, index: _Index) -> QSize:
        hint = super().sizeHint(option, index)
        return QSize(
            max(hint.width(), option.fontMetrics.horizontalAdvance("-0.000") + 24), hint.height()
        )

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        theme = current_theme()
        frame = QRectF(option.rect).adjusted(4.5, 2.5, -1.5, -2.5)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(theme.edge), 1.0))
        painter.setBrush(QColor(theme.field))
        painter.drawRoundedRect(frame, 6.0, 6.0)
        painter.setPen(QColor(theme.text))
        painter.setFont(option.font)
        text = self.displayText(index.data(), option.locale)
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        painter.drawText(frame.adjusted(4, 0, -8, 0), right, text)
        painter.restore()
