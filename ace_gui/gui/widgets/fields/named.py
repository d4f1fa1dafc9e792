"""Fields with the name that screen readers say, and their tooltip."""

from __future__ import annotations

from typing import TypeVar

from PySide6.QtWidgets import QDoubleSpinBox, QLineEdit, QSpinBox, QWidget

from ace_gui.gui.text import tooltip
from ace_gui.gui.theme import icon

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
