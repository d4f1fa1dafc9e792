"""The colour of a model, as a small square."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from ace_gui.gui.theme import current_theme
from ace_gui.gui.theme.swatch import SWATCH, paint_swatch


class Swatch(QWidget):
    """The base model's grey until another colour is shown; hidden without a colour."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._colour: str | None = None
        self.setFixedSize(SWATCH, SWATCH)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def show_colour(self, colour: str) -> None:
        """Show another colour, or none."""
        self._colour = colour
        self.setVisible(bool(colour))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  (Qt's signature)
        colour = current_theme().base if self._colour is None else self._colour
        paint_swatch(QPainter(self), QRectF(self.rect()), colour)
