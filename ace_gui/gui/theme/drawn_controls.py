"""The style's drawing of controls: arrows, check boxes, focus rings, fields, buttons."""

from __future__ import annotations

from typing import Final, NamedTuple

from PySide6.QtCore import QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPalette, QPen
from PySide6.QtWidgets import (
    QAbstractItemView,
    QPushButton,
    QStyle,
    QStyleOption,
    QStyleOptionButton,
    QWidget,
)

from ace_gui.gui.theme.painting import RADIUS, rounded
from ace_gui.gui.theme.tokens import Tokens, current_theme
from ace_gui.gui.theme.type_scale import Face, face
from ace_gui.gui.theme.widget_kinds import kind_of, state_is

_PE = QStyle.PrimitiveElement
_CHECK: Final = ((0.24, 0.52), (0.43, 0.71), (0.77, 0.31))  # in parts of the box
CHEVRONS: Final = {
    _PE.PE_IndicatorArrowDown: ((-3.5, -1.75), (0.0, 1.75), (3.5, -1.75)),
    _PE.PE_IndicatorArrowUp: ((-3.5, 1.75), (0.0, -1.75), (3.5, 1.75)),
    _PE.PE_IndicatorArrowRight: ((-1.75, -3.5), (1.75, 0.0), (-1.75, 3.5)),
    _PE.PE_IndicatorArrowLeft: ((1.75, -3.5), (-1.75, 0.0), (1.75, 3.5)),
}
_CLEAR: Final = ""  # transparent
_PADDING: Final = {"link": (8, 4), "segment": (22, 8), "on-toast": (8, 4)}  # px, both sides
_USUAL_PADDING: Final = (30, 14)
TOOL_PADDING: Final = (14, 8)


def chevron(
    painter: QPainter,
    rect: QRectF,
    element: QStyle.PrimitiveElement,
    *,
    enabled: bool = True,
    size: float = 1.0,
) -> None:
    """An arrow of two strokes in the middle of ``rect``."""
    theme = current_theme()
    size *= scale()
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    _round_pen(painter, theme.text2 if enabled else theme.text3, 1.4 * size)
    middle = rect.center()
    painter.drawPolyline([middle + QPointF(x, y) * size for x, y in CHEVRONS[element]])
    painter.restore()


def focus_ring(painter: QPainter, rect: QRectF, widget: QWidget | None) -> None:
    """Two pixels wide, inside the control; on a filled button in its text colour."""
    theme = current_theme()
    filled = isinstance(widget, QPushButton) and (
        kind_of(widget) in ("primary", "again") or widget.isDefault()
    )
    colour = theme.on_accent if filled and kind_of(widget) != "again" else theme.accent
    if kind_of(widget.parentWidget() if widget is not None else None) == "toast":
        colour = theme.toast_action
    inset = 2.0 if filled else 0.0
    if isinstance(widget, QPushButton):  # its padding would move it inwards
        rect = QRectF(widget.rect())
    corner = 2.0 if isinstance(widget, QAbstractItemView) else 4.0
    room = rect.adjusted(inset, inset, -inset, -inset)
    rounded(painter, room, border=colour, width=2.0, corner=corner)


def field(painter: QPainter, option: QStyleOption, widget: QWidget | None) -> None:
    """The background and the border of an input field."""
    theme = current_theme()
    enabled, focused = state_is(option, "Enabled"), state_is(option, "HasFocus")
    wrong = widget is not None and bool(widget.property("invalid"))
    width = 2.0 if enabled and (focused or wrong) else 1.0
    rest = theme.control if enabled and state_is(option, "MouseOver") else theme.edge
    border = theme.bad if wrong else theme.accent if enabled and focused else rest
    rounded(painter, QRectF(option.rect), theme.field if enabled else "", border, width=width)


def check_box(painter: QPainter, option: QStyleOption) -> None:
    """A tick if checked, a dash if partially checked."""
    theme, box = current_theme(), _box(option)
    on = state_is(option, "On") or state_is(option, "NoChange")
    enabled = state_is(option, "Enabled")
    _mark_ground(painter, option, on=on)
    painter.drawRoundedRect(box, 3.0, 3.0)
    if on:
        shape = ((0.25, 0.5), (0.75, 0.5)) if state_is(option, "NoChange") else _CHECK
        tick(painter, box, theme.on_accent if enabled else theme.text3, shape)
    painter.restore()


def tick(
    painter: QPainter, box: QRectF, colour: str, shape: tuple[tuple[float, float], ...] = _CHECK
) -> None:
    """A tick in a box; the painter keeps its pen."""
    _round_pen(painter, colour, 1.8)
    x, y, side = box.left(), box.top(), box.width()
    painter.drawPolyline([QPointF(x + a * side, y + b * side) for a, b in shape])


def radio_button(painter: QPainter, option: QStyleOption) -> None:
    """A circle, with a dot if checked."""
    theme, box = current_theme(), _box(option)
    on, enabled = state_is(option, "On"), state_is(option, "Enabled")
    _mark_ground(painter, option, on=on)
    painter.drawEllipse(box)
    if on:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(theme.on_accent if enabled else theme.text3))
        painter.drawEllipse(box.center(), box.width() / 5, box.width() / 5)
    painter.restore()


def branch(painter: QPainter, option: QStyleOption) -> None:
    """The arrow of a tree row with children."""
    if state_is(option, "Children"):
        arrows = (_PE.PE_IndicatorArrowRight, _PE.PE_IndicatorArrowDown)
        chevron(painter, QRectF(option.rect), arrows[state_is(option, "Open")])


def scale() -> float:
    """The font size relative to normal, by which marks are scaled."""
    return max(QFontMetrics(face(Face.BODY)).height() / 16.0, 1.0)


def _round_pen(painter: QPainter, colour: str, width: float) -> None:
    pen = QPen(QColor(colour), width)
    pen.setCapStyle(Qt.PenCapStyle.RoundCap)
    pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    painter.setPen(pen)


def _box(option: QStyleOption) -> QRectF:
    side = min(option.rect.width(), option.rect.height())
    square = QRect(0, 0, side, side)
    square.moveCenter(option.rect.center())
    return QRectF(square).adjusted(0.5, 0.5, -0.5, -0.5)


def _mark_ground(painter: QPainter, option: QStyleOption, *, on: bool) -> None:
    """Pen and brush of a mark that is on or off; the caller restores the painter."""
    theme = current_theme()
    enabled = state_is(option, "Enabled")
    focused = state_is(option, "HasFocus")
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    filled = on and enabled
    frame = theme.text if focused else theme.accent if filled else theme.control
    painter.setPen(QPen(QColor(frame if enabled else theme.edge), 2.0 if focused else 1.0))
    painter.setBrush(QColor(theme.accent if filled else theme.field))


class ButtonColours(NamedTuple):
    """Colours; an empty one is not painted."""

    ground: str
    border: str
    ink: str


def button_kind(widget: QWidget | None) -> str:
    """A button's kind; "segment" and "on-toast" depend on its parent."""
    around = kind_of(widget.parentWidget() if widget is not None else None)
    if around == "segments":
        return "segment"
    return "on-toast" if around == "toast" else kind_of(widget)


def push_button_size(size: QSize, widget: QWidget | None) -> QSize:
    """``size``: of the text and the icon."""
    across, down = _PADDING.get(button_kind(widget), _USUAL_PADDING)
    return size + QSize(across, down)


def paint_button(painter: QPainter, option: QStyleOption, widget: QWidget | None) -> None:
    """The background of a push button."""
    colours, kind = _push_colours(option, widget), button_kind(widget)
    corner = 4.0 if kind == "segment" else RADIUS
    rounded(painter, QRectF(option.rect), colours.ground, colours.border, corner=corner)


def set_button_text_colour(option: QStyleOptionButton, widget: QWidget | None) -> None:
    """Set the text colour of a button."""
    palette = option.palette
    palette.setColor(QPalette.ColorRole.ButtonText, QColor(_push_colours(option, widget).ink))
    option.palette = palette


def paint_tool_button(painter: QPainter, option: QStyleOption, widget: QWidget | None) -> None:
    """The background of a tool button, and its text colour in the option."""
    kind, colours = kind_of(widget), _tool_look(option, widget)
    corner = 0.0 if kind in ("row", "next-row") else RADIUS
    rounded(painter, QRectF(option.rect), colours.ground, colours.border, corner=corner)
    if kind == "next-row":
        painter.setPen(QPen(QColor(current_theme().line), 1.0))
        painter.drawLine(option.rect.topLeft(), option.rect.topRight())
    palette = option.palette
    palette.setColor(QPalette.ColorRole.ButtonText, QColor(colours.ink))
    option.palette = palette


def _push_colours(option: QStyleOption, widget: QWidget | None) -> ButtonColours:
    theme, kind = current_theme(), button_kind(widget)
    enabled, over = state_is(option, "Enabled"), state_is(option, "MouseOver")
    down, on = state_is(option, "Sunken"), state_is(option, "On")
    if kind == "" and isinstance(widget, QPushButton) and widget.isDefault():
        kind = "primary"
    if not enabled:
        return _disabled(theme, kind)
    match kind:
        case "primary":
            ground = theme.accent_hover if over or down else theme.accent
            return ButtonColours(ground, ground, theme.on_accent)
        case "start":
            return ButtonColours(theme.card, theme.control if over else theme.card, theme.text)
        case "again":
            return ButtonColours(theme.hover if over else theme.warn_ground, theme.warn, theme.warn)
        case "tinted":
            border = theme.accent if over else theme.tint
            return ButtonColours(theme.tint, border, theme.accent_on_tint)
        case "ghost":
            return ButtonColours(
                theme.tint if down else theme.hover if over else _CLEAR, _CLEAR, theme.text2
            )
        case "link":
            return ButtonColours(_CLEAR, _CLEAR, theme.accent_hover if over else theme.accent)
        case "on-toast":
            return ButtonColours(_CLEAR, _CLEAR, theme.toast_text if over else theme.toast_action)
        case "segment":
            ink = theme.text if on or over else theme.text2
            return ButtonColours(theme.raised if on else _CLEAR, _CLEAR, ink)
    ground = theme.tint if down or on else theme.hover if over else theme.raised
    return ButtonColours(ground, theme.edge, theme.bad if kind == "destructive" else theme.text)


def _disabled(theme: Tokens, kind: str) -> ButtonColours:
    if kind == "primary":
        # captions are too pale on this background
        return ButtonColours(theme.hover, _CLEAR, theme.text2)
    if kind in ("ghost", "link", "segment", "on-toast"):
        return ButtonColours(_CLEAR, _CLEAR, theme.text3)
    return ButtonColours(_CLEAR, theme.line, theme.text3)


def _tool_look(option: QStyleOption, widget: QWidget | None) -> ButtonColours:
    theme, kind = current_theme(), kind_of(widget)
    on_toast = button_kind(widget) == "on-toast"
    enabled, over = state_is(option, "Enabled"), state_is(option, "MouseOver")
    down = state_is(option, "Sunken")
    on = state_is(option, "On") and kind != "fold"
    if on_toast:
        return ButtonColours(_CLEAR, _CLEAR, theme.toast_text if over else theme.toast_action)
    if not enabled:
        return ButtonColours(_CLEAR, _CLEAR, theme.text3)
    ink = theme.accent if kind == "link" else theme.accent_on_tint if on else theme.text2
    return ButtonColours(theme.tint if on or down else theme.hover if over else _CLEAR, _CLEAR, ink)
