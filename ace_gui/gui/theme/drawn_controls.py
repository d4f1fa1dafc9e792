"""The look of a widget by its property ``kind``, and the drawing of arrows, check boxes, focus
rings, fields and buttons.

``kind`` is set before the widget is first shown. It names a label's text colour, a container's
background, or a button's emphasis. The colours are palette roles, so Qt's repaint after a scheme
change is enough.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from PySide6.QtCore import QEvent, QObject, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPalette, QPen
from PySide6.QtWidgets import (
    QAbstractItemView,
    QAbstractSpinBox,
    QComboBox,
    QFrame,
    QHeaderView,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QStyle,
    QStyleOption,
    QTextEdit,
    QWidget,
)

from ace_gui.gui.theme.painting import RADIUS, rounded
from ace_gui.gui.theme.tokens import Face, current_theme, face

_Role = QPalette.ColorRole


class _ControlKind(NamedTuple):
    """``ground``: the token of the background, "" for transparent. ``ink`` and ``padding`` (in px)
    are for labels. ``corner``: the radius in px, None for half the height.
    """

    ground: str = ""
    ink: QPalette.ColorRole | None = None
    corner: float | None = 8.0
    padding: tuple[int, int] | None = None


_KINDS: Final = {
    "card": _ControlKind("card"),
    "sunk": _ControlKind("sunk"),
    "toast": _ControlKind("toast"),
    "side": _ControlKind("sunk", corner=0.0),
    "foot": _ControlKind("card", corner=0.0),
    "card-dialog": _ControlKind("card", corner=0.0),
    "segments": _ControlKind("hover", corner=6.0),
    "pill": _ControlKind("tint", _Role.LinkVisited, None, (9, 3)),
    "warn-pill": _ControlKind("warn_ground", _Role.Shadow, None, (9, 4)),
    "quiet-pill": _ControlKind("sunk", _Role.Mid, None, (9, 3)),
    "caption": _ControlKind(ink=_Role.PlaceholderText),
    "secondary": _ControlKind(ink=_Role.Mid),
    "warn": _ControlKind(ink=_Role.Shadow),
    "bad": _ControlKind(ink=_Role.BrightText),
    "accent": _ControlKind(ink=_Role.Link),
    "on-toast": _ControlKind(ink=_Role.ToolTipText),
}
_FIELD_MARGINS: Final = (5, 3, 5, 3)


def kind_of(widget: QWidget | None) -> str:
    """The widget's kind, or an empty string."""
    if widget is not None:
        return str(widget.property("kind") or "")
    return ""


def change_kind(widget: QWidget, kind: str) -> None:
    """Change the kind of a widget that was shown before."""
    if kind_of(widget) != kind:
        widget.setProperty("kind", kind)
        apply_style(widget)
        widget.updateGeometry()
        widget.update()


def paint_ground(painter: QPainter, rect: QRectF, kind: str) -> None:
    """Paint the background of a widget of this kind."""
    look = _KINDS.get(kind, _ControlKind())
    if not look.ground:
        return
    if look.corner is None:
        corner = rect.height() / 2
    else:
        corner = look.corner
    rounded(painter, rect, look.ground, corner=corner)
    if kind == "foot":
        rounded(painter, QRectF(rect.left(), rect.top(), rect.width(), 1), "line", corner=0.0)


def apply_style(widget: QWidget) -> None:
    """Set up a widget's look once, for every scheme."""
    kind = kind_of(widget)
    look = _KINDS.get(kind, _ControlKind())
    if look.ground and not isinstance(widget, QAbstractItemView):
        widget.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
    if isinstance(widget, QLabel):
        if look.ink is not None:
            widget.setForegroundRole(look.ink)
        if look.padding is not None:
            widget.setContentsMargins(*look.padding, *look.padding)
    elif isinstance(widget, QAbstractSpinBox):
        _select_whole_number(widget)
    elif isinstance(widget, QAbstractItemView):
        _style_view(widget, kind)
    elif isinstance(widget, QScrollArea):
        for part in (widget.viewport(), widget.widget()):
            _let_through(part)
    elif isinstance(widget, QPlainTextEdit | QTextEdit):
        if widget.frameShape() == QFrame.Shape.StyledPanel:  # its frame is the round background
            _let_through(widget.viewport())
    elif isinstance(widget, QLineEdit) and not _is_inner(widget):
        widget.setTextMargins(*_FIELD_MARGINS)
        if widget.validator() is not None:
            _select_whole_number(widget)


def _let_through(widget: QWidget | None) -> None:
    if widget is not None:
        widget.setAutoFillBackground(False)


def _style_view(view: QAbstractItemView, kind: str) -> None:
    if isinstance(view, QHeaderView):
        view.setFont(face(Face.CAPTION))
        kind = kind_of(view.parentWidget())
    elif view.frameStyle() != QFrame.Shape.NoFrame and not view.window().inherits("QComboBox"):
        view.setFrameShape(QFrame.Shape.NoFrame)
    if kind == "ground":
        _let_through(view.viewport())
    else:
        view.viewport().setBackgroundRole(_Role.AlternateBase if kind == "sunk" else _Role.Light)


def _is_inner(field: QLineEdit) -> bool:
    """Whether the field is a part of another one, or the editor of a cell."""
    parent = field.parentWidget()
    if isinstance(parent, QAbstractSpinBox | QComboBox):
        return True
    if parent is not None:
        view = parent.parentWidget()
    else:
        view = None
    return isinstance(view, QAbstractItemView)


def state_is(option: object, state: str) -> bool:
    """Whether a style option has this state: "Enabled", "HasFocus", "MouseOver" …"""
    return bool(option.state & getattr(QStyle.StateFlag, f"State_{state}"))  # type: ignore[attr-defined]


class _WholeNumber(QObject):
    """Makes a double click on a number select the whole number, so that typing replaces it."""

    _pressed = False

    def __init__(self, line: QLineEdit) -> None:
        super().__init__(line)
        line.installEventFilter(self)

    def eventFilter(self, line: QObject, event: QEvent) -> bool:
        """Select at the second press, and ignore small movements before the release."""
        kind = event.type()
        if kind == QEvent.Type.MouseButtonDblClick:
            self._pressed = True
            box = line.parent()
            if not isinstance(box, QAbstractSpinBox):
                box = line
            assert isinstance(box, QAbstractSpinBox | QLineEdit)
            box.setFocus()
            box.selectAll()
            return True
        if kind == QEvent.Type.MouseButtonRelease:
            self._pressed = False
        return kind == QEvent.Type.MouseMove and self._pressed


def _select_whole_number(box: QAbstractSpinBox | QLineEdit) -> None:
    """Let a double click select the number in a box. More than one call does no harm."""
    if isinstance(box, QAbstractSpinBox):
        line = box.lineEdit()
    else:
        line = box
    if line.findChild(_WholeNumber) is None:
        _WholeNumber(line)


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
    """Paint an arrow of two strokes in the middle of ``rect``."""
    size *= scale()
    points = [rect.center() + QPointF(x, y) * size for x, y in CHEVRONS[element]]
    _stroke(painter, points, "text2" if enabled else "text3", 1.4 * size)


def focus_ring(painter: QPainter, rect: QRectF, widget: QWidget | None) -> None:
    """Paint a ring of two pixels inside the control, on a filled button in its text colour."""
    filled = isinstance(widget, QPushButton) and (
        kind_of(widget) in ("primary", "again") or widget.isDefault()
    )
    if filled and kind_of(widget) != "again":
        colour = "on_accent"
    else:
        colour = "accent"
    if kind_of(widget.parentWidget() if widget is not None else None) == "toast":
        colour = "toast_action"
    inset = 2.0 if filled else 0.0
    if isinstance(widget, QPushButton):  # its padding would move it inwards
        rect = QRectF(widget.rect())
    if isinstance(widget, QAbstractItemView):
        corner = 2.0
    else:
        corner = 4.0
    room = rect.adjusted(inset, inset, -inset, -inset)
    rounded(painter, room, border=colour, width=2.0, corner=corner)


def field(painter: QPainter, option: QStyleOption, widget: QWidget | None) -> None:
    """Paint the background and the border of an input field."""
    enabled = state_is(option, "Enabled")
    focused = state_is(option, "HasFocus")
    wrong = widget is not None and bool(widget.property("invalid"))
    if enabled and (focused or wrong):
        width = 2.0
    else:
        width = 1.0
    if enabled and state_is(option, "MouseOver"):
        unfocused = "control"
    else:
        unfocused = "edge"
    if wrong:
        border = "bad"
    elif enabled and focused:
        border = "accent"
    else:
        border = unfocused
    rounded(painter, QRectF(option.rect), "field" if enabled else "", border, width=width)


def check_box(painter: QPainter, option: QStyleOption, _widget: QWidget | None) -> None:
    """Paint a box, with a tick if it is checked, with a dash if it is partially checked."""
    side = min(option.rect.width(), option.rect.height())
    square = QRect(0, 0, side, side)
    square.moveCenter(option.rect.center())
    box = QRectF(square)
    on = state_is(option, "On") or state_is(option, "NoChange")
    enabled = state_is(option, "Enabled")
    focused = state_is(option, "HasFocus")
    filled = on and enabled
    if focused:
        frame = "text"
    elif filled:
        frame = "accent"
    else:
        frame = "control"
    if filled:
        ground = "accent"
    else:
        ground = "field"
    width = 2.0 if focused else 1.0
    rounded(painter, box, ground, frame if enabled else "edge", width=width, corner=3.0)
    if on:
        shape = ((0.25, 0.5), (0.75, 0.5)) if state_is(option, "NoChange") else _CHECK
        points = [box.topLeft() + QPointF(x, y) * side for x, y in shape]
        _stroke(painter, points, "on_accent" if enabled else "text3", 1.8)


def branch(painter: QPainter, option: QStyleOption, _widget: QWidget | None) -> None:
    """Paint the arrow of a tree row with children."""
    if state_is(option, "Children"):
        arrows = (_PE.PE_IndicatorArrowRight, _PE.PE_IndicatorArrowDown)
        chevron(painter, QRectF(option.rect), arrows[state_is(option, "Open")])


def scale() -> float:
    """The font size relative to the normal one; marks are scaled by it."""
    return max(QFontMetrics(face(Face.BODY)).height() / 16.0, 1.0)


def _stroke(painter: QPainter, points: list[QPointF], colour: str, width: float) -> None:
    """Paint a line through these points, with round ends."""
    pen = QPen(QColor(current_theme().colour(colour)), width)
    pen.setCapStyle(Qt.PenCapStyle.RoundCap)
    pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(pen)
    painter.drawPolyline(points)
    painter.restore()


class _Look(NamedTuple):
    """Names of tokens, "" for transparent; "/" separates normal, under the pointer, pressed."""

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
_USUAL_TOOL: Final = _Look("/hover/tint", ink="text2/text/accent_on_tint")
_DISABLED: Final = {"primary": _Look("hover", "", "text2")}  # captions are too pale on it
_BARE: Final = {"ghost", "link", "segment", "on-toast"}  # without a border
_SQUARE: Final = {"row", "next-row"}


def button_kind(widget: QWidget | None) -> str:
    """A button's kind. Its parent decides about "segment" and "on-toast"."""
    parent_kind = kind_of(widget.parentWidget() if widget is not None else None)
    if parent_kind == "segments":
        return "segment"
    if parent_kind == "toast":
        return "on-toast"
    return kind_of(widget)


def push_button_size(size: QSize, widget: QWidget | None) -> QSize:
    """The size of a push button. ``size``: of its text and icon."""
    across, down = _PADDING.get(button_kind(widget), _USUAL_PADDING)
    return size + QSize(across, down)


def paint_button(painter: QPainter, option: QStyleOption, widget: QWidget | None) -> None:
    """Paint the background of a button, and set its text colour in the option."""
    look = _look(option, widget)
    kind = button_kind(widget)
    over = state_is(option, "MouseOver")
    down = state_is(option, "Sunken") or (state_is(option, "On") and kind != "fold")

    def colour(names: str) -> str:
        states = names.split("/")
        return states[min(2 if down else int(over), len(states) - 1)]

    if kind == "segment":
        corner = 4.0
    elif kind in _SQUARE:
        corner = 0.0
    else:
        corner = RADIUS
    rounded(painter, QRectF(option.rect), colour(look.ground), colour(look.border), corner=corner)
    if kind == "next-row":
        rect = QRectF(option.rect)
        rounded(painter, QRectF(rect.left(), rect.top(), rect.width(), 1), "line", corner=0.0)
    palette = option.palette
    ink = current_theme().colour(colour(look.ink))
    palette.setColor(QPalette.ColorRole.ButtonText, QColor(ink))
    option.palette = palette


def _look(option: QStyleOption, widget: QWidget | None) -> _Look:
    kind = button_kind(widget)
    enabled = state_is(option, "Enabled")
    if not isinstance(widget, QPushButton):
        if enabled:
            return _TOOL.get(kind, _USUAL_TOOL)
        return _Look(ink="text3")
    kind = kind or ("primary" if widget.isDefault() else "")
    if enabled:
        return _PUSH.get(kind, _USUAL_PUSH)
    return _DISABLED.get(kind, _Look("", "" if kind in _BARE else "line", "text3"))
