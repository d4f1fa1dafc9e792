"""A picture of an example, scaled up only by whole factors so that it stays sharp."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget


def image_of(pixels_HWC: NDArray[np.uint8]) -> QImage:
    """An image with its own copy of the pixels. ``pixels_HWC``: three colours, uint8."""
    pixels = np.ascontiguousarray(pixels_HWC)
    height, width, _ = pixels.shape
    return QImage(pixels.data, width, height, 3 * width, QImage.Format.Format_RGB888).copy()


def paint_picture(painter: QPainter, rect: QRectF, image: QImage) -> QRectF:
    """Paint in the middle of ``rect``, and return the painted rectangle."""
    width, height = image.width(), image.height()
    factor: float = min(rect.width() / width, rect.height() / height)
    if factor >= 1:
        factor = int(factor)
    painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, factor < 1)
    target = QRectF(0, 0, width * factor, height * factor)
    target.moveCenter(rect.center())
    painter.drawImage(target, image)
    return target


class ExamplePicture(QWidget):
    """``side``: maximum size in pixels."""

    def __init__(self, side: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._side = side
        self._image: QImage | None = None
        self.setFixedSize(side, side)
        self.hide()

    def show_picture(self, pixels: NDArray[np.uint8] | None, words: str) -> None:
        """Show another picture. ``words`` describes it for screen readers."""
        self.show_image(None if pixels is None else image_of(pixels), words)

    def show_image(self, image: QImage | None, words: str) -> None:
        """Like ``show_picture``. An unreadable image counts as none."""
        self._image = None if image is None or image.isNull() else image
        self.setVisible(self._image is not None)
        self.setAccessibleName(words)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(self._side, self._side)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  (Qt's signature)
        if self._image is not None:
            paint_picture(QPainter(self), QRectF(self.rect()), self._image)
