"""The cells of the layers table: names, γ as a bar with τ, regimes, health.

A cell is as high as its font needs. The style paints the background of the row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import ceil, inf, isfinite, isnan
from typing import Final

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QFontMetricsF, QPainter
from PySide6.QtWidgets import QApplication, QStyle, QStyledItemDelegate, QStyleOptionViewItem

from ace_gui.formatting import counted
from ace_gui.gui.models.figures_model import NONE
from ace_gui.gui.models.layer_columns import FINE, LayerRow
from ace_gui.gui.models.layers_model import COUNT, LAYER, RANGE
from ace_gui.gui.text import gamma_text
from ace_gui.gui.theme import Face, current_theme, face, icon
from ace_gui.gui.theme.painting import rounded, write

Index = QModelIndex | QPersistentModelIndex
_BLOCK: Final = re.compile(r"…?(\d+\.)(.+)")
_MIDDLE: Final = Qt.AlignmentFlag.AlignVCenter
_LEFT: Final = Qt.AlignmentFlag.AlignLeft | _MIDDLE
_BAR: Final = 6.0  # px: height
_TICK: Final = (1.5, 12.0)  # px: width of the τ mark
_LEAST_SCALE: Final = 0.5  # of γ: bars end here, or at the largest γ
_SIGN: Final = 14  # px
_PADDING: Final = 6.0  # px
_PILL: Final = 18  # px added to the width of a pill's text


def line_height(role: Face) -> float:
    """The height of a line of text, in px."""
    return QFontMetricsF(face(role)).height()


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """What a cell is drawn with, inside ``rect``; a chosen row has other text colours."""

    painter: QPainter
    rect: QRectF
    option: QStyleOptionViewItem
    index: Index
    chosen: bool

    @property
    def quiet(self) -> str:
        """The colour of less important text."""
        if self.chosen:
            return current_theme().text2
        return current_theme().text3

    def dash(self, align: Qt.AlignmentFlag = _LEFT) -> None:
        """Draw a dash, paler than a caption, because the column does not apply."""
        colour = QColor(current_theme().text3)
        colour.setAlphaF(0.55)
        self.painter.setPen(colour)
        self.painter.drawText(self.rect, align, NONE)


class Cell(QStyledItemDelegate):
    """A plain cell, with a dash if the column does not apply."""

    padding = 14
    """Pixels added to the font height for the row height."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        hint = super().sizeHint(option, index)
        return QSize(hint.width() + 2 * round(_PADDING), option.fontMetrics.height() + self.padding)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        option.text = index.data() or ""  # Qt's ``initStyleOption`` would query seven roles
        align = index.data(Qt.ItemDataRole.TextAlignmentRole)
        if align is None:
            option.displayAlignment = _LEFT
        else:
            option.displayAlignment = Qt.AlignmentFlag(align)
        style = option.widget.style() if option.widget is not None else QApplication.style()
        element = QStyle.PrimitiveElement.PE_PanelItemViewItem
        style.drawPrimitive(element, option, painter, option.widget)
        chosen = bool(option.state & QStyle.StateFlag.State_Selected)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        rect = QRectF(option.rect).adjusted(_PADDING, 0, -_PADDING, 0)
        self.draw(Drawn(painter=painter, rect=rect, option=option, index=index, chosen=chosen))
        if option.state & QStyle.StateFlag.State_HasFocus:
            ring = QStyle.PrimitiveElement.PE_FrameFocusRect
            style.drawPrimitive(ring, option, painter, option.widget)
        painter.restore()

    def draw(self, cell: Drawn) -> None:
        """Draw the text, or a muted dash. Subclasses draw the content of their column."""
        theme = current_theme()
        option = cell.option
        text = cell.option.text.strip()
        if text == NONE:
            cell.dash(option.displayAlignment)
            return
        if cell.chosen or cell.index.column():
            ink = theme.text2
        else:
            ink = theme.text
        write(cell.painter, cell.rect, text, option.font, ink, align=option.displayAlignment)


class NameCell(Cell):
    """A tensor's name, whose block number is never elided, or a group's title."""

    def draw(self, cell: Drawn) -> None:
        theme = current_theme()
        count = cell.index.data(COUNT)
        painter = cell.painter
        rect = cell.rect
        text = cell.option.text
        if count is not None:
            used = write(painter, rect, text, face(Face.STRONG), theme.text)
            room = rect.adjusted(used + 10, 0, 0, 0)
            caption = face(Face.CAPTION)
            total = counted(cell.index.model().rowCount(cell.index), "tensor", "tensors")
            width = QFontMetricsF(caption).horizontalAdvance
            fitting = (number for number in (count, total) if width(number) <= room.width())
            write(painter, room, next(fitting, ""), caption, theme.text3)
            return
        match = _BLOCK.fullmatch(text)
        number, name = match.groups() if match else ("", text)
        used = write(painter, rect, number, face(Face.MONO_CAPTION), cell.quiet)
        room = rect.adjusted(used, 0, 0, 0)
        write(painter, room, name, face(Face.MONO_CAPTION), theme.text)


class GammaCell(Cell):
    """γ as a number and a bar with a tick at τ. The range of a group is a pale bar."""

    scale = _LEAST_SCALE
    tau = inf
    """``scale``: the γ that fills a bar. ``tau``: the method's τ, for groups."""

    def draw(self, cell: Drawn) -> None:
        theme = current_theme()
        rect = cell.rect
        layer = cell.index.data(LAYER)
        spread = cell.index.data(RANGE)
        has_gamma = isinstance(layer, LayerRow) and not isnan(layer.gamma)
        if not has_gamma and spread is None:
            cell.dash()
            return
        if has_gamma:
            tau = layer.tau
        else:
            tau = self.tau
        low, high, unsure = (0.0, layer.gamma, layer.gamma_unsure) if has_gamma else spread
        above = has_gamma and high > tau
        font = face(Face.STRONG if above else Face.BODY)
        metrics = QFontMetricsF(face(Face.STRONG))
        room = max(map(metrics.horizontalAdvance, ("0.000 ?", "0.0×10⁻⁰")))
        bar = QRectF(rect.left(), 0, max(rect.width() - room - 10, 0), _BAR)
        bar.moveCenter(rect.center())
        bar.moveLeft(rect.left())
        cell.painter.setPen(Qt.PenStyle.NoPen)
        cell.painter.setBrush(QColor(theme.card if cell.chosen else theme.sunk))
        cell.painter.drawRoundedRect(bar, _BAR / 2, _BAR / 2)
        colour = QColor(theme.accent if above else theme.axis)
        if low > 0:
            colour.setAlphaF(0.5)
        if unsure:
            brush = QBrush(colour, Qt.BrushStyle.Dense4Pattern)
        else:
            brush = QBrush(colour)
        cell.painter.setBrush(brush)
        cell.painter.drawRoundedRect(self._part(bar, low, high), _BAR / 2, _BAR / 2)
        if isfinite(tau) and tau <= self.scale:
            tick = QRectF(bar.left() + bar.width() * tau / self.scale - 0.75, 0, *_TICK)
            tick.moveTop(bar.center().y() - _TICK[1] / 2)
            cell.painter.fillRect(tick, QColor(theme.text))
        text = gamma_text(high) + (" ?" if unsure else "")
        beside_bar = rect.adjusted(bar.width() + 10, 0, 0, 0)
        write(cell.painter, beside_bar, text, font, theme.text if has_gamma else theme.text2)

    def _part(self, bar: QRectF, low: float, high: float) -> QRectF:
        """The part of a bar that stands for γ from ``low`` to ``high``."""
        left, right = (bar.width() * min(value / self.scale, 1.0) for value in (low, high))
        return QRectF(bar.left() + left, bar.top(), max(right - left, _BAR), _BAR)


class RegimeCell(Cell):
    """The regime, on a pill for the few heterogeneous layers, and muted for the others."""

    @staticmethod
    def widest() -> int:
        """The width in px of the pill with the longest text."""
        metrics = QFontMetricsF(face(Face.CAPTION_STRONG))
        return ceil(metrics.horizontalAdvance("heterogeneous") + _PILL + _PADDING)

    def draw(self, cell: Drawn) -> None:
        theme = current_theme()
        rect = cell.rect
        text = cell.option.text
        if cell.index.data(COUNT) is not None or not text:
            return
        if text == NONE:
            cell.dash()
            return
        if text == "homogeneous":
            write(cell.painter, rect, text, face(Face.CAPTION), cell.quiet)
            return
        font = face(Face.CAPTION_STRONG)
        metrics = QFontMetricsF(font)
        width = min(metrics.horizontalAdvance(text) + _PILL, rect.width() + _PADDING)
        pill = QRectF(rect.left() - 8, 0, width, metrics.height() + 6)
        pill.moveTop(rect.center().y() - pill.height() / 2)
        if cell.chosen:
            ground = theme.card
        else:
            ground = theme.tint
        rounded(cell.painter, pill, ground, corner=pill.height() / 2)
        write(cell.painter, pill.adjusted(9, 0, -7, 0), text, font, theme.accent_on_tint)


class HealthCell(Cell):
    """A muted tick, or the worst finding's icon and the number of findings."""

    def draw(self, cell: Drawn) -> None:
        text = cell.option.text
        worry = cell.index.data(Qt.ItemDataRole.DecorationRole)
        if text == NONE:
            cell.dash()
            return
        if worry is None and text != FINE:
            return
        sign = worry or icon("check", "text2" if cell.chosen else "text3")
        box = QRect(0, 0, _SIGN, _SIGN)
        box.moveCenter(cell.rect.center().toPoint())
        box.moveLeft(round(cell.rect.left()))
        sign.paint(cell.painter, box)
        if worry is not None:
            beside_sign = cell.rect.adjusted(_SIGN + 5, 0, 0, 0)
            write(cell.painter, beside_sign, text, face(Face.CAPTION), current_theme().text)


CELLS: Final = {"name": NameCell, "gamma": GammaCell, "regime": RegimeCell, "health": HealthCell}
"""The cells by ``Column.cell``. Other columns have a plain ``Cell``."""
