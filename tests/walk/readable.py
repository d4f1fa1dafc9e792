"""Whether letters stand out from what is painted behind them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np
from PySide6.QtCore import QRect
from PySide6.QtGui import QColor, QImage

from tests.helpers.contrast import TEXT, contrast
from tests.walk.painted import Painted

_WORD: Final = re.compile(r"\w")
_ROUNDING: Final = 0.02  # of a ratio, by colours of whole numbers


def faults_of(picture: QImage, painted: list[Painted]) -> Iterator[str]:
    """Texts in a picture whose ink is too near to their ground."""
    pixels = _pixels(picture)
    for each in painted:
        yield from _fault(pixels, each.text, each.seen.toAlignedRect(), each.ink)


def _pixels(picture: QImage) -> np.ndarray:
    """0xRRGGBB a pixel."""
    plain = picture.convertToFormat(QImage.Format.Format_RGB32)
    numbers = np.frombuffer(plain.constBits(), np.uint32).reshape(plain.height(), -1)
    return numbers[:, : plain.width()] & 0xFFFFFF


def _fault(pixels: np.ndarray, text: str, rect: QRect, ink: QColor) -> Iterator[str]:
    top, left = max(rect.top(), 0), max(rect.left(), 0)
    crop = pixels[top : rect.bottom() + 1, left : rect.right() + 1]
    if not _WORD.search(text) or rect.isEmpty() or crop.size == 0:
        return
    colours, counts = np.unique(crop, return_counts=True)
    ground = f"#{colours[counts.argmax()]:06x}"
    seen = _over(ink, ground)
    if (ratio := contrast(seen, ground)) < TEXT - _ROUNDING:
        yield f"{text[:40]!r} is {seen} on {ground}: {ratio:.2f}"


def _over(ink: QColor, ground: str) -> str:
    """What a translucent ink looks like on its ground."""
    share, behind = ink.alphaF(), QColor(ground)
    parts = zip(ink.getRgbF()[:3], behind.getRgbF()[:3], strict=True)
    return QColor.fromRgbF(*(share * top + (1 - share) * below for top, below in parts)).name()
