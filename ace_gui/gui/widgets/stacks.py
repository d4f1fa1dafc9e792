"""One widget above another, parted by a handle."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSplitter, QVBoxLayout, QWidget


def fill_with_stack(panel: QWidget, upper: QWidget, lower: QWidget, sizes: Sequence[int]) -> None:
    """Fill ``panel`` with both, ``sizes`` pixels high at first; ``upper`` takes spare room."""
    splitter = QSplitter(Qt.Orientation.Vertical)
    splitter.setChildrenCollapsible(False)
    splitter.addWidget(upper)
    splitter.addWidget(lower)
    splitter.setSizes(list(sizes))
    splitter.setStretchFactor(0, 1)
    layout = QVBoxLayout(panel)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.addWidget(splitter)
