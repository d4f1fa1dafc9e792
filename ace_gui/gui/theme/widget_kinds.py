"""What a widget's property ``kind`` says of its looks; set before the widget is first shown.

A label's kind names the ink of its text, a ground's the colour behind its content, a button's how
much weight it has. Inks are roles of the palette, so that no widget has to be told of another
scheme: Qt repaints them all, and each looks its role up.
"""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPalette, QPen
from PySide6.QtWidgets import (
    QAbstractItemView,
    QAbstractSpinBox,
    QComboBox,
    QFrame,
    QHeaderView,
    QLabel,
    QLineEdit,
    QScrollArea,
    QStyle,
    QWidget,
)

from ace_gui.gui.theme.scheme import current_theme
from ace_gui.gui.theme.tokens import Tokens
from ace_gui.gui.theme.type_scale import Face, face
from ace_gui.gui.theme.whole_number import select_whole_number

_Role = QPalette.ColorRole
INKS: Final = {  # the kind of a label → what its text is painted with
    "caption": _Role.PlaceholderText,
    "secondary": _Role.Mid,
    "ok": _Role.Dark,
    "warn": _Role.Shadow,
    "bad": _Role.BrightText,
    "accent": _Role.Link,
    "pill": _Role.LinkVisited,
    "warn-pill": _Role.Shadow,
    "quiet-pill": _Role.Mid,
    "on-toast": _Role.ToolTipText,
}
CARD, SUNK = _Role.Light, _Role.AlternateBase
_PADDING: Final = {"pill": (9, 3), "warn-pill": (9, 4), "quiet-pill": (9, 3)}  # px, across and down
_CORNERS: Final = {"segments": 6.0, "side": 0.0, "foot": 0.0, "card-dialog": 0.0}
_CORNER: Final = 8.0
_FIELD_MARGINS: Final = (5, 3, 5, 3)


def kind_of(widget: QWidget | None) -> str:
    """The widget's kind; empty where it has none."""
    return str(widget.property("kind") or "") if widget is not None else ""


def change_kind(widget: QWidget, kind: str) -> None:
    """Give a widget that was shown another kind."""
    if kind_of(widget) != kind:
        widget.setProperty("kind", kind)
        apply_style(widget)
        widget.updateGeometry()
        widget.update()


def ground_of(kind: str, theme: Tokens) -> str | None:
    """The colour behind a widget of this kind; None where what lies below is seen."""
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
    """The ground of a widget of this kind."""
    theme = current_theme()
    colour = ground_of(kind, theme)
    if colour is None:
        return
    corner = rect.height() / 2 if kind in _PADDING else _CORNERS.get(kind, _CORNER)
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(colour))
    painter.drawRoundedRect(rect, corner, corner)
    if kind == "foot":
        painter.setPen(QPen(QColor(theme.line), 1.0))
        painter.drawLine(rect.topLeft(), rect.topRight())
    painter.restore()


def apply_style(widget: QWidget) -> None:
    """What a widget needs of its looks once, whatever the scheme."""
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
    """Whether an option of the style has this state: "Enabled", "HasFocus", "MouseOver" …"""
    return bool(option.state & getattr(QStyle.StateFlag, f"State_{state}"))  # type: ignore[attr-defined]
