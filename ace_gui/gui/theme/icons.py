"""Line icons, painted in a token's colour at any size and scale.

The engine looks up the colour at each paint, so a new scheme needs no new icons.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from PySide6.QtCore import QByteArray, QRect, QRectF, QSize, Qt
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
        theme = current_theme()
        colour = theme.text3 if mode == QIcon.Mode.Disabled else getattr(theme, self._token)
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
