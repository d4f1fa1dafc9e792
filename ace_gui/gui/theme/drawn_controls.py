"""The style's drawing of buttons: background, border and text colour."""

from __future__ import annotations

from typing import Final, NamedTuple

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QColor, QPainter, QPalette, QPen
from PySide6.QtWidgets import QPushButton, QStyleOption, QStyleOptionButton, QWidget

from ace_gui.gui.theme.painting import RADIUS, rounded
from ace_gui.gui.theme.scheme import current_theme
from ace_gui.gui.theme.tokens import Tokens
from ace_gui.gui.theme.widget_kinds import kind_of, state_is

_CLEAR: Final = ""  # transparent
_PADDING: Final = {"link": (8, 4), "segment": (22, 8), "on-toast": (8, 4)}  # px, both sides
_USUAL_PADDING: Final = (30, 14)
TOOL_PADDING: Final = (14, 8)


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


def is_left_aligned(widget: QWidget | None) -> bool:
    """Whether a button's text is left-aligned, as that of a sentence."""
    return button_kind(widget) == "link"


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
