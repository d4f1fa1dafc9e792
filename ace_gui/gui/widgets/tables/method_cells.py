"""How a merge method is drawn in a list: its name, and its mean score on the sample."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRectF, Qt
from PySide6.QtGui import QFontMetricsF, QPainter
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from ace_gui.engine.contract.events import MethodInfo
from ace_gui.gui.numbers import short_score_text
from ace_gui.gui.state.sample_figures import sample_figures
from ace_gui.gui.theme import Face, current_theme, face
from ace_gui.gui.theme.share_bar import paint_share
from ace_gui.gui.widgets.labels.written import write

METHOD: Final = Qt.ItemDataRole.UserRole
"""A MethodInfo."""
MISFIT: Final = Qt.ItemDataRole.UserRole + 2
"""Why it cannot merge what is loaded; empty if it can."""
MEANS: Final = (
    "The mean accuracy of the five experts of the sample merged with each method at its defaults, "
    "with the modules that it adds. Bars run from 0 to 1."
)
_Index = QModelIndex | QPersistentModelIndex
_RIGHT: Final = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_BAR: Final = (44.0, 6.0)  # px
_GAP: Final = 8.0  # px


class MethodCell(QStyledItemDelegate):
    """Methods that cannot merge what is loaded are paler and say why; families are drawn
    normally."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        method = index.data(METHOD)
        if not isinstance(method, MethodInfo):
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
