"""What Qt's layouts lack: columns that wrap, areas that scroll, stacks with a handle."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, Qt
from PySide6.QtWidgets import QFrame, QLayout, QScrollArea, QSplitter, QVBoxLayout, QWidget


class Column(QWidget):
    """Qt gives wrapped labels in a scroll area too little height; this asks for enough."""

    def event(self, event: QEvent) -> bool:
        handled = super().event(event)
        layout = self.layout()
        if layout is not None and event.type() in (QEvent.Type.Resize, QEvent.Type.LayoutRequest):
            self.setMinimumHeight(max(0, layout.heightForWidth(self.width())))
        return handled


def scroll_area(name: str, parent: QWidget | None = None) -> QScrollArea:
    """A frameless area called ``name`` that scrolls up and down; its content takes its width."""
    area = QScrollArea(parent)
    area.setAccessibleName(name)
    area.setWidgetResizable(True)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    return area


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


def clear_layout(layout: QLayout) -> None:
    """Take every widget out of a layout and let it go."""
    while (item := layout.takeAt(0)) is not None:
        widget = item.widget()
        if widget is not None:
            widget.hide()
            widget.deleteLater()
