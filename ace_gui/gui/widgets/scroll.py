"""What is higher than there is room."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget


def scroll_area(name: str, parent: QWidget | None = None) -> QScrollArea:
    """A frameless area called ``name`` that scrolls up and down; its content takes its width."""
    area = QScrollArea(parent)
    area.setAccessibleName(name)
    area.setWidgetResizable(True)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    return area
