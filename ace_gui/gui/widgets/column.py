"""A widget for scroll areas that is as tall as its wrapped texts need at its width."""

from __future__ import annotations

from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QWidget


class Column(QWidget):
    """Qt gives wrapped labels in a scroll area too little height; this asks for enough."""

    def event(self, event: QEvent) -> bool:
        handled = super().event(event)
        layout = self.layout()
        if layout is not None and event.type() in (QEvent.Type.Resize, QEvent.Type.LayoutRequest):
            self.setMinimumHeight(max(0, layout.heightForWidth(self.width())))
        return handled
