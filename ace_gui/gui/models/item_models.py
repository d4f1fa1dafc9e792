"""The rows of the window's lists: each has a text, and stands for a value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from PySide6.QtCore import Qt
from PySide6.QtGui import QStandardItem, QStandardItemModel

from ace_gui.gui.text import plain, tooltip

VALUE: Final = Qt.ItemDataRole.UserRole
"""Role of what a row stands for."""
_Value = TypeVar("_Value")


def item_of(text: str, value: object = None, *, tip: str = "", spoken: str = "") -> QStandardItem:
    """A cell that cannot be edited. ``spoken``: for screen readers, if not its text."""
    item = QStandardItem(plain(text))
    item.setAccessibleText(plain(spoken or text))
    item.setEditable(False)
    item.setToolTip(tooltip(tip))
    item.setData(value, VALUE)
    return item


def show_values(
    model: QStandardItemModel, values: Iterable[_Value], item: Callable[[_Value], QStandardItem]
) -> None:
    """Replace all rows of a list."""
    model.clear()
    for value in values:
        model.appendRow(item(value))
