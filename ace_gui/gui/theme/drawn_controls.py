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
    QWidget,
)

from ace_gui.gui.theme.painting import RADIUS, rounded
from ace_gui.gui.theme.tokens import current_theme
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


def check_box(painter: QPainter, option: QStyleOption, _widget: QWidget | None) -> None:
    """A tick if checked, a dash if partially checked."""
    theme = current_theme()
    side = min(option.rect.width(), option.rect.height())
    square = QRect(0, 0, side, side)
    square.moveCenter(option.rect.center())
    box = QRectF(square).adjusted(0.5, 0.5, -0.5, -0.5)
    on = state_is(option, "On") or state_is(option, "NoChange")
    enabled, focused = state_is(option, "Enabled"), state_is(option, "HasFocus")
    filled = on and enabled
    frame = theme.text if focused else theme.accent if filled else theme.control
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(QColor(frame if enabled else theme.edge), 2.0 if focused else 1.0))
    painter.setBrush(QColor(theme.accent if filled else theme.field))
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


def branch(painter: QPainter, option: QStyleOption, _widget: QWidget | None) -> None:
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


class _Look(NamedTuple):
    """Names of tokens, "" for transparent; "/" separates rest, under the pointer, and pressed."""

    ground: str = ""
    border: str = ""
    ink: str = "text2"


_PUSH: Final = {
    "primary": _Look("accent/accent_hover", "accent/accent_hover", "on_accent"),
    "start": _Look("card", "card/control", "text"),
    "again": _Look("warn_ground/hover", "warn", "warn"),
    "tinted": _Look("tint", "tint/accent", "accent_on_tint"),
    "ghost": _Look("/hover/tint"),
    "link": _Look(ink="accent/accent_hover"),
    "on-toast": _Look(ink="toast_action/toast_text"),
    "segment": _Look("//raised", ink="text2/text"),
    "destructive": _Look("raised/hover/tint", "edge", "bad"),
}
_USUAL_PUSH: Final = _Look("raised/hover/tint", "edge", "text")
_TOOL: Final = {"link": _Look("/hover/tint", ink="accent"), "on-toast": _PUSH["on-toast"]}
_USUAL_TOOL: Final = _Look("/hover/tint", ink="text2//accent_on_tint")
_DISABLED: Final = {"primary": _Look("hover", "", "text2")}  # captions are too pale on it
_BARE: Final = {"ghost", "link", "segment", "on-toast"}  # without a border
_SQUARE: Final = {"row", "next-row"}


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
    """The background of a button, and its text colour in the option."""
    look, kind = _look(option, widget), button_kind(widget)
    over = state_is(option, "MouseOver")
    down = state_is(option, "Sunken") or (state_is(option, "On") and kind != "fold")

    def colour(names: str) -> str:
        states = names.split("/")
        name = states[min(2 if down else int(over), len(states) - 1)]
        return getattr(current_theme(), name) if name else ""

    corner = 4.0 if kind == "segment" else 0.0 if kind in _SQUARE else RADIUS
    rounded(painter, QRectF(option.rect), colour(look.ground), colour(look.border), corner=corner)
    if kind == "next-row":
        painter.setPen(QPen(QColor(current_theme().line), 1.0))
        painter.drawLine(option.rect.topLeft(), option.rect.topRight())
    palette = option.palette
    palette.setColor(QPalette.ColorRole.ButtonText, QColor(colour(look.ink)))
    option.palette = palette


def _look(option: QStyleOption, widget: QWidget | None) -> _Look:
    kind, enabled = button_kind(widget), state_is(option, "Enabled")
    if not isinstance(widget, QPushButton):
        return _TOOL.get(kind, _USUAL_TOOL) if enabled else _Look(ink="text3")
    kind = kind or ("primary" if widget.isDefault() else "")
    if enabled:
        return _PUSH.get(kind, _USUAL_PUSH)
    return _DISABLED.get(kind, _Look("", "" if kind in _BARE else "line", "text3"))
