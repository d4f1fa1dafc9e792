"""The bundled fonts and the few font sizes of the window.

Sizes are relative to the body's, which is the system's size or 9.75 points, whichever is larger. A
larger system font therefore enlarges all of them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from enum import Enum, unique
from functools import lru_cache
from itertools import islice
from typing import Final

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QFont, QFontDatabase
from PySide6.QtWidgets import QApplication, QWidget
from shiboken6 import isValid

from ace_gui.paths import resource_path

SANS: Final = "Inter"
MONO: Final = "JetBrains Mono"
FILES: Final = (
    "Inter-Regular.otf",
    "Inter-Medium.otf",
    "Inter-SemiBold.otf",
    "Inter-Bold.otf",
    "JetBrainsMono-Regular.ttf",
    "JetBrainsMono-SemiBold.ttf",
)
_USUAL: Final = "usualLetters"  # of the application, in points, before the user's scale
_PIECE: Final = 120  # widgets with their own font that are updated in one turn
_LEAST_BODY: Final = 9.75  # points: 13 px at 96 dots an inch


@unique  # two equal values would be one role
class Face(Enum):
    """A role of text: its size relative to the body's, and its weight."""

    DISPLAY = (2.15, QFont.Weight.DemiBold)
    TITLE = (1.38, QFont.Weight.DemiBold)
    HEADING = (1.08, QFont.Weight.DemiBold)
    BODY = (1.0, QFont.Weight.Normal)
    STRONG = (1.0, QFont.Weight.DemiBold)
    BUTTON = (1.0, QFont.Weight.Medium)
    CAPTION = (0.85, QFont.Weight.Normal)
    CAPTION_STRONG = (0.85, QFont.Weight.DemiBold)
    MONO = (0.92, QFont.Weight.Normal)
    MONO_CAPTION = (0.84, QFont.Weight.Normal)
    MONO_STRONG = (0.92, QFont.Weight.DemiBold)


def use_fonts(app: QApplication) -> None:
    """Register the bundled fonts, and use them."""
    for name in FILES:
        QFontDatabase.addApplicationFont(str(resource_path(f"fonts/{name}")))
    body = QFont(app.font())
    body.setFamilies([SANS, *(family for family in body.families() if family != SANS)])
    body.setPointSizeF(max(body.pointSizeF(), _LEAST_BODY))
    body.setFeature(QFont.Tag("tnum"), 1)  # tabular digits everywhere
    app.setFont(body)
    face.cache_clear()


def set_font_scale(app: QApplication, percent: int) -> Generator[None, None, None]:
    """Scale all text relative to the system's size, also what is visible.

    A generator, since the visible part is laid out after each piece; all pieces must run.
    """
    before = app.font().pointSizeF()
    usual = float(app.property(_USUAL) or before)
    app.setProperty(_USUAL, usual)
    ratio = usual * percent / 100 / before
    if ratio == 1.0:
        return
    own = [each for each in app.allWidgets() if each.testAttribute(Qt.WidgetAttribute.WA_SetFont)]
    fonts = iter([(each, QFont(each.font())) for each in own])
    body = QFont(app.font())
    body.setPointSizeF(before * ratio)
    app.setFont(body)
    face.cache_clear()
    for window in app.topLevelWidgets():  # Qt only sends this to them while its main loop runs
        app.sendEvent(window, QEvent(QEvent.Type.ApplicationFontChange))
    try:
        yield
        while piece := list(islice(fonts, _PIECE)):
            for widget, font in piece:
                _scale_font(widget, font, ratio)
            yield
    finally:
        for widget, font in fonts:
            _scale_font(widget, font, ratio)


def _scale_font(widget: QWidget, font: QFont, ratio: float) -> None:
    if isValid(widget):
        font.setPointSizeF(font.pointSizeF() * ratio)
        widget.setFont(font)


_body: QFont | None = None  # of a picture that is being drawn, instead of the application's


@contextmanager
def body_font(body: QFont) -> Iterator[None]:
    """Meanwhile all roles are relative to this font, for a picture in a size of its own."""
    global _body
    _body = body
    face.cache_clear()
    try:
        yield
    finally:
        _body = None
        face.cache_clear()


@lru_cache(maxsize=len(Face))
def face(role: Face) -> QFont:
    """The font of a role. Shared, so do not change it."""
    size, weight = role.value
    font = QFont(_body or QApplication.font())
    if role in (Face.MONO, Face.MONO_CAPTION, Face.MONO_STRONG):
        font.setFamilies([MONO])
        font.setStyleHint(QFont.StyleHint.Monospace)
    font.setPointSizeF(font.pointSizeF() * size)
    font.setWeight(weight)
    return font
