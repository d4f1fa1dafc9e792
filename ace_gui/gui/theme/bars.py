"""The style's drawing of bars and menus: tabs, menus, headers, scroll bars."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPalette, QPen
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

from ace_gui.gui.theme.drawn_marks import RADIUS, chevron, focus_ring, scale, tick
from ace_gui.gui.theme.scheme import current_theme
from ace_gui.gui.theme.widget_kinds import state_is

_Item, _PE = QStyleOptionMenuItem.MenuItemType, QStyle.PrimitiveElement
_SC = QStyle.SubControl
_LEFT: Final = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_WORDS: Final = int(_LEFT) | int(Qt.TextFlag.TextSingleLine) | int(Qt.TextFlag.TextShowMnemonic)
TAB_GAP: Final = 18  # px between two tabs
TAB_EDGE: Final = 2  # px at either side of a tab's text
_LINE: Final = 2.0
LINE_ROOM: Final = 8  # px: height of a separator in a menu
_COLUMN: Final = 22  # px: ticks and icons in a menu
SLIDER_LEAST: Final = 28
HEADER_MARGIN: Final = 5  # px


def tab_shape(painter: QPainter, option: QStyleOption, widget: QWidget | None) -> None:
    """A line below the current tab."""
    rect = QRectF(option.rect).adjusted(0, 0, -TAB_GAP, 0)
    if state_is(option, "Selected"):
        line = QRectF(rect.left(), rect.bottom() - _LINE, rect.width(), _LINE)
        painter.fillRect(line, QColor(current_theme().accent))
    if state_is(option, "HasFocus") and state_is(option, "Selected"):
        focus_ring(painter, rect.adjusted(-2, 2, 2, -2), widget)


def tab_label(painter: QPainter, option: QStyleOptionTab, widget: QWidget | None) -> None:
    """A tab's icon and text."""
    theme = current_theme()
    strong = state_is(option, "Selected") or state_is(option, "MouseOver")
    ink = theme.text if strong else theme.text2
    rect = option.rect.adjusted(TAB_EDGE, 0, -TAB_GAP - TAB_EDGE, 0)
    if not option.icon.isNull():
        size = option.iconSize
        top = rect.center().y() - size.height() // 2
        option.icon.paint(painter, QRect(rect.left(), top, size.width(), size.height()))
        rect.setLeft(rect.left() + size.width() + 4)
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


def menu_item(painter: QPainter, option: QStyleOptionMenuItem, _widget: QWidget | None) -> None:
    """A row of a menu, or of the list of a combo box."""
    theme, rect = current_theme(), option.rect
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    if option.menuItemType == _Item.Separator:
        _separator(painter, option)
        painter.restore()
        return
    enabled = state_is(option, "Enabled")
    if state_is(option, "Selected") and enabled:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(theme.tint))
        painter.drawRoundedRect(QRectF(rect), 4.0, 4.0)
    ink = theme.text if enabled else theme.text3
    words = rect.adjusted(8, 0, -8, 0)
    if option.maxIconWidth > 0 or option.menuHasCheckableItems:
        mark = QRect(words.topLeft(), QSize(round(16 * scale()), words.height()))
        _menu_mark(painter, option, mark)
        words.setLeft(words.left() + round(_COLUMN * scale()))
    painter.setFont(option.font)
    painter.setPen(QColor(ink))
    text, _, keys = option.text.partition("\t")
    painter.drawText(words, _WORDS, text)
    if keys:
        painter.setPen(QColor(theme.text2 if enabled else theme.text3))
        right = int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        painter.drawText(words, right | int(Qt.TextFlag.TextSingleLine), keys)
    if option.menuItemType == _Item.SubMenu:
        at = QRectF(rect.right() - 18, rect.top(), 12, rect.height())
        chevron(painter, at, _PE.PE_IndicatorArrowRight, enabled=enabled)
    painter.restore()


def is_line(option: QStyleOption) -> bool:
    """Whether it is a separator without text."""
    if not isinstance(option, QStyleOptionMenuItem):
        return False
    return option.menuItemType == _Item.Separator and not option.text


def _separator(painter: QPainter, option: QStyleOptionMenuItem) -> None:
    theme, rect = current_theme(), option.rect
    if option.text:
        painter.setPen(QColor(theme.text3))
        painter.drawText(rect.adjusted(8, 0, -8, 0), _WORDS, option.text)
        return
    painter.fillRect(QRect(rect.left() + 2, rect.center().y(), rect.width() - 4, 1), theme.line)


def _menu_mark(painter: QPainter, option: QStyleOptionMenuItem, rect: QRect) -> None:
    enabled = state_is(option, "Enabled")
    if option.checkType != QStyleOptionMenuItem.CheckType.NotCheckable:
        if option.checked:
            box = QRectF(0, 0, 14 * scale(), 14 * scale())
            box.moveCenter(QRectF(rect).center())
            theme = current_theme()
            tick(painter, box, theme.accent if enabled else theme.text3)
    elif not option.icon.isNull():
        mode = QIcon.Mode.Normal if enabled else QIcon.Mode.Disabled
        option.icon.paint(painter, rect, Qt.AlignmentFlag.AlignCenter, mode)


def menu_bar_item(painter: QPainter, option: QStyleOptionMenuItem, widget: QWidget | None) -> None:
    """An item of the menu bar."""
    theme = current_theme()
    active = state_is(option, "Selected") or state_is(option, "Sunken")
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    if active and state_is(option, "Enabled"):
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(theme.hover))
        painter.drawRoundedRect(QRectF(option.rect), RADIUS, RADIUS)
    painter.setPen(QColor(theme.text if active else theme.text2))
    if widget is not None:
        painter.setFont(widget.font())
    by_keys = state_is(option, "HasFocus")  # Alt or F10 was pressed: now the mnemonics are useful
    mnemonics = Qt.TextFlag.TextShowMnemonic if by_keys else Qt.TextFlag.TextHideMnemonic
    middle = int(Qt.AlignmentFlag.AlignCenter) | int(mnemonics)
    painter.drawText(option.rect, middle, option.text)
    painter.restore()


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


def scroll_bar_part(option: QStyleOptionSlider, part: QStyle.SubControl) -> QRect | None:
    """The rectangle of a part of a scroll bar without arrows; None if it has no such part."""
    upright = option.orientation == Qt.Orientation.Vertical
    whole = option.rect
    length = whole.height() if upright else whole.width()
    span = option.maximum - option.minimum
    size = length
    if span > 0:
        share = option.pageStep / (span + option.pageStep)
        size = min(max(round(length * share), SLIDER_LEAST), length)
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
    left = whole.left() + reach[0]
    if option.direction == Qt.LayoutDirection.RightToLeft:
        left = whole.right() + 1 - reach[0] - reach[1]
    return QRect(left, whole.top(), reach[1], whole.height())


def scroll_bar(painter: QPainter, option: QStyleOptionSlider, _widget: QWidget | None) -> None:
    """A rounded handle on the background of the scrolled content."""
    handle = scroll_bar_part(option, _SC.SC_ScrollBarSlider)
    if handle is None or option.maximum <= option.minimum:
        return
    theme = current_theme()
    active = state_is(option, "MouseOver") or state_is(option, "Sunken")
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(theme.control if active else theme.edge))
    painter.drawRoundedRect(QRectF(handle).adjusted(2, 2, -2, -2), 3.0, 3.0)
    painter.restore()


def progress_groove(painter: QPainter, option: QStyleOption, _widget: QWidget | None) -> None:
    """The track of a progress bar."""
    _bar(painter, QRectF(option.rect), current_theme().hover)


def progress_contents(
    painter: QPainter, option: QStyleOptionProgressBar, _widget: QWidget | None
) -> None:
    """The finished part; a third of the track if the total is unknown."""
    rect, span = QRectF(option.rect), option.maximum - option.minimum
    if span <= 0:
        rect.adjust(rect.width() / 3, 0, -rect.width() / 3, 0)
    else:
        rect.setWidth(rect.width() * (option.progress - option.minimum) / span)
    _bar(painter, rect, current_theme().accent)


def _bar(painter: QPainter, rect: QRectF, colour: str) -> None:
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(colour))
    painter.drawRoundedRect(rect, 3.0, 3.0)
    painter.restore()


def shaped_frame(painter: QPainter, option: QStyleOption, widget: QWidget | None) -> bool:
    """The border around a text, or a separator; False for another frame."""
    theme, shape = current_theme(), option.frameShape  # type: ignore[attr-defined]
    name = getattr(shape, "name", "")
    if name in ("HLine", "VLine"):
        middle = option.rect.center()
        line = (
            QRect(option.rect.left(), middle.y(), option.rect.width(), 1)
            if name == "HLine"
            else QRect(middle.x(), option.rect.top(), 1, option.rect.height())
        )
        painter.fillRect(line, QColor(theme.line))
        return True
    if name != "StyledPanel":
        return False
    focused = state_is(option, "HasFocus") or (widget is not None and widget.hasFocus())
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    width = 2.0 if focused else 1.0
    painter.setPen(QPen(QColor(theme.accent if focused else theme.edge), width))
    painter.setBrush(QColor(theme.field))
    inset = width / 2
    painter.drawRoundedRect(
        QRectF(option.rect).adjusted(inset, inset, -inset, -inset), RADIUS, RADIUS
    )
    painter.restore()
    return True
