"""Painting for widgets and cells: swatches, shares as bars, one line of text, icons."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from PySide6.QtCore import QByteArray, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QIcon, QIconEngine, QPainter, QPen, QPixmap
from PySide6.QtSvg import QSvgRenderer

from ace_gui.gui.theme.tokens import current_theme, repetition
from ace_gui.paths import resource_path

SWATCH: Final = 10  # px
RADIUS: Final = 6.0  # px, of fields and buttons
_LEFT: Final = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter


def rounded(
    painter: QPainter,
    rect: QRectF,
    ground: str = "",
    border: str = "",
    *,
    width: float = 1.0,
    corner: float = RADIUS,
) -> None:
    """Paint a rounded rectangle with its border inside. An empty colour is not painted."""
    colour = current_theme().colour
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(QColor(colour(border)), width) if border else Qt.PenStyle.NoPen)
    painter.setBrush(QColor(colour(ground)) if ground else Qt.BrushStyle.NoBrush)
    if border:
        inset = width / 2
    else:
        inset = 0.0
    painter.drawRoundedRect(rect.adjusted(inset, inset, -inset, -inset), corner, corner)
    painter.restore()


def paint_swatch(painter: QPainter, rect: QRectF, colour: str) -> None:
    """Paint a small square of the colour with this name, hollow for a colour that repeats."""
    square = QRectF(0, 0, SWATCH, SWATCH)
    square.moveCenter(rect.center())
    ground, border = ("", colour) if repetition(colour) else (colour, "")
    rounded(painter, square, ground, border, width=2.0, corner=3.0)


def paint_share(painter: QPainter, track: QRectF, share: float, colour: str, ground: str) -> None:
    """Paint a track in the colour ``ground``, filled from the left by ``share``, 0 to 1."""
    filled = QRectF(track)
    filled.setWidth(track.width() * min(max(share, 0.0), 1.0))
    for part, ink in ((track, ground), (filled, colour)):
        rounded(painter, part, ink, corner=track.height() / 2)


def write(
    painter: QPainter,
    rect: QRectF,
    text: str,
    font: QFont,
    ink: str,
    *,
    align: Qt.AlignmentFlag = _LEFT,
) -> float:
    """Paint text in one line, elided in the middle, and return its width in pixels."""
    if not text or rect.width() <= 0:
        return 0.0
    metrics = QFontMetricsF(font)
    elided = metrics.elidedText(text, Qt.TextElideMode.ElideMiddle, rect.width() + 0.5)
    painter.setFont(font)
    painter.setPen(QColor(current_theme().colour(ink)))
    painter.drawText(rect, align, elided)
    return metrics.horizontalAdvance(elided)


_INK: Final = "#000000"  # the colour in the drawings of resources/icons
_OWN: Final = {"warning": "warn", "error": "bad", "info": "accent", "check": "ok"}


def icon(name: str, token: str = "") -> QIcon:
    """The icon ``resources/icons/NAME.svg`` in the colour of a token.

    ``token``: a field of ``Tokens``; by default that of the icon's meaning, else ``text2``. Raises
    ``FileNotFoundError`` if there is no such drawing.
    """
    _drawing(name)
    return QIcon(_Engine(name, token or _OWN.get(name, "text2")))


def swatch(colour: str) -> QIcon:
    """A swatch of the colour with this name."""
    return QIcon(_Engine("", colour))


class _Engine(QIconEngine):
    """Paints one drawing, or a swatch if it has no name, in the colours of the current theme."""

    def __init__(self, name: str, colour: str) -> None:
        super().__init__()
        self._name = name
        self._colour = colour

    def clone(self) -> QIconEngine:
        return _Engine(self._name, self._colour)

    def actualSize(self, size: QSize, mode: QIcon.Mode, state: QIcon.State) -> QSize:  # noqa: ARG002
        if self._name:
            return size
        return size.boundedTo(QSize(SWATCH, SWATCH))

    def paint(self, painter: QPainter, rect: QRect, mode: QIcon.Mode, state: QIcon.State) -> None:  # noqa: ARG002
        if not self._name:
            paint_swatch(painter, QRectF(rect), self._colour)
            return
        colour = current_theme().colour("text3" if mode == QIcon.Mode.Disabled else self._colour)
        side = min(rect.width(), rect.height())
        square = QRect(0, 0, side, side)
        square.moveCenter(rect.center())
        _renderer(self._name, colour).render(painter, QRectF(square))

    def pixmap(self, size: QSize, mode: QIcon.Mode, state: QIcon.State) -> QPixmap:
        pixmap = QPixmap(size)
        pixmap.fill(Qt.GlobalColor.transparent)
        painter = QPainter(pixmap)
        self.paint(painter, pixmap.rect(), mode, state)
        painter.end()
        return pixmap


@lru_cache(maxsize=64)
def _drawing(name: str) -> str:
    return resource_path(f"icons/{name}.svg").read_text(encoding="utf-8")


@lru_cache(maxsize=256)
def _renderer(name: str, colour: str) -> QSvgRenderer:
    return QSvgRenderer(QByteArray(_drawing(name).replace(_INK, colour).encode()))
