"""Fields with the name that screen readers say, and their tooltip."""

from __future__ import annotations

from typing import TypeVar

from PySide6.QtWidgets import QDoubleSpinBox, QLineEdit, QPlainTextEdit, QSpinBox, QWidget

from ace_gui.gui.text import tooltip
from ace_gui.gui.theme import Face, face, icon
from ace_gui.gui.widgets.layout.arrangement import on_font_change

_Widget = TypeVar("_Widget", bound=QWidget)


def named(widget: _Widget, name: str, tip: str = "") -> _Widget:
    """The widget with this name and tooltip."""
    widget.setAccessibleName(name)
    widget.setToolTip(tooltip(tip))
    return widget


def count_field(
    name: str, most: int, *, least: int = 0, value: int = 0, special: str = ""
) -> QSpinBox:
    """A whole number. ``special``: what it shows at ``least``."""
    box = named(QSpinBox(minimum=least, maximum=most, value=value), name)
    box.setSpecialValueText(special)
    return box


def amount_field(
    name: str,
    low: float,
    high: float,
    value: float,
    *,
    suffix: str = "",
    decimals: int = 1,
    special: str = "",
) -> QDoubleSpinBox:
    """A number with a unit. ``special``: what it shows at ``low``."""
    box = named(QDoubleSpinBox(decimals=decimals, suffix=suffix), name)
    box.setRange(low, high)
    box.setValue(value)
    box.setSpecialValueText(special)
    return box


def search_field(name: str, hint: str) -> QLineEdit:
    """A field that filters a list; ``hint``: what it shows while it is empty."""
    field = named(QLineEdit(placeholderText=hint, clearButtonEnabled=True), name)
    field.addAction(icon("search"), QLineEdit.ActionPosition.LeadingPosition)
    return field


def read_only(name: str, lines: int = 0, role: Face | None = None) -> QPlainTextEdit:
    """Text to read and copy; ``lines``: as high as so many."""
    text = named(QPlainTextEdit(readOnly=True, tabChangesFocus=True), name)
    if role is not None:
        text.setFont(face(role))
    if lines:
        on_font_change(text, lambda metrics: text.setFixedHeight(metrics.lineSpacing() * lines + 8))
    return text
