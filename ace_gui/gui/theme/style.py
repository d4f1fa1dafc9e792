"""The application's style: it draws every control from the tokens.

There is no style sheet, because Qt would evaluate its rules again for each widget after every
scheme change, which blocks the window for seconds. Fusion is the base style, so all platforms have
the same metrics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from PySide6.QtCore import QRect, QRectF, QSize
from PySide6.QtGui import QColor, QIcon, QImage, QPainter, QPixmap
from PySide6.QtWidgets import (
    QProxyStyle,
    QPushButton,
    QStyle,
    QStyleHintReturn,
    QStyleOption,
    QStyleOptionComboBox,
    QStyleOptionComplex,
    QToolButton,
    QWidget,
)

from ace_gui.gui.theme import bars, drawn_controls
from ace_gui.gui.theme.tokens import current_theme
from ace_gui.gui.theme.widget_kinds import apply_style, kind_of, paint_ground, state_is

_PE, _CC, _CE = QStyle.PrimitiveElement, QStyle.ComplexControl, QStyle.ControlElement
_SC, _CT, _SH = QStyle.SubControl, QStyle.ContentsType, QStyle.StyleHint
_PM = QStyle.PixelMetric
_FIELD_PADDING: Final = 12  # px above and below a field's text together
_SPIN_ARROWS: Final = (
    (_SC.SC_SpinBoxUp, _PE.PE_IndicatorArrowUp),
    (_SC.SC_SpinBoxDown, _PE.PE_IndicatorArrowDown),
)
_MEASURES: Final = {
    _PM.PM_ScrollBarExtent: 10,
    _PM.PM_ScrollBarSliderMin: bars.SLIDER_LEAST,
    _PM.PM_MenuPanelWidth: 1,
    _PM.PM_MenuHMargin: 4,
    _PM.PM_MenuVMargin: 5,
    _PM.PM_ToolTipLabelFrameWidth: 7,
    _PM.PM_TabBarTabVSpace: 18,
    _PM.PM_TabBarTabShiftVertical: 0,
    _PM.PM_TabBarTabOverlap: 0,
    _PM.PM_TabBarBaseHeight: 0,
    _PM.PM_TabBarBaseOverlap: 0,
    _PM.PM_HeaderMargin: bars.HEADER_MARGIN,
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
    """Transparent."""


def _ground(painter: QPainter, option: QStyleOption, widget: QWidget | None) -> None:
    paint_ground(painter, QRectF(option.rect), kind_of(widget))


def _focus(painter: QPainter, option: QStyleOption, widget: QWidget | None) -> None:
    if state_is(option, "KeyboardFocusChange"):  # as in Fusion: not after a click
        drawn_controls.focus_ring(painter, QRectF(option.rect), widget)


def _tip(painter: QPainter, option: QStyleOption, _widget: QWidget | None) -> None:
    painter.fillRect(option.rect, QColor(current_theme().toast))


def _line_edit(painter: QPainter, option: QStyleOption, widget: QWidget | None) -> None:
    if getattr(option, "lineWidth", 1) > 0:  # that of a spin box has no frame of its own
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
    _PE.PE_IndicatorHeaderArrow: bars.header_arrow,
    _PE.PE_PanelMenu: bars.menu_panel,
    _PE.PE_PanelTipLabel: _tip,
    **{element: _arrow(element) for element in drawn_controls.CHEVRONS},
    **dict.fromkeys(_TRANSPARENT, _nothing),
}
_CONTROLS: Final[dict[QStyle.ControlElement, _Draw]] = {
    _CE.CE_PushButtonBevel: drawn_controls.paint_button,
    _CE.CE_TabBarTabShape: bars.tab_shape,
    _CE.CE_TabBarTabLabel: bars.tab_label,
    _CE.CE_MenuBarItem: bars.menu_bar_item,
    _CE.CE_MenuBarEmptyArea: _nothing,
    _CE.CE_ShapedFrame: bars.text_frame,
    _CE.CE_HeaderSection: _nothing,
    _CE.CE_HeaderEmptyArea: _nothing,
    _CE.CE_ProgressBarGroove: bars.progress_groove,
    _CE.CE_ProgressBarContents: bars.progress_contents,
    _CE.CE_Splitter: _nothing,
}


class WorkbenchStyle(QProxyStyle):
    """Fusion's metrics with the window's own look."""

    def __init__(self) -> None:
        super().__init__("Fusion")

    def polish(self, target: Any) -> Any:
        """Set up a widget once. (Qt calls it for palettes and applications, too.)"""
        if isinstance(target, QWidget):
            apply_style(target)
        return super().polish(target)

    def pixelMetric(
        self,
        metric: QStyle.PixelMetric,
        option: QStyleOption | None = None,
        widget: QWidget | None = None,
    ) -> int:
        found = _MEASURES.get(metric)
        if found is not None:
            return found
        if metric == _PM.PM_TabBarTabHSpace:
            return bars.tab_space(kind_of(widget))
        usual = super().pixelMetric(metric, option, widget)
        return round(usual * drawn_controls.scale()) if metric in _SCALED_METRICS else usual

    def styleHint(
        self,
        hint: QStyle.StyleHint,
        option: QStyleOption | None = None,
        widget: QWidget | None = None,
        returned: QStyleHintReturn | None = None,
    ) -> int:
        found = _HINTS.get(hint)
        return super().styleHint(hint, option, widget, returned) if found is None else found

    def generatedIconPixmap(
        self, mode: QIcon.Mode, pixmap: QPixmap | QImage, option: QStyleOption
    ) -> QPixmap:
        """Do not tint icons of a selected row, because colours identify experts."""
        if mode == QIcon.Mode.Selected:
            return QPixmap(pixmap)
        return super().generatedIconPixmap(mode, pixmap, option)

    def drawPrimitive(
        self,
        element: QStyle.PrimitiveElement,
        option: QStyleOption,
        painter: QPainter,
        widget: QWidget | None = None,
    ) -> None:
        draw = _PRIMITIVES.get(element)
        if draw is None:
            super().drawPrimitive(element, option, painter, widget)
        else:
            draw(painter, option, widget)

    def drawControl(
        self,
        element: QStyle.ControlElement,
        option: QStyleOption,
        painter: QPainter,
        widget: QWidget | None = None,
    ) -> None:
        draw = _CONTROLS.get(element)
        if draw is not None:
            draw(painter, option, widget)
            return
        if element == _CE.CE_PushButtonLabel and isinstance(widget, QPushButton):
            if drawn_controls.button_kind(widget) == "link":  # left-aligned, as a sentence
                option.rect.setWidth(min(widget.sizeHint().width(), option.rect.width()))
        elif element == _CE.CE_HeaderLabel:
            bars.ink_header(option)  # type: ignore[arg-type]
        super().drawControl(element, option, painter, widget)
        if element == _CE.CE_PushButton and state_is(option, "HasFocus"):  # Fusion has no ring
            _focus(painter, option, widget)

    def drawComplexControl(
        self,
        control: QStyle.ComplexControl,
        option: QStyleOptionComplex,
        painter: QPainter,
        widget: QWidget | None = None,
    ) -> None:
        if control == _CC.CC_SpinBox:
            self._draw_spin_box(option, painter, widget)
        elif control == _CC.CC_ScrollBar:
            bars.scroll_bar(painter, option)  # type: ignore[arg-type]
        elif control == _CC.CC_ToolButton and isinstance(widget, QToolButton):
            drawn_controls.paint_button(painter, option, widget)
            inner = type(option)(option)
            margin = 0 if kind_of(widget) in ("fold", "dot") else 5
            inner.rect = option.rect.adjusted(margin, 2, -margin, -2)
            self.drawControl(_CE.CE_ToolButtonLabel, inner, painter, widget)
            if state_is(option, "HasFocus"):
                _focus(painter, option, widget)
        elif isinstance(option, QStyleOptionComboBox) and option.frame:
            drawn_controls.field(painter, option, widget)
            arrow, element = _SC.SC_ComboBoxArrow, _PE.PE_IndicatorArrowDown
            rect = self.subControlRect(control, option, arrow, widget)
            enabled = state_is(option, "Enabled")
            drawn_controls.chevron(painter, QRectF(rect), element, enabled=enabled)
        else:
            super().drawComplexControl(control, option, painter, widget)

    def _draw_spin_box(
        self, option: QStyleOptionComplex, painter: QPainter, widget: QWidget | None
    ) -> None:
        drawn_controls.field(painter, option, widget)
        if state_is(option, "MouseOver") or state_is(option, "HasFocus"):
            for sub, element in _SPIN_ARROWS:
                rect = self.subControlRect(_CC.CC_SpinBox, option, sub, widget)
                enabled = state_is(option, "Enabled")
                drawn_controls.chevron(painter, QRectF(rect), element, enabled=enabled, size=0.8)

    def subControlRect(
        self,
        control: QStyle.ComplexControl,
        option: QStyleOptionComplex,
        part: QStyle.SubControl,
        widget: QWidget | None = None,
    ) -> QRect:
        if control == _CC.CC_ScrollBar:
            return bars.scroll_bar_part(option, part)  # type: ignore[arg-type]
        return super().subControlRect(control, option, part, widget)  # type: ignore[arg-type]

    def sizeFromContents(
        self,
        kind: QStyle.ContentsType,
        option: QStyleOption,
        size: QSize,
        widget: QWidget | None = None,
    ) -> QSize:
        if kind == _CT.CT_PushButton:
            return drawn_controls.push_button_size(size, widget)
        if kind == _CT.CT_ToolButton:
            return size + QSize(*drawn_controls.TOOL_PADDING)
        if kind == _CT.CT_MenuBarItem:
            return size + QSize(18, 12)
        found = super().sizeFromContents(kind, option, size, widget)  # type: ignore[arg-type]
        if kind in (_CT.CT_SpinBox, _CT.CT_ComboBox):
            found.setHeight(max(found.height(), option.fontMetrics.height() + _FIELD_PADDING))
        return found
