"""Sizes that depend on the font are updated when it changes."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QWidget


def on_font_change(widget: QWidget, measure: Callable[[QFontMetrics], object]) -> None:
    """Call a function now and after every font change of ``widget``."""
    widget.installEventFilter(_Follower(widget, measure))
    measure(widget.fontMetrics())


class _Follower(QObject):
    def __init__(self, widget: QWidget, measure: Callable[[QFontMetrics], object]) -> None:
        super().__init__(widget)
        self._widget, self._measure = widget, measure

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self._widget and event.type() == QEvent.Type.FontChange:
            self._measure(self._widget.fontMetrics())
        return False
