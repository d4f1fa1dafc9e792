"""Line icons, painted in a token's colour at any size and scale.

The engine looks up the colour at each paint, so a new scheme needs no new icons.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from PySide6.QtCore import QByteArray, QPoint, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QIcon, QIconEngine, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from ace_gui.gui.theme.tokens import current_theme
from ace_gui.paths import resource_path

_INK: Final = "#000000"  # the colour in the drawings of resources/icons
_OWN: Final = {"warning": "warn", "error": "bad", "info": "accent", "check": "ok"}


def icon(name: str, token: str = "") -> QIcon:
    """The icon ``resources/icons/NAME.svg`` in the colour of a token.

    ``token``: a field of ``Tokens``; by default that of the icon's meaning, else ``text2``. Raises
    ``FileNotFoundError`` if there is no such drawing.
    """
    _drawing(name)
    return QIcon(_Engine(name, token or _OWN.get(name, "text2")))


class _Engine(QIconEngine):
    """Paints one drawing."""

    def __init__(self, name: str, token: str) -> None:
        super().__init__()
        self._name, self._token = name, token

    def clone(self) -> QIconEngine:
        return _Engine(self._name, self._token)

    def paint(self, painter: QPainter, rect: QRect, mode: QIcon.Mode, state: QIcon.State) -> None:  # noqa: ARG002
        device = painter.device()
        scale = device.devicePixelRatio() if device is not None else 1.0
        side = min(rect.width(), rect.height())
        square = QRect(0, 0, side, side)
        square.moveCenter(rect.center())
        pixmap = _rendered(self._name, self._colour(mode), (side, side), scale)
        painter.drawPixmap(square.topLeft(), pixmap)

    def pixmap(self, size: QSize, mode: QIcon.Mode, state: QIcon.State) -> QPixmap:  # noqa: ARG002
        return QPixmap(_rendered(self._name, self._colour(mode), size.toTuple(), 1.0))

    def scaledPixmap(
        self,
        size: QSize,
        mode: QIcon.Mode,
        state: QIcon.State,  # noqa: ARG002
        scale: float,
    ) -> QPixmap:
        own = (round(size.width() / scale), round(size.height() / scale))
        return QPixmap(_rendered(self._name, self._colour(mode), own, scale))

    def _colour(self, mode: QIcon.Mode) -> str:
        theme = current_theme()
        return theme.text3 if mode == QIcon.Mode.Disabled else str(getattr(theme, self._token))


@lru_cache(maxsize=64)
def _drawing(name: str) -> str:
    return resource_path(f"icons/{name}.svg").read_text(encoding="utf-8")


@lru_cache(maxsize=256)
def _rendered(name: str, colour: str, size: tuple[int, int], scale: float) -> QPixmap:
    """A pixmap of ``size`` device-independent pixels; shared, so do not change it."""
    pixmap = QPixmap(QSize(*size) * scale)
    pixmap.setDevicePixelRatio(scale)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    drawing = _drawing(name).replace(_INK, colour)
    QSvgRenderer(QByteArray(drawing.encode())).render(painter, QRectF(QPoint(), QSize(*size)))
    painter.end()
    return pixmap
