"""Whether every control is reached by the keyboard and has a name that is read aloud."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QComboBox,
    QHeaderView,
    QLineEdit,
    QPlainTextEdit,
    QScrollBar,
    QTabBar,
    QTextEdit,
    QWidget,
)

from ace_gui.gui.plots.frame.base_plot import Plot
from ace_gui.gui.plots.frame.legend import Chip

_CONTROLS: Final = (
    *(QAbstractButton, QComboBox, QLineEdit, QAbstractItemView, QTabBar, QAbstractSlider),
    *(QAbstractSpinBox, QPlainTextEdit, QTextEdit, Plot),
)
_PARTS: Final = (QScrollBar, QHeaderView)  # the keys of what they belong to move them


def faults_in(root: QWidget) -> Iterator[str]:
    """A line for each control that Tab does not reach, and for each without a name."""
    for widget in root.findChildren(QWidget):
        if not widget.isVisible() or widget.window() is not root or not _is_control(widget):
            continue
        if widget.isEnabled() and not _takes_keys(widget):
            yield f"{type(widget).__name__}({_name(widget)[:40]!r}) is not reached by Tab"
        if not _name(widget).strip():
            above = widget.parentWidget()
            inside = f"{type(above).__name__}({_name(above)[:40]!r})"
            yield f"{type(widget).__name__} in {inside} has no name"


def _takes_keys(widget: QWidget) -> bool:
    """Itself, or what leads to it: one of its group, the field whose keys move it."""
    group = widget.group() if isinstance(widget, QAbstractButton) else None
    leading = group.buttons() if group is not None else [widget.focusProxy() or widget]
    return any(each.focusPolicy() & Qt.FocusPolicy.TabFocus for each in leading)


def _is_control(widget: QWidget) -> bool:
    """A control, and no part of another."""
    above = widget.parentWidget()
    inside = isinstance(above, QComboBox | QAbstractSpinBox | QLineEdit | QTabBar)
    inside |= isinstance(above, QAbstractItemView)  # its corner
    part = inside or isinstance(widget, _PARTS)
    return isinstance(widget, _CONTROLS) and not part and not _says_only(widget)


def _says_only(widget: QWidget) -> bool:
    """An entry of a legend that nobody can press."""
    return isinstance(widget, Chip) and not widget.isCheckable()


def _name(widget: QWidget | None) -> str:
    spoken = QAccessible.queryAccessibleInterface(widget) if widget is not None else None
    return spoken.text(QAccessible.Text.Name) if spoken is not None else ""
