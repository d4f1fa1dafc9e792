"""The look of a widget by its property ``kind``, which is set before it is first shown.

A label's kind names its text colour, a container's its background, a button's its emphasis. The
colours are palette roles, so Qt's repaint after a scheme change is enough.
"""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent, QObject, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPalette
from PySide6.QtWidgets import (
    QAbstractItemView,
    QAbstractSpinBox,
    QComboBox,
    QFrame,
    QHeaderView,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QScrollArea,
    QStyle,
    QTextEdit,
    QWidget,
)

from ace_gui.gui.theme.painting import rounded
from ace_gui.gui.theme.tokens import Tokens, current_theme
from ace_gui.gui.theme.type_scale import Face, face

_Role = QPalette.ColorRole
INKS: Final = {  # the kind of a label → its text colour
    "caption": _Role.PlaceholderText,
    "secondary": _Role.Mid,
    "warn": _Role.Shadow,
    "bad": _Role.BrightText,
    "accent": _Role.Link,
    "pill": _Role.LinkVisited,
    "warn-pill": _Role.Shadow,
    "quiet-pill": _Role.Mid,
    "on-toast": _Role.ToolTipText,
}
CARD, SUNK = _Role.Light, _Role.AlternateBase
_PADDING: Final = {
    "pill": (9, 3),
    "warn-pill": (9, 4),
    "quiet-pill": (9, 3),
}  # px: width and height
_CORNERS: Final = {"segments": 6.0, "side": 0.0, "foot": 0.0, "card-dialog": 0.0}
_CORNER: Final = 8.0
_FIELD_MARGINS: Final = (5, 3, 5, 3)


def kind_of(widget: QWidget | None) -> str:
    """The widget's kind, or an empty string."""
    return str(widget.property("kind") or "") if widget is not None else ""


def change_kind(widget: QWidget, kind: str) -> None:
    """Change the kind of a widget that was shown before."""
    if kind_of(widget) != kind:
        widget.setProperty("kind", kind)
        apply_style(widget)
        widget.updateGeometry()
        widget.update()


def ground_of(kind: str, theme: Tokens) -> str | None:
    """The background of a widget of this kind; None if it is transparent."""
    grounds = {
        "card": theme.card,
        "sunk": theme.sunk,
        "toast": theme.toast,
        "side": theme.sunk,
        "foot": theme.card,
        "card-dialog": theme.card,
        "segments": theme.hover,
        "pill": theme.tint,
        "warn-pill": theme.warn_ground,
        "quiet-pill": theme.sunk,
    }
    return grounds.get(kind)


def paint_ground(painter: QPainter, rect: QRectF, kind: str) -> None:
    """Paint the background of a widget of this kind."""
    theme = current_theme()
    colour = ground_of(kind, theme)
    if colour is None:
        return
    corner = rect.height() / 2 if kind in _PADDING else _CORNERS.get(kind, _CORNER)
    rounded(painter, rect, colour, corner=corner)
    if kind == "foot":
        painter.fillRect(QRectF(rect.left(), rect.top(), rect.width(), 1), QColor(theme.line))


def apply_style(widget: QWidget) -> None:
    """Set up a widget's look once, whatever the scheme."""
    kind = kind_of(widget)
    if ground_of(kind, current_theme()) is not None and not isinstance(widget, QAbstractItemView):
        widget.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
    if isinstance(widget, QLabel):
        if kind in INKS:
            widget.setForegroundRole(INKS[kind])
        if kind in _PADDING:
            across, down = _PADDING[kind]
            widget.setContentsMargins(across, down, across, down)
    elif isinstance(widget, QAbstractSpinBox):
        select_whole_number(widget)
    elif isinstance(widget, QAbstractItemView):
        _dress_view(widget, kind)
    elif isinstance(widget, QScrollArea):
        for part in (widget.viewport(), widget.widget()):
            _let_through(part)
    elif isinstance(widget, QPlainTextEdit | QTextEdit):
        if widget.frameShape() == QFrame.Shape.StyledPanel:  # the frame has the round ground
            _let_through(widget.viewport())
    elif isinstance(widget, QLineEdit) and not _is_inner(widget):
        widget.setTextMargins(*_FIELD_MARGINS)
        if widget.validator() is not None:
            select_whole_number(widget)


def _let_through(widget: QWidget | None) -> None:
    if widget is not None:
        widget.setAutoFillBackground(False)


def _dress_view(view: QAbstractItemView, kind: str) -> None:
    if isinstance(view, QHeaderView):
        view.setFont(face(Face.CAPTION))
        kind = kind_of(view.parentWidget())
    elif view.frameStyle() != QFrame.Shape.NoFrame and not view.window().inherits("QComboBox"):
        view.setFrameShape(QFrame.Shape.NoFrame)
    if kind == "ground":
        _let_through(view.viewport())
    else:
        view.viewport().setBackgroundRole(SUNK if kind == "sunk" else CARD)


def _is_inner(field: QLineEdit) -> bool:
    """Part of another field, or the editor of a cell."""
    parent = field.parentWidget()
    if isinstance(parent, QAbstractSpinBox | QComboBox):
        return True
    view = parent.parentWidget() if parent is not None else None
    return isinstance(view, QAbstractItemView)


def state_is(option: object, state: str) -> bool:
    """Whether a style option has this state: "Enabled", "HasFocus", "MouseOver" …"""
    return bool(option.state & getattr(QStyle.StateFlag, f"State_{state}"))  # type: ignore[attr-defined]


class WholeNumber(QObject):
    """Watches a line edit with a number, alone or in a spin box: typing replaces the number."""

    _pressed = False

    def __init__(self, line: QLineEdit) -> None:
        super().__init__(line)
        line.installEventFilter(self)

    def eventFilter(self, line: QObject, event: QEvent) -> bool:
        """The second press selects; small movements before the release change nothing."""
        kind = event.type()
        if kind == QEvent.Type.MouseButtonDblClick:
            self._pressed = True
            box = line.parent()
            box = box if isinstance(box, QAbstractSpinBox) else line
            assert isinstance(box, QAbstractSpinBox | QLineEdit)
            box.setFocus()
            box.selectAll()
            return True
        if kind == QEvent.Type.MouseButtonRelease:
            self._pressed = False
        return kind == QEvent.Type.MouseMove and self._pressed


def select_whole_number(box: QAbstractSpinBox | QLineEdit) -> None:
    """Let a double click select the number; once for each box."""
    line = box.lineEdit() if isinstance(box, QAbstractSpinBox) else box
    if line.findChild(WholeNumber) is None:
        WholeNumber(line)
