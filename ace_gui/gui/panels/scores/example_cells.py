"""Examples in a list, each a picture or a text with two lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import QStyleOptionViewItem, QWidget

from ace_gui.engine.contract.scored import ComparedExample
from ace_gui.gui.models.list_models import VALUE
from ace_gui.gui.panels.layer_cells import Cell, Drawn, Index
from ace_gui.gui.text import plain
from ace_gui.gui.theme import Face, current_theme, face
from ace_gui.gui.theme.painting import SWATCH, paint_swatch, write


@dataclass(frozen=True, kw_only=True)
class ListedExample:
    """An example with its task, the colour of the task's expert, and the other model."""

    task: str
    colour: str
    other_model: str
    found: ComparedExample

    @property
    def words(self) -> str:
        example, found = self.found.example, self.found
        texts = "; ".join(text for _, text in example.texts)
        parts = [f"should be {example.label}"] if example.label else []
        parts.append(f"the merge answers {found.answer}, {self.other_model} {found.other}")
        text = f"{f'{texts}. ' if texts else ''}{'; '.join(parts)}"
        return plain(f"{self.task}, {example.row}: {text}")


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

    def __init__(self, side: int) -> None:
        super().__init__()
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


_PICTURE: Final = 64.0  # px
_PADDING: Final = 8.0
_TILE: Final = 96.0  # px: width
_MIDDLE: Final = Qt.AlignmentFlag.AlignCenter


class ExampleCell(Cell):
    """Pictures as tiles, texts as rows; the true label in bold, and the wrong answer below it.

    ``merge_is_wrong``: whether the wrong answer is the merge's or the other model's.
    """

    merge_is_wrong = True

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: ARG002
        return self.size_of(index.data(VALUE))

    def size_of(self, listed: ListedExample) -> QSize:
        """Size in px of a tile or a row."""
        line = _height(Face.CAPTION_STRONG)
        if listed.found.example.picture is not None:
            width = max(_TILE, 7 * _height(Face.CAPTION))
            return QSize(round(width), round(_PICTURE + 2 * line + 2 * _PADDING + 8))
        return QSize(200, round(_height(Face.BODY) + line + 2 * _PADDING + 4))

    def draw(self, cell: Drawn) -> None:
        listed: ListedExample = cell.index.data(VALUE)
        rect = QRectF(cell.option.rect).adjusted(_PADDING, _PADDING, -_PADDING, -_PADDING)
        picture, found, theme = listed.found.example.picture, listed.found, current_theme()
        answer = found.answer if self.merge_is_wrong else found.other
        ink = theme.bad if self.merge_is_wrong else theme.text2
        if picture is None:
            self._draw_row(cell.painter, rect, listed, answer, ink)
            return
        paint_picture(cell.painter, _line(rect, 0, _PICTURE), image_of(picture))
        first = _line(rect, _PICTURE + 4, _height(Face.CAPTION_STRONG))
        second = first.translated(0, first.height())
        font = face(Face.CAPTION_STRONG)
        write(cell.painter, first, found.example.label, font, theme.text, align=_MIDDLE)
        write(cell.painter, second, answer, face(Face.CAPTION), ink, align=_MIDDLE)

    def _draw_row(
        self, painter: QPainter, rect: QRectF, listed: ListedExample, answer: str, ink: str
    ) -> None:
        theme, example = current_theme(), listed.found.example
        top = _line(rect.adjusted(SWATCH + 8, 0, 0, 0), 0, _height(Face.BODY))
        if listed.colour:
            square = QRectF(rect.left(), rect.top(), SWATCH, top.height())
            paint_swatch(painter, square, listed.colour)
        text = " · ".join(text.replace("\n", " ") for _, text in example.texts)
        write(painter, top, text, face(Face.BODY), theme.text)
        low = _line(top, top.height() + 3, _height(Face.CAPTION_STRONG))
        used = write(painter, low, example.label, face(Face.CAPTION_STRONG), theme.text)
        rest = low.adjusted(used + 12 if used else 0, 0, 0, 0)
        whose = "merge" if self.merge_is_wrong else listed.other_model
        write(painter, rest, f"{whose}: {answer}", face(Face.CAPTION), ink)


def _line(rect: QRectF, down: float, height: float) -> QRectF:
    """A line of this height in ``rect``, so far down."""
    return QRectF(rect.left(), rect.top() + down, rect.width(), height)


def _height(role: Face) -> float:
    return QFontMetricsF(face(role)).height()
