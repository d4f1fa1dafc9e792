"""What a style sheet cannot draw: fields, check boxes, arrows, branches of a tree, focus rings.

A sheet would need image files for them, which follow neither colour nor pixel ratio. Fusion lies
below, so that every platform gives the same measures.
"""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPen
from PySide6.QtWidgets import (
    QProxyStyle,
    QPushButton,
    QStyle,
    QStyleOption,
    QStyleOptionComboBox,
    QStyleOptionComplex,
    QWidget,
)

from ace_gui.gui.theme.scheme import current_theme
from ace_gui.gui.theme.type_scale import Face, face

RADIUS: Final = 6.0  # px, of fields and buttons
_PE, _CC, _State = QStyle.PrimitiveElement, QStyle.ComplexControl, QStyle.StateFlag
_SC, _CT = QStyle.SubControl, QStyle.ContentsType
_FIELD_PADDING: Final = 12  # px, above and below the words of a field together
_CHECK: Final = ((0.24, 0.52), (0.43, 0.71), (0.77, 0.31))  # in parts of the box
_CHEVRONS: Final = {
    _PE.PE_IndicatorArrowDown: ((-3.5, -1.75), (0.0, 1.75), (3.5, -1.75)),
    _PE.PE_IndicatorArrowUp: ((-3.5, 1.75), (0.0, -1.75), (3.5, 1.75)),
    _PE.PE_IndicatorArrowRight: ((-1.75, -3.5), (1.75, 0.0), (-1.75, 3.5)),
    _PE.PE_IndicatorArrowLeft: ((1.75, -3.5), (-1.75, 0.0), (1.75, 3.5)),
}
_SPIN_ARROWS: Final = (
    (_SC.SC_SpinBoxUp, _PE.PE_IndicatorArrowUp),
    (_SC.SC_SpinBoxDown, _PE.PE_IndicatorArrowDown),
)


class WorkbenchStyle(QProxyStyle):
    """Fusion with the marks of the window's own."""

    def __init__(self) -> None:
        super().__init__("Fusion")

    def drawPrimitive(
        self,
        element: QStyle.PrimitiveElement,
        option: QStyleOption,
        painter: QPainter,
        widget: QWidget | None = None,
    ) -> None:
        match element:
            case _PE.PE_FrameFocusRect:
                if _is(option, "KeyboardFocusChange"):  # as Fusion: not after a click
                    _focus_ring(painter, QRectF(option.rect), widget)
            case _PE.PE_PanelLineEdit:
                _line_edit(painter, option, widget)
            case _PE.PE_IndicatorCheckBox | _PE.PE_IndicatorItemViewItemCheck:
                _check_box(painter, option)
            case _PE.PE_IndicatorRadioButton:
                _radio_button(painter, option)
            case _PE.PE_IndicatorBranch:
                _branch(painter, option)
            case _ if element in _CHEVRONS:
                chevron(painter, QRectF(option.rect), element, enabled=_is(option, "Enabled"))
            case _:
                super().drawPrimitive(element, option, painter, widget)

    def sizeFromContents(
        self,
        kind: QStyle.ContentsType,
        option: QStyleOption,
        size: QSize,
        widget: QWidget | None = None,
    ) -> QSize:
        found = super().sizeFromContents(kind, option, size, widget)  # type: ignore[arg-type]
        if kind in (_CT.CT_SpinBox, _CT.CT_ComboBox):
            found.setHeight(max(found.height(), option.fontMetrics.height() + _FIELD_PADDING))
        return found

    def drawComplexControl(
        self,
        control: QStyle.ComplexControl,
        option: QStyleOptionComplex,
        painter: QPainter,
        widget: QWidget | None = None,
    ) -> None:
        if control == _CC.CC_SpinBox:
            _field(painter, option, widget)
            if _is(option, "MouseOver") or _is(option, "HasFocus"):
                for sub, element in _SPIN_ARROWS:
                    place = self.subControlRect(control, option, sub, widget)  # type: ignore[arg-type]
                    enabled = _is(option, "Enabled")
                    chevron(painter, QRectF(place), element, enabled=enabled, size=0.8)
        elif control == _CC.CC_ComboBox and _has_frame(option):
            _field(painter, option, widget)
            arrow, element = _SC.SC_ComboBoxArrow, _PE.PE_IndicatorArrowDown
            place = self.subControlRect(control, option, arrow, widget)  # type: ignore[arg-type]
            chevron(painter, QRectF(place), element, enabled=_is(option, "Enabled"))
        else:
            super().drawComplexControl(control, option, painter, widget)


def chevron(
    painter: QPainter,
    place: QRectF,
    element: QStyle.PrimitiveElement,
    *,
    enabled: bool = True,
    size: float = 1.0,
) -> None:
    """An arrow of two strokes in the middle of ``place``."""
    theme = current_theme()
    size *= _scale()
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    pen = QPen(QColor(theme.text2 if enabled else theme.text3), 1.4 * size)
    pen.setCapStyle(Qt.PenCapStyle.RoundCap)
    pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    painter.setPen(pen)
    middle = place.center()
    painter.drawPolyline([middle + QPointF(x, y) * size for x, y in _CHEVRONS[element]])
    painter.restore()


def _scale() -> float:
    """How much larger than usual the letters are: marks beside them grow along."""
    return max(QFontMetrics(face(Face.BODY)).height() / 16.0, 1.0)


def _is(option: QStyleOption, state: str) -> bool:
    return bool(option.state & getattr(_State, f"State_{state}"))


def _has_frame(option: QStyleOptionComplex) -> bool:
    return isinstance(option, QStyleOptionComboBox) and option.frame


def _focus_ring(painter: QPainter, place: QRectF, widget: QWidget | None) -> None:
    """Two pixels wide, within the control; on a filled button in the ink of its words."""
    theme = current_theme()
    filled = widget is not None and widget.property("kind") in ("primary", "again")
    colour = theme.on_accent if filled else theme.accent
    inset = 3.0 if filled else 1.0
    if isinstance(widget, QPushButton):  # a sheet's padding would move it inwards
        place = QRectF(widget.rect())
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(QColor(colour), 2.0))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawRoundedRect(place.adjusted(inset, inset, -inset, -inset), 4.0, 4.0)
    painter.restore()


def _field(painter: QPainter, option: QStyleOption, widget: QWidget | None) -> None:
    """The ground and the border of what a person writes into or chooses from."""
    theme = current_theme()
    enabled, focused = _is(option, "Enabled"), _is(option, "HasFocus")
    wrong = widget is not None and bool(widget.property("invalid"))
    width = 2.0 if enabled and (focused or wrong) else 1.0
    rest = theme.control if enabled and _is(option, "MouseOver") else theme.edge
    border = theme.bad if wrong else theme.accent if enabled and focused else rest
    inset = width / 2
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(QColor(border), width))
    painter.setBrush(QColor(theme.field) if enabled else Qt.BrushStyle.NoBrush)
    painter.drawRoundedRect(
        QRectF(option.rect).adjusted(inset, inset, -inset, -inset), RADIUS, RADIUS
    )
    painter.restore()


def _line_edit(painter: QPainter, option: QStyleOption, widget: QWidget | None) -> None:
    if getattr(option, "lineWidth", 1) > 0:  # that of a spin box has no frame of its own
        _field(painter, option, widget)


def _box(option: QStyleOption) -> QRectF:
    side = min(option.rect.width(), option.rect.height())
    square = QRect(0, 0, side, side)
    square.moveCenter(option.rect.center())
    return QRectF(square).adjusted(0.5, 0.5, -0.5, -0.5)


def _check_box(painter: QPainter, option: QStyleOption) -> None:
    theme, box = current_theme(), _box(option)
    on, enabled = _is(option, "On") or _is(option, "NoChange"), _is(option, "Enabled")
    _mark_ground(painter, option, on=on)
    painter.drawRoundedRect(box, 3.0, 3.0)
    if on:
        pen = QPen(QColor(theme.on_accent if enabled else theme.text3), 1.8)
        pen.setCapStyle(Qt.PenCapStyle.RoundCap)
        pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
        painter.setPen(pen)
        shape = ((0.25, 0.5), (0.75, 0.5)) if _is(option, "NoChange") else _CHECK
        x, y, side = box.left(), box.top(), box.width()
        painter.drawPolyline([QPointF(x + a * side, y + b * side) for a, b in shape])
    painter.restore()


def _radio_button(painter: QPainter, option: QStyleOption) -> None:
    theme, box = current_theme(), _box(option)
    on, enabled = _is(option, "On"), _is(option, "Enabled")
    _mark_ground(painter, option, on=on)
    painter.drawEllipse(box)
    if on:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(theme.on_accent if enabled else theme.text3))
        painter.drawEllipse(box.center(), box.width() / 5, box.width() / 5)
    painter.restore()


def _mark_ground(painter: QPainter, option: QStyleOption, *, on: bool) -> None:
    """Pen and brush of a mark that is on or off; the caller restores the painter."""
    theme = current_theme()
    enabled = _is(option, "Enabled")
    focused = _is(option, "HasFocus")
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    filled = on and enabled
    frame = theme.text if focused else theme.accent if filled else theme.control
    painter.setPen(QPen(QColor(frame if enabled else theme.edge), 2.0 if focused else 1.0))
    painter.setBrush(QColor(theme.accent if filled else theme.field))


def _branch(painter: QPainter, option: QStyleOption) -> None:
    if _is(option, "Children"):
        arrows = (_PE.PE_IndicatorArrowRight, _PE.PE_IndicatorArrowDown)
        chevron(painter, QRectF(option.rect), arrows[_is(option, "Open")])
