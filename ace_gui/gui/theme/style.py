"""The application's style: it draws every control from the tokens.

There is no style sheet, because Qt would evaluate its rules again for each widget after every
scheme change, which blocks the window for seconds. Fusion is the base style, so all platforms have
the same metrics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from PySide6.QtCore import QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPalette, QPixmap
from PySide6.QtWidgets import (
    QApplication,
    QProxyStyle,
    QPushButton,
    QStyle,
    QStyleOption,
    QStyleOptionComboBox,
    QStyleOptionHeader,
    QStyleOptionMenuItem,
    QStyleOptionProgressBar,
    QStyleOptionSlider,
    QStyleOptionTab,
    QToolButton,
    QToolTip,
    QWidget,
)

from ace_gui.gui.theme import drawn_controls
from ace_gui.gui.theme.drawn_controls import (
    apply_style,
    chevron,
    focus_ring,
    kind_of,
    paint_ground,
    state_is,
)
from ace_gui.gui.theme.painting import rounded
from ace_gui.gui.theme.tokens import Face, ThemeWatcher, current_theme, face, use_fonts

_PE = QStyle.PrimitiveElement
_CC = QStyle.ComplexControl
_CE = QStyle.ControlElement
_SC = QStyle.SubControl
_CT = QStyle.ContentsType
_SH = QStyle.StyleHint
_PM = QStyle.PixelMetric
_LEFT: Final = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_WORDS: Final = int(_LEFT) | int(Qt.TextFlag.TextSingleLine) | int(Qt.TextFlag.TextShowMnemonic)
_TAB_GAPS: Final = {"tight": 6}  # px between two tabs, by the kind of their bar
_TAB_GAP: Final = 18
_TAB_EDGE: Final = 2  # px at either side of a tab's text
_LINE: Final = 2.0
_SLIDER_LEAST: Final = 28
_HEADER_MARGIN: Final = 5  # px


def _tab_gap(bar: QWidget | None) -> int:
    """Pixels between two tabs."""
    return _TAB_GAPS.get(kind_of(bar), _TAB_GAP)


def tab_space(kind: str) -> int:
    """Pixels of a tab around its title and its icon, in a bar of this kind."""
    return _TAB_GAPS.get(kind, _TAB_GAP) + 2 * _TAB_EDGE


def _tab_shape(painter: QPainter, option: QStyleOption, widget: QWidget | None) -> None:
    """Paint a line below the current tab."""
    rect = QRectF(option.rect).adjusted(0, 0, -_tab_gap(widget), 0)
    if state_is(option, "Selected"):
        line = QRectF(rect.left(), rect.bottom() - _LINE, rect.width(), _LINE)
        rounded(painter, line, "accent", corner=0.0)
        if state_is(option, "HasFocus"):
            focus_ring(painter, rect.adjusted(-2, 2, 2, -2), widget)


def _tab_label(painter: QPainter, option: QStyleOptionTab, widget: QWidget | None) -> None:
    theme = current_theme()
    strong = state_is(option, "Selected") or state_is(option, "MouseOver")
    if strong:
        ink = theme.text
    else:
        ink = theme.text2
    rect = option.rect.adjusted(_TAB_EDGE, 0, -_tab_gap(widget) - _TAB_EDGE, 0)
    if not option.icon.isNull():
        square = QStyle.alignedRect(option.direction, _LEFT, option.iconSize, rect)
        option.icon.paint(painter, square)
        rect.setLeft(square.right() + 5)
    painter.setPen(QColor(ink if state_is(option, "Enabled") else theme.text3))
    if widget is not None:
        painter.setFont(widget.font())
    painter.drawText(rect, _WORDS, option.text)


def _menu_panel(painter: QPainter, option: QStyleOption, _widget: QWidget | None) -> None:
    rounded(painter, QRectF(option.rect), "raised", "edge", corner=0.0)


def _menu_bar_item(
    painter: QPainter, option: QStyleOptionMenuItem, _widget: QWidget | None
) -> None:
    """Paint an item of the menu bar, without Fusion's line below it."""
    theme = current_theme()
    active = state_is(option, "Selected") or state_is(option, "Sunken")
    if active and state_is(option, "Enabled"):
        rounded(painter, QRectF(option.rect), "hover")
    painter.setPen(QColor(theme.text if active else theme.text2))
    middle = int(Qt.AlignmentFlag.AlignCenter) | int(Qt.TextFlag.TextShowMnemonic)
    painter.drawText(option.rect, middle, option.text)


def _ink_header(option: QStyleOptionHeader) -> None:
    """Set the text colour of a header, and give the title of a row its whole height."""
    if option.orientation == Qt.Orientation.Vertical:
        option.rect = option.rect.adjusted(0, -_HEADER_MARGIN, 0, _HEADER_MARGIN)
    theme = current_theme()
    palette = option.palette
    if state_is(option, "MouseOver"):
        ink = theme.text
    else:
        ink = theme.text3
    palette.setColor(QPalette.ColorRole.ButtonText, QColor(ink))
    option.palette = palette


def _header_arrow(painter: QPainter, option: QStyleOption, _widget: QWidget | None) -> None:
    """Paint the arrow for the direction in which a column is sorted."""
    down = option.sortIndicator == QStyleOptionHeader.SortIndicator.SortDown  # type: ignore[attr-defined]
    if down:
        arrow = _PE.PE_IndicatorArrowUp
    else:
        arrow = _PE.PE_IndicatorArrowDown
    chevron(painter, QRectF(option.rect), arrow, size=0.8)


def _scroll_bar_part(option: QStyleOptionSlider, part: QStyle.SubControl) -> QRect:
    """The rectangle of a part of a scroll bar, which has no arrows."""
    upright = option.orientation == Qt.Orientation.Vertical
    rectangle = option.rect
    if upright:
        length = rectangle.height()
    else:
        length = rectangle.width()
    span = option.maximum - option.minimum
    size = length
    if span > 0:
        size = max(round(length * option.pageStep / (span + option.pageStep)), _SLIDER_LEAST)
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
        return QRect(rectangle.left(), rectangle.top() + reach[0], rectangle.width(), reach[1])
    return QRect(rectangle.left() + reach[0], rectangle.top(), reach[1], rectangle.height())


def _scroll_bar(painter: QPainter, option: QStyleOptionSlider) -> None:
    """Paint a rounded handle on the background of the scrolled content."""
    if option.maximum > option.minimum:
        active = state_is(option, "MouseOver") or state_is(option, "Sunken")
        handle = QRectF(_scroll_bar_part(option, _SC.SC_ScrollBarSlider)).adjusted(2, 2, -2, -2)
        rounded(painter, handle, "control" if active else "edge", corner=3.0)


def _progress_groove(painter: QPainter, option: QStyleOption, _widget: QWidget | None) -> None:
    rounded(painter, QRectF(option.rect), "hover", corner=3.0)


def _progress_contents(
    painter: QPainter, option: QStyleOptionProgressBar, widget: QWidget | None
) -> None:
    """Paint the finished part, or a moving third of the track if the total is unknown."""
    rect = QRectF(option.rect)
    span = option.maximum - option.minimum
    if span <= 0:
        free = 2 * rect.width() / 3
        rect.translate(free * getattr(widget, "place", 0.5), 0)
        rect.setWidth(rect.width() - free)
    else:
        rect.setWidth(rect.width() * (option.progress - option.minimum) / span)
    rounded(painter, rect, "accent", corner=3.0)


def _text_frame(painter: QPainter, option: QStyleOption, widget: QWidget | None) -> None:
    """Paint the border around a text box. Other frames are not drawn."""
    if getattr(option.frameShape, "name", "") == "StyledPanel":  # type: ignore[attr-defined]
        focused = state_is(option, "HasFocus") or (widget is not None and widget.hasFocus())
        border, width = ("accent", 2.0) if focused else ("edge", 1.0)
        rounded(painter, QRectF(option.rect), "field", border, width=width)


_FIELD_PADDING: Final = 12  # px above and below a field's text together
_SPIN_ARROWS: Final = (
    (_SC.SC_SpinBoxUp, _PE.PE_IndicatorArrowUp),
    (_SC.SC_SpinBoxDown, _PE.PE_IndicatorArrowDown),
)
_MEASURES: Final = {
    _PM.PM_ScrollBarExtent: 10,
    _PM.PM_ScrollBarSliderMin: _SLIDER_LEAST,
    _PM.PM_MenuPanelWidth: 1,
    _PM.PM_MenuHMargin: 4,
    _PM.PM_MenuVMargin: 5,
    _PM.PM_ToolTipLabelFrameWidth: 7,
    _PM.PM_TabBarTabVSpace: 18,
    _PM.PM_TabBarTabShiftVertical: 0,
    _PM.PM_TabBarTabOverlap: 0,
    _PM.PM_TabBarBaseHeight: 0,
    _PM.PM_TabBarBaseOverlap: 0,
    _PM.PM_HeaderMargin: _HEADER_MARGIN,
}
_SCALED_METRICS: Final = {
    *(_PM.PM_IndicatorWidth, _PM.PM_IndicatorHeight),
    *(_PM.PM_ButtonIconSize, _PM.PM_SmallIconSize),
}
_HINTS: Final = {
    _SH.SH_ItemView_ShowDecorationSelected: 1,
    _SH.SH_DialogButtonBox_ButtonsHaveIcons: 0,
    _SH.SH_DialogButtonLayout: 3,  # the reject button is left of the accept button
    _SH.SH_ToolTip_WakeUpDelay: 500,
    _SH.SH_EtchDisabledText: 0,
}


_Draw = Callable[[QPainter, Any, QWidget | None], object]


def _nothing(_painter: QPainter, _option: QStyleOption, _widget: QWidget | None) -> None:
    """Paint nothing."""


def _ground(painter: QPainter, option: QStyleOption, widget: QWidget | None) -> None:
    paint_ground(painter, QRectF(option.rect), kind_of(widget))


def _focus(painter: QPainter, option: QStyleOption, widget: QWidget | None) -> None:
    if state_is(option, "KeyboardFocusChange"):  # as in Fusion: not after a click
        drawn_controls.focus_ring(painter, QRectF(option.rect), widget)


def _tip(painter: QPainter, option: QStyleOption, _widget: QWidget | None) -> None:
    painter.fillRect(option.rect, QColor(current_theme().toast))


def _line_edit(painter: QPainter, option: QStyleOption, widget: QWidget | None) -> None:
    if getattr(option, "lineWidth", 1) > 0:  # the line edit in a spin box has no frame
        drawn_controls.field(painter, option, widget)


def _arrow(element: QStyle.PrimitiveElement) -> _Draw:
    return lambda painter, option, _widget: drawn_controls.chevron(
        painter, QRectF(option.rect), element, enabled=state_is(option, "Enabled")
    )


_TRANSPARENT: Final = (
    *(_PE.PE_PanelMenuBar, _PE.PE_FrameMenu, _PE.PE_PanelScrollAreaCorner),
    *(_PE.PE_FrameTabBarBase, _PE.PE_FrameTabWidget),
)
_PRIMITIVES: Final[dict[QStyle.PrimitiveElement, _Draw]] = {
    _PE.PE_Widget: _ground,
    _PE.PE_FrameFocusRect: _focus,
    _PE.PE_PanelLineEdit: _line_edit,
    _PE.PE_IndicatorCheckBox: drawn_controls.check_box,
    _PE.PE_IndicatorItemViewItemCheck: drawn_controls.check_box,
    _PE.PE_IndicatorBranch: drawn_controls.branch,
    _PE.PE_IndicatorHeaderArrow: _header_arrow,
    _PE.PE_PanelMenu: _menu_panel,
    _PE.PE_PanelTipLabel: _tip,
    **{element: _arrow(element) for element in drawn_controls.CHEVRONS},
    **dict.fromkeys(_TRANSPARENT, _nothing),
}
_CONTROLS: Final[dict[QStyle.ControlElement, _Draw]] = {
    _CE.CE_PushButtonBevel: drawn_controls.paint_button,
    _CE.CE_TabBarTabShape: _tab_shape,
    _CE.CE_TabBarTabLabel: _tab_label,
    _CE.CE_MenuBarItem: _menu_bar_item,
    _CE.CE_MenuBarEmptyArea: _nothing,
    _CE.CE_ShapedFrame: _text_frame,
    _CE.CE_HeaderSection: _nothing,
    _CE.CE_HeaderEmptyArea: _nothing,
    _CE.CE_ProgressBarGroove: _progress_groove,
    _CE.CE_ProgressBarContents: _progress_contents,
    _CE.CE_Splitter: _nothing,
    _CE.CE_FocusFrame: lambda painter, option, _: focus_ring(painter, QRectF(option.rect), None),
}


class WorkbenchStyle(QProxyStyle):
    """Fusion's metrics with the window's own look. The parameters have Qt's types."""

    def __init__(self) -> None:
        super().__init__("Fusion")

    def polish(self, target: Any) -> Any:
        """Set up a widget once. (Qt calls it for palettes and applications, too.)"""
        if isinstance(target, QWidget):
            apply_style(target)
        return super().polish(target)

    def pixelMetric(self, metric: Any, option: Any = None, widget: Any = None) -> int:
        measure = _MEASURES.get(metric)
        if measure is not None:
            return measure
        if metric == _PM.PM_TabBarTabHSpace:
            return tab_space(kind_of(widget))
        pixels = super().pixelMetric(metric, option, widget)
        if metric in _SCALED_METRICS:
            return round(pixels * drawn_controls.scale())
        return pixels

    def styleHint(self, hint: Any, option: Any = None, widget: Any = None, data: Any = None) -> int:
        own_hint = _HINTS.get(hint)
        if own_hint is None:
            return super().styleHint(hint, option, widget, data)
        return own_hint

    def generatedIconPixmap(self, mode: QIcon.Mode, pixmap: Any, option: Any) -> QPixmap:
        """Do not tint icons of a selected row, because colours identify experts."""
        if mode == QIcon.Mode.Selected:
            return QPixmap(pixmap)
        return super().generatedIconPixmap(mode, pixmap, option)

    def drawPrimitive(self, element: Any, option: Any, painter: Any, widget: Any = None) -> None:
        draw = _PRIMITIVES.get(element)
        if draw is None:
            super().drawPrimitive(element, option, painter, widget)
        else:
            draw(painter, option, widget)

    def drawControl(self, element: Any, option: Any, painter: Any, widget: Any = None) -> None:
        draw = _CONTROLS.get(element)
        if draw is not None:
            draw(painter, option, widget)
            return
        if element == _CE.CE_PushButtonLabel and isinstance(widget, QPushButton):
            if drawn_controls.button_kind(widget) == "link":  # left-aligned, as a sentence
                option.rect.setWidth(min(widget.sizeHint().width(), option.rect.width()))
        elif element == _CE.CE_HeaderLabel:
            _ink_header(option)
        super().drawControl(element, option, painter, widget)
        if element == _CE.CE_PushButton and state_is(option, "HasFocus"):  # Fusion has no ring
            _focus(painter, option, widget)

    def drawComplexControl(
        self, control: Any, option: Any, painter: QPainter, widget: Any = None
    ) -> None:
        if control == _CC.CC_SpinBox:
            self._draw_spin_box(option, painter, widget)
        elif control == _CC.CC_ScrollBar:
            _scroll_bar(painter, option)
        elif control == _CC.CC_ToolButton and isinstance(widget, QToolButton):
            drawn_controls.paint_button(painter, option, widget)
            label = type(option)(option)
            if kind_of(widget) in ("fold", "dot"):
                margin = 0
            else:
                margin = 5
            label.rect = option.rect.adjusted(margin, 2, -margin, -2)
            self.drawControl(_CE.CE_ToolButtonLabel, label, painter, widget)
            if state_is(option, "HasFocus"):
                _focus(painter, option, widget)
        elif isinstance(option, QStyleOptionComboBox) and option.frame:
            drawn_controls.field(painter, option, widget)
            arrow = _SC.SC_ComboBoxArrow
            element = _PE.PE_IndicatorArrowDown
            rect = self.subControlRect(control, option, arrow, widget)
            enabled = state_is(option, "Enabled")
            drawn_controls.chevron(painter, QRectF(rect), element, enabled=enabled)
        else:
            super().drawComplexControl(control, option, painter, widget)

    def _draw_spin_box(self, option: Any, painter: QPainter, widget: QWidget | None) -> None:
        drawn_controls.field(painter, option, widget)
        if state_is(option, "MouseOver") or state_is(option, "HasFocus"):
            for sub, element in _SPIN_ARROWS:
                rect = self.subControlRect(_CC.CC_SpinBox, option, sub, widget)
                enabled = state_is(option, "Enabled")
                drawn_controls.chevron(painter, QRectF(rect), element, enabled=enabled, size=0.8)

    def subControlRect(self, control: Any, option: Any, part: Any, widget: Any = None) -> QRect:
        if control == _CC.CC_ScrollBar:
            return _scroll_bar_part(option, part)
        return super().subControlRect(control, option, part, widget)

    def sizeFromContents(self, kind: Any, option: Any, size: QSize, widget: Any = None) -> QSize:
        if kind == _CT.CT_PushButton:
            return drawn_controls.push_button_size(size, widget)
        if kind == _CT.CT_ToolButton:
            return size + QSize(*drawn_controls.TOOL_PADDING)
        if kind == _CT.CT_MenuBarItem:
            return size + QSize(18, 12)
        contents = super().sizeFromContents(kind, option, size, widget)
        if kind in (_CT.CT_SpinBox, _CT.CT_ComboBox):
            contents.setHeight(max(contents.height(), option.fontMetrics.height() + _FIELD_PADDING))
        return contents


def apply_theme(app: QApplication) -> ThemeWatcher:
    """Apply fonts, style and palette to ``app``, and follow the system's scheme.

    Calling it again returns the same watcher.
    """
    existing = app.findChild(ThemeWatcher)
    if existing is not None:
        return existing
    use_fonts(app)
    app.setStyle(WorkbenchStyle())
    QToolTip.setFont(face(Face.CAPTION))
    return ThemeWatcher(app)
