"""A decorative icon, repainted in the colours of each scheme."""

from __future__ import annotations

from PySide6.QtGui import QIcon, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from ace_gui.gui.theme.drawn_marks import scale
from ace_gui.gui.widgets.layout.font_metrics import on_font_change


class IconLabel(QWidget):
    """``size`` pixels square at normal font size, and scaled with it."""

    def __init__(self, size: int, picture: QIcon | None = None, parent: QWidget | None = None):
        super().__init__(parent)
        self._icon = picture or QIcon()
        on_font_change(self, lambda _metrics: self.setFixedSize(*[round(size * scale())] * 2))

    def show_icon(self, picture: QIcon) -> None:
        """Replace the icon."""
        self._icon = picture
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  (Qt's signature)
        self._icon.paint(QPainter(self), self.rect())
