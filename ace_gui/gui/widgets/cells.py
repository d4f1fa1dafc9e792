"""How experts, runs and methods are drawn in their tables and lists."""

from __future__ import annotations

from typing import Any, Final

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QFontMetricsF, QPainter, QPalette
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from ace_gui.engine.contract.events import MethodInfo
from ace_gui.gui.models.list_models import LINES, RunLines
from ace_gui.gui.state.sample_figures import sample_figures
from ace_gui.gui.text import short_score_text
from ace_gui.gui.theme import Face, current_theme, face
from ace_gui.gui.theme.painting import paint_share, rounded, write

_Index = QModelIndex | QPersistentModelIndex
_RIGHT: Final = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


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
        option.displayAlignment = _RIGHT


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
        frame = QRectF(option.rect).adjusted(4, 2, -1, -2)
        rounded(painter, frame, theme.field, theme.edge)
        text = self.displayText(index.data(), option.locale)
        room = frame.adjusted(4, 0, -8, 0)
        write(painter, room, text, option.font, theme.text, align=_RIGHT)


_PADDING: Final = 8  # px


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
        ground = theme.tint if chosen else theme.card if lines.current else ""
        if not ground and state & QStyle.StateFlag.State_MouseOver:
            ground = theme.hover
        focused = bool(state & QStyle.StateFlag.State_HasFocus) and chosen
        rounded(painter, rect, ground, theme.accent if focused else "", width=2.0)
        self._write(painter, rect.adjusted(_PADDING, 0, -_PADDING, 0), lines, chosen=chosen)

    def _write(self, painter: QPainter, rect: QRectF, lines: RunLines, *, chosen: bool) -> None:
        theme, caption = current_theme(), face(Face.CAPTION)
        font = face(Face.STRONG if lines.current else Face.BUTTON)
        ink = theme.text if lines.current else theme.text2
        above, below = (QFontMetrics(face(each)).height() for each in (Face.STRONG, Face.CAPTION))
        score = write(painter, rect, lines.score, font, ink, align=_RIGHT)
        width = rect.width() - (score + _PADDING if score else 0)
        top = rect.top() + (rect.height() - above - below) / 2
        write(painter, QRectF(rect.left(), top, width, above), lines.title, font, ink)
        quiet = theme.text2 if chosen else theme.text3
        second = QRectF(rect.left(), top + above, width, below)
        write(painter, second, lines.line, caption, quiet)


METHOD: Final = Qt.ItemDataRole.UserRole
"""A MethodInfo."""
MISFIT: Final = Qt.ItemDataRole.UserRole + 2
"""Why it cannot merge what is loaded; empty if it can."""
MEANS: Final = (
    "Mean accuracy on the sample: its five experts merged with each method's defaults, "
    "including modules. Bars run from 0 to 1."
)
_BAR: Final = (44.0, 6.0)  # px
_GAP: Final = 8.0  # px


class MethodCell(QStyledItemDelegate):
    """Methods that cannot merge what is loaded are paler and say why; families are headings."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        method = index.data(METHOD)
        if not isinstance(method, MethodInfo):
            option.palette.setColor(QPalette.ColorRole.Text, QColor(current_theme().text3))
            super().paint(painter, option, index)
            return
        theme, widget = current_theme(), option.widget
        element = QStyle.PrimitiveElement.PE_PanelItemViewItem
        widget.style().drawPrimitive(element, option, painter, widget)
        chosen = bool(option.state & QStyle.StateFlag.State_Selected)
        rect = QRectF(option.rect).adjusted(4, 0, -_GAP, 0)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        why, quiet = index.data(MISFIT), theme.text2 if chosen else theme.text3
        if why:
            caption = face(Face.CAPTION)
            used = write(painter, rect, why, caption, quiet, align=_RIGHT)
        else:
            used = self._draw_mean(painter, rect, method, chosen=chosen)
        room = rect.adjusted(0, 0, -used - _GAP, 0)
        font = face(Face.STRONG if chosen else Face.BODY)
        write(painter, room, method.title, font, quiet if why else theme.text)
        painter.restore()

    def _draw_mean(
        self, painter: QPainter, rect: QRectF, method: MethodInfo, *, chosen: bool
    ) -> float:
        """Paint the bar and the number at the right, and return their width in px."""
        theme = current_theme()
        mean = sample_figures().methods.get(method.name)
        font = face(Face.STRONG if chosen else Face.BODY)
        text = "–" if mean is None else short_score_text(mean)
        write(painter, rect, text, font, theme.text2, align=_RIGHT)
        number = QFontMetricsF(face(Face.STRONG)).horizontalAdvance(".000")
        bar = QRectF(0, 0, *_BAR)
        bar.moveCenter(rect.center())
        bar.moveRight(rect.right() - number - _GAP)
        share = 0.0 if mean is None else mean
        ink, ground = (theme.accent, theme.card) if chosen else (theme.axis, theme.hover)
        paint_share(painter, bar, share, ink, ground)
        return rect.right() - bar.left()


def misfit(method: MethodInfo, experts: int) -> str:
    """Why a method cannot merge this number of experts; empty if it can, or if there are none."""
    fits = experts >= method.least and (method.most is None or experts <= method.most)
    return "" if fits or not experts else number_of_experts(method)


def number_of_experts(method: MethodInfo) -> str:
    """The number of experts that a method supports, as text."""
    if method.most is None:
        if method.least == 1:
            return "any number of experts"
        return f"{method.least} experts or more"
    if method.most == 1:
        return "one expert only"
    if method.least == method.most:
        return f"{method.most} experts only"
    return f"{method.most} experts at most"
