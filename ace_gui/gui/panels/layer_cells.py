"""Delegates of the layer cells: names, γ as a bar with τ, regimes, health.

Each reads the model's roles and not its displayed text, and is as high as its font needs. The style
paints the row's background.
"""

from __future__ import annotations

import re
from math import ceil, inf, isfinite, isnan
from typing import Final

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QFontMetricsF, QPainter
from PySide6.QtWidgets import QApplication, QStyle, QStyledItemDelegate, QStyleOptionViewItem

from ace_gui.gui.models.layer_columns import FINE, NONE, Layer
from ace_gui.gui.models.layers_model import COUNT, LAYER, RANGE
from ace_gui.gui.numbers import gamma_text
from ace_gui.gui.theme import Face, Tokens, current_theme, face, icon
from ace_gui.gui.widgets.labels.written import write

_Index = QModelIndex | QPersistentModelIndex
_BLOCK: Final = re.compile(r"…?(\d+\.)(.+)")
_MIDDLE: Final = Qt.AlignmentFlag.AlignVCenter
_LEFT: Final = Qt.AlignmentFlag.AlignLeft | _MIDDLE
_BAR: Final = 6.0  # px: height
_TICK: Final = (1.5, 12.0)  # px: width of the τ mark
_LEAST_SCALE: Final = 0.5  # of γ: bars end here, or at the largest γ
_SIGN: Final = 14  # px
_PADDING: Final = 6.0  # px
_PILL: Final = 18  # px added to the width of a pill's text


class Cell(QStyledItemDelegate):
    """The background of a row, and a dash if a column does not apply."""

    padding = 14
    """Pixels added to the font height for the row height."""

    def sizeHint(self, option: QStyleOptionViewItem, index: _Index) -> QSize:
        hint = super().sizeHint(option, index)
        return QSize(hint.width() + 2 * round(_PADDING), option.fontMetrics.height() + self.padding)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        option.text = index.data() or ""  # Qt's ``initStyleOption`` would query seven roles
        align = index.data(Qt.ItemDataRole.TextAlignmentRole)
        option.displayAlignment = _LEFT if align is None else Qt.AlignmentFlag(align)
        style = option.widget.style() if option.widget is not None else QApplication.style()
        element = QStyle.PrimitiveElement.PE_PanelItemViewItem
        style.drawPrimitive(element, option, painter, option.widget)
        chosen = bool(option.state & QStyle.StateFlag.State_Selected)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        rect = QRectF(option.rect).adjusted(_PADDING, 0, -_PADDING, 0)
        self.draw(painter, rect, option, index, chosen=chosen)
        painter.restore()

    def draw(
        self,
        painter: QPainter,
        rect: QRectF,
        option: QStyleOptionViewItem,
        index: _Index,
        *,
        chosen: bool,
    ) -> None:
        """Draw the text, muted if it is a dash. Subclasses draw their column's content."""
        theme, text = current_theme(), option.text.strip()
        if text == NONE:
            write_dash(painter, rect, theme, option.displayAlignment)
            return
        ink = theme.text2 if chosen or index.column() else theme.text
        write(painter, rect, text, option.font, ink, align=option.displayAlignment)


class NameCell(Cell):
    """A tensor's name, whose block number is never elided, or a group's title."""

    def draw(
        self,
        painter: QPainter,
        rect: QRectF,
        option: QStyleOptionViewItem,
        index: _Index,
        *,
        chosen: bool,
    ) -> None:
        theme, count = current_theme(), index.data(COUNT)
        if count is not None:
            used = write(painter, rect, option.text, face(Face.STRONG), theme.text)
            rest, caption = rect.adjusted(used + 10, 0, 0, 0), face(Face.CAPTION)
            if rest.width() >= QFontMetricsF(caption).horizontalAdvance("0 matrices"):
                write(painter, rest, count, caption, theme.text3)
            return
        found = _BLOCK.fullmatch(option.text)
        number, name = found.groups() if found else ("", option.text)
        quiet = theme.text2 if chosen else theme.text3
        used = write(painter, rect, number, face(Face.MONO_CAPTION), quiet)
        rest = rect.adjusted(used, 0, 0, 0)
        write(painter, rest, name, face(Face.MONO_CAPTION), theme.text)


class GammaCell(Cell):
    """γ as a bar with a tick at τ and as a number; for a group a pale bar for its range."""

    scale = _LEAST_SCALE
    tau = inf
    """γ at full bar width, and the method's τ, for groups."""

    def draw(
        self,
        painter: QPainter,
        rect: QRectF,
        option: QStyleOptionViewItem,  # noqa: ARG002  (a bar is drawn, no text)
        index: _Index,
        *,
        chosen: bool,
    ) -> None:
        theme, layer, spread = current_theme(), index.data(LAYER), index.data(RANGE)
        known = isinstance(layer, Layer) and not isnan(layer.gamma)
        if not known and spread is None:
            write_dash(painter, rect, theme, _LEFT)
            return
        tau = layer.tau if known else self.tau
        low, high = (0.0, layer.gamma) if known else spread
        above, unsure = known and high > tau, known and layer.gamma_unsure
        number = gamma_text(high)
        font = face(Face.STRONG if above else Face.BODY)
        room = QFontMetricsF(face(Face.STRONG)).horizontalAdvance("0.000 ?")
        bar = QRectF(rect.left(), 0, max(rect.width() - room - 10, 0), _BAR)
        bar.moveCenter(rect.center())
        bar.moveLeft(rect.left())
        self._draw_bar(painter, bar, theme, low, high, above=above, unsure=unsure, chosen=chosen)
        if isfinite(tau) and tau <= self.scale:
            tick = QRectF(bar.left() + bar.width() * tau / self.scale - 0.75, 0, *_TICK)
            tick.moveTop(bar.center().y() - _TICK[1] / 2)
            painter.fillRect(tick, QColor(theme.text))
        text = rect.adjusted(bar.width() + 10, 0, 0, 0)
        ink = theme.text if known else theme.text2
        write(painter, text, number + (" ?" if unsure else ""), font, ink)

    def _draw_bar(
        self,
        painter: QPainter,
        bar: QRectF,
        theme: Tokens,
        low: float,
        high: float,
        *,
        above: bool,
        unsure: bool,
        chosen: bool,
    ) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(theme.card if chosen else theme.sunk))
        painter.drawRoundedRect(bar, _BAR / 2, _BAR / 2)
        left = bar.left() + bar.width() * min(low / self.scale, 1.0)
        right = bar.left() + bar.width() * min(high / self.scale, 1.0)
        colour = QColor(theme.accent if above else theme.axis)
        if low > 0:
            colour.setAlphaF(0.5)
        painter.setBrush(QBrush(colour, Qt.BrushStyle.Dense4Pattern) if unsure else colour)
        part = QRectF(left, bar.top(), max(right - left, _BAR), _BAR)
        painter.drawRoundedRect(part, _BAR / 2, _BAR / 2)


class RegimeCell(Cell):
    """The few heterogeneous layers have a pill; the normal case is muted."""

    @staticmethod
    def widest() -> int:
        """Width in px of the longest text on a pill."""
        metrics = QFontMetricsF(face(Face.CAPTION_STRONG))
        return ceil(metrics.horizontalAdvance("heterogeneous") + _PILL + _PADDING)

    def draw(
        self,
        painter: QPainter,
        rect: QRectF,
        option: QStyleOptionViewItem,
        index: _Index,
        *,
        chosen: bool,
    ) -> None:
        theme, text = current_theme(), option.text
        if index.data(COUNT) is not None or not text:
            return
        if text == NONE:
            write_dash(painter, rect, theme, _LEFT)
            return
        if text == "homogeneous":
            quiet = theme.text2 if chosen else theme.text3
            write(painter, rect, text, face(Face.CAPTION), quiet)
            return
        font = face(Face.CAPTION_STRONG)
        metrics = QFontMetricsF(font)
        width = min(metrics.horizontalAdvance(text) + _PILL, rect.width() + _PADDING)
        pill = QRectF(rect.left() - 8, 0, width, metrics.height() + 6)
        pill.moveTop(rect.center().y() - pill.height() / 2)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(theme.card if chosen else theme.tint))
        painter.drawRoundedRect(pill, pill.height() / 2, pill.height() / 2)
        write(painter, pill.adjusted(9, 0, -7, 0), text, font, theme.accent_on_tint)


class HealthCell(Cell):
    """A muted tick, or the worst finding's icon and the number of findings."""

    def draw(
        self,
        painter: QPainter,
        rect: QRectF,
        option: QStyleOptionViewItem,
        index: _Index,
        *,
        chosen: bool,
    ) -> None:
        theme, worry = current_theme(), index.data(Qt.ItemDataRole.DecorationRole)
        if option.text == NONE:
            write_dash(painter, rect, theme, _LEFT)
            return
        if worry is None and option.text != FINE:
            return
        sign = worry or icon("check", "text2" if chosen else "text3")
        box = QRect(0, 0, _SIGN, _SIGN)
        box.moveCenter(rect.center().toPoint())
        box.moveLeft(round(rect.left()))
        sign.paint(painter, box)
        if worry is not None:
            rest = rect.adjusted(_SIGN + 5, 0, 0, 0)
            write(painter, rest, option.text, face(Face.CAPTION), theme.text)


CELLS: Final = {"name": NameCell, "gamma": GammaCell, "regime": RegimeCell, "health": HealthCell}
"""By ``Column.cell``; other columns have a plain ``Cell``."""


def write_dash(painter: QPainter, rect: QRectF, theme: Tokens, align: Qt.AlignmentFlag) -> None:
    """Values that do not apply are paler than a caption."""
    colour = QColor(theme.text3)
    colour.setAlphaF(0.55)
    painter.setPen(colour)
    painter.drawText(rect, align, NONE)
