"""The background of results."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

GAP: Final = 8
"""Pixels between two cards."""
_ACROSS, _DOWN = 8, 6


def card(content: QWidget) -> QFrame:
    """A card that contains a widget."""
    made = QFrame()
    made.setProperty("kind", "card")
    made.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
    layout = QVBoxLayout(made)
    layout.setContentsMargins(_ACROSS, _DOWN, _ACROSS, _DOWN)
    layout.addWidget(content)
    return made
