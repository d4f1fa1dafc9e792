"""The style's drawing of bars and frames: tabs, headers, scroll bars, progress, text boxes."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QRect, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPalette
from PySide6.QtWidgets import (
    QStyle,
    QStyleOption,
    QStyleOptionHeader,
    QStyleOptionMenuItem,
    QStyleOptionProgressBar,
    QStyleOptionSlider,
    QStyleOptionTab,
    QWidget,
)

from ace_gui.gui.theme.drawn_controls import chevron, focus_ring
from ace_gui.gui.theme.painting import rounded
from ace_gui.gui.theme.tokens import current_theme
from ace_gui.gui.theme.widget_kinds import kind_of, state_is

_PE, _SC = QStyle.PrimitiveElement, QStyle.SubControl
_LEFT: Final = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_WORDS: Final = int(_LEFT) | int(Qt.TextFlag.TextSingleLine) | int(Qt.TextFlag.TextShowMnemonic)
_TAB_GAPS: Final = {"tight": 6}  # px between two tabs, by the kind of their bar
_TAB_GAP: Final = 18
_TAB_EDGE: Final = 2  # px at either side of a tab's text
_LINE: Final = 2.0
SLIDER_LEAST: Final = 28
HEADER_MARGIN: Final = 5  # px


def tab_gap(bar: QWidget | None) -> int:
    """Pixels between two tabs."""
    return _TAB_GAPS.get(kind_of(bar), _TAB_GAP)


def tab_space(kind: str) -> int:
    """Pixels of a tab besides its title and its icon, in a bar of this kind."""
    return _TAB_GAPS.get(kind, _TAB_GAP) + 2 * _TAB_EDGE


def tab_shape(painter: QPainter, option: QStyleOption, widget: QWidget | None) -> None:
    """A line below the current tab."""
    rect = QRectF(option.rect).adjusted(0, 0, -tab_gap(widget), 0)
    if state_is(option, "Selected"):
        line = QRectF(rect.left(), rect.bottom() - _LINE, rect.width(), _LINE)
        painter.fillRect(line, QColor(current_theme().accent))
        if state_is(option, "HasFocus"):
            focus_ring(painter, rect.adjusted(-2, 2, 2, -2), widget)


def tab_label(painter: QPainter, option: QStyleOptionTab, widget: QWidget | None) -> None:
    """A tab's icon and text."""
    theme = current_theme()
    strong = state_is(option, "Selected") or state_is(option, "MouseOver")
    ink = theme.text if strong else theme.text2
    rect = option.rect.adjusted(_TAB_EDGE, 0, -tab_gap(widget) - _TAB_EDGE, 0)
    if not option.icon.isNull():
        square = QStyle.alignedRect(option.direction, _LEFT, option.iconSize, rect)
        option.icon.paint(painter, square)
        rect.setLeft(square.right() + 5)
    painter.setPen(QColor(ink if state_is(option, "Enabled") else theme.text3))
    if widget is not None:
        painter.setFont(widget.font())
    painter.drawText(rect, _WORDS, option.text)


def menu_panel(painter: QPainter, option: QStyleOption, _widget: QWidget | None) -> None:
    """The background and the border of a menu."""
    theme = current_theme()
    painter.fillRect(option.rect, QColor(theme.raised))
    painter.setPen(QColor(theme.edge))
    painter.drawRect(option.rect.adjusted(0, 0, -1, -1))


def menu_bar_item(painter: QPainter, option: QStyleOptionMenuItem, _widget: QWidget | None) -> None:
    """An item of the menu bar, without Fusion's line below it."""
    theme, active = current_theme(), state_is(option, "Selected") or state_is(option, "Sunken")
    if active and state_is(option, "Enabled"):
        rounded(painter, QRectF(option.rect), theme.hover)
    painter.setPen(QColor(theme.text if active else theme.text2))
    middle = int(Qt.AlignmentFlag.AlignCenter) | int(Qt.TextFlag.TextShowMnemonic)
    painter.drawText(option.rect, middle, option.text)


def ink_header(option: QStyleOptionHeader) -> None:
    """Set the text colour of a header, and give the title of a row its whole height."""
    if option.orientation == Qt.Orientation.Vertical:
        option.rect = option.rect.adjusted(0, -HEADER_MARGIN, 0, HEADER_MARGIN)
    theme, palette = current_theme(), option.palette
    ink = theme.text if state_is(option, "MouseOver") else theme.text3
    palette.setColor(QPalette.ColorRole.ButtonText, QColor(ink))
    option.palette = palette


def header_arrow(painter: QPainter, option: QStyleOption, _widget: QWidget | None) -> None:
    """The direction of a column's sorting."""
    down = option.sortIndicator == QStyleOptionHeader.SortIndicator.SortDown  # type: ignore[attr-defined]
    arrow = _PE.PE_IndicatorArrowUp if down else _PE.PE_IndicatorArrowDown
    chevron(painter, QRectF(option.rect), arrow, size=0.8)


def scroll_bar_part(option: QStyleOptionSlider, part: QStyle.SubControl) -> QRect:
    """The rectangle of a part of a scroll bar, which has no arrows."""
    upright = option.orientation == Qt.Orientation.Vertical
    whole = option.rect
    length = whole.height() if upright else whole.width()
    span = option.maximum - option.minimum
    size = length
    if span > 0:
        size = max(round(length * option.pageStep / (span + option.pageStep)), SLIDER_LEAST)
        size = min(size, length)
    start = QStyle.sliderPositionFromValue(
        option.minimum, option.maximum, option.sliderPosition, length - size, option.upsideDown
    )
    reach = {
        _SC.SC_ScrollBarSlider: (start, size),
        _SC.SC_ScrollBarGroove: (0, length),
        _SC.SC_ScrollBarSubPage: (0, start),
        _SC.SC_ScrollBarAddPage: (start + size, length - start - size),
    }.get(part, (0, 0))
    if upright:
        return QRect(whole.left(), whole.top() + reach[0], whole.width(), reach[1])
    return QRect(whole.left() + reach[0], whole.top(), reach[1], whole.height())


def scroll_bar(painter: QPainter, option: QStyleOptionSlider) -> None:
    """A rounded handle on the background of the scrolled content."""
    if option.maximum > option.minimum:
        theme = current_theme()
        active = state_is(option, "MouseOver") or state_is(option, "Sunken")
        handle = QRectF(scroll_bar_part(option, _SC.SC_ScrollBarSlider)).adjusted(2, 2, -2, -2)
        rounded(painter, handle, theme.control if active else theme.edge, corner=3.0)


def progress_groove(painter: QPainter, option: QStyleOption, _widget: QWidget | None) -> None:
    """The track of a progress bar."""
    rounded(painter, QRectF(option.rect), current_theme().hover, corner=3.0)


def progress_contents(
    painter: QPainter, option: QStyleOptionProgressBar, _widget: QWidget | None
) -> None:
    """The finished part; a third of the track if the total is unknown."""
    rect, span = QRectF(option.rect), option.maximum - option.minimum
    if span <= 0:
        rect.adjust(rect.width() / 3, 0, -rect.width() / 3, 0)
    else:
        rect.setWidth(rect.width() * (option.progress - option.minimum) / span)
    rounded(painter, rect, current_theme().accent, corner=3.0)


def text_frame(painter: QPainter, option: QStyleOption, widget: QWidget | None) -> None:
    """The border around a text box; other frames are not drawn."""
    if getattr(option.frameShape, "name", "") == "StyledPanel":  # type: ignore[attr-defined]
        theme = current_theme()
        focused = state_is(option, "HasFocus") or (widget is not None and widget.hasFocus())
        border, width = (theme.accent, 2.0) if focused else (theme.edge, 1.0)
        rounded(painter, QRectF(option.rect), theme.field, border, width=width)
