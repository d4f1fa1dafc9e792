"""The light and dark colours with which everything in the window is painted, and its fonts.

In both schemes, text has a contrast of at least 4.5:1 and marks of at least 3:1 (WCAG 2.2) on every
background that they are used on. ``edge``, ``line`` and ``grid`` are paler on purpose, because they
carry no information of their own. A hue only identifies an expert; black or white is the merged
model, grey the base; indigo marks what is selected, clickable or heterogeneous. Roles differ in
shape.

Font sizes are relative to the body's, which is the system's size or 9.75 points, whichever is
larger. A larger system font therefore enlarges all of them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, unique
from functools import lru_cache
from itertools import islice
from typing import Any, Final, Literal

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication, QToolTip, QWidget
from shiboken6 import isValid

from ace_gui.paths import resource_path

Scheme = Literal["light", "dark", "system"]


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """The colours of one scheme, as "#rrggbb"."""

    dark: bool
    """Whether it is the dark scheme."""
    canvas: str
    """Background of the window."""
    card: str
    """Background of panels."""
    raised: str
    """Background of buttons and menus."""
    field: str
    """Background of inputs."""
    sunk: str
    """Background of tracks and bands."""
    hover: str
    """Background under the pointer."""
    tint: str
    """Background of the selection."""
    line: str
    """Lines between parts."""
    edge: str
    """Borders of controls."""
    grid: str
    """Lines in plots."""
    toast: str
    """Background of short messages."""
    text: str
    """Text."""
    text2: str
    """Secondary text."""
    text3: str
    """Captions."""
    accent: str
    """The main button, links and focus."""
    accent_hover: str
    """The main button under the pointer."""
    on_accent: str
    """Text on ``accent``."""
    accent_on_tint: str
    """Accent on ``tint``."""
    ok: str
    """Good news."""
    warn: str
    """Warnings."""
    warn_ground: str
    """Background of warnings."""
    bad: str
    """Errors."""
    toast_text: str
    """Text of short messages."""
    toast_action: str
    """Their button."""
    toast_warn: str
    """Warnings in them."""
    toast_bad: str
    """Errors in them."""
    control: str
    """The control in comparisons, in grey."""
    axis: str
    """Axes of plots."""
    merged: str
    """The merge."""
    base: str
    """The base model."""
    expert_colours: tuple[str, ...]
    """Marks of the experts; the same hue at the same index in both schemes."""
    expert_inks: tuple[str, ...]
    """The same hues as text."""

    def colour(self, name: str) -> str:
        """The colour with this name: ``accent``, ``accent 32`` with its opacity, ``expert 7``.

        With more experts than colours, colours repeat. A name that is a colour stays as it is.
        """
        token, _, number = name.partition(" ")
        if token == "expert":
            return self.expert_colours[int(number) % len(self.expert_colours)]
        return getattr(self, token, token) + number

    def ink_of(self, expert_colour: str) -> str:
        """The text variant of a model's colour; other colours are returned unchanged."""
        if expert_colour == self.base:
            return self.text3
        if expert_colour not in self.expert_colours:
            return expert_colour
        return self.expert_inks[self.expert_colours.index(expert_colour)]


_COLOURS: Final[dict[str, tuple[Any, Any]]] = {  # light, dark
    "canvas": ("#eceef2", "#121418"),
    "card": ("#ffffff", "#1b1e24"),
    "raised": ("#ffffff", "#252932"),
    "field": ("#ffffff", "#16181d"),
    "sunk": ("#f4f5f8", "#22262d"),
    "hover": ("#e3e6ec", "#2a2f38"),
    "tint": ("#e9eafb", "#2a2d55"),
    "line": ("#e2e5eb", "#2a2e37"),
    "edge": ("#cdd2db", "#3a404b"),
    "grid": ("#e8eaef", "#2a2e36"),
    "toast": ("#23262e", "#343945"),
    "text": ("#181b22", "#eceef2"),
    "text2": ("#4b5362", "#b4bac6"),
    "text3": ("#636b7b", "#959cab"),
    "accent": ("#4a4fc9", "#7f86f5"),
    "accent_hover": ("#3e43b5", "#959bfa"),
    "on_accent": ("#ffffff", "#0e1022"),
    "accent_on_tint": ("#4a4fc9", "#b9bdff"),
    "ok": ("#1b7a46", "#5ccb8f"),
    "warn": ("#8f5a00", "#e8b04a"),
    "warn_ground": ("#fbf0d9", "#3a2c10"),
    "bad": ("#b3261e", "#ff8a80"),
    "toast_text": ("#f5f6f8", "#f1f3f6"),
    "toast_action": ("#b4b8ff", "#b4b8ff"),
    "toast_warn": ("#ffc46b", "#ffc46b"),
    "toast_bad": ("#ff9c94", "#ff9c94"),
    "control": ("#7b8393", "#707888"),
    "axis": ("#7b8393", "#707888"),
    "merged": ("#181b22", "#ffffff"),
    "base": ("#7b8393", "#8c93a1"),
    "expert_colours": (
        ("#1c7abb", "#c96f00", "#095c34", "#c42d81", "#79028e"),
        ("#3b97cc", "#e0931f", "#83edb4", "#e14f7b", "#ecb2f9"),
    ),
    "expert_inks": (
        ("#1c7abb", "#a05900", "#095c34", "#bc2a7b", "#79028e"),
        ("#3b97cc", "#e0931f", "#83edb4", "#ec7299", "#ecb2f9"),
    ),
}
LIGHT: Final = Tokens(dark=False, **{name: pair[0] for name, pair in _COLOURS.items()})
DARK: Final = Tokens(dark=True, **{name: pair[1] for name, pair in _COLOURS.items()})


def repetition(colour: str) -> int:
    """How many earlier experts have the same colour; 0 for other colours."""
    token, _, number = colour.partition(" ")
    if token == "expert":
        return int(number) // len(LIGHT.expert_colours)
    return 0


def current_theme() -> Tokens:
    """The tokens of the scheme that the user chose, or else of the system's."""
    return _shown or _asked_for()


_shown: Tokens | None = None  # what a ThemeWatcher has applied; every painted part asks


def _asked_for() -> Tokens:
    if _is_dark():
        return DARK
    return LIGHT


def _is_dark() -> bool:
    app = QApplication.instance()
    if not isinstance(app, QApplication):
        return False
    chosen = app.property("colourScheme")
    if chosen in ("light", "dark"):
        return bool(chosen == "dark")
    reported = QGuiApplication.styleHints().colorScheme()
    if reported != Qt.ColorScheme.Unknown:
        return bool(reported == Qt.ColorScheme.Dark)
    window = app.style().standardPalette().color(QPalette.ColorRole.Window)
    return bool(window.lightness() < 128)


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
_USUAL: Final = "usualFontSize"  # the application's property with its points before scaling
_PIECE: Final = 120  # widgets with their own font that are updated in one turn
_LEAST_BODY: Final = 9.75  # points: 13 px at 96 dots an inch


@unique  # roles with equal values would be one role
class Face(Enum):
    """A role of text, as its size relative to the body's, and its weight."""

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
    """Scale all text relative to the system's size, including visible text.

    It is a generator, because the visible part is laid out after each piece. All pieces must run.
    """
    size = app.font().pointSizeF()
    default_size = float(app.property(_USUAL) or size)
    app.setProperty(_USUAL, default_size)
    ratio = default_size * percent / 100 / size
    if ratio == 1.0:
        return
    with_font = [
        widget for widget in app.allWidgets() if widget.testAttribute(Qt.WidgetAttribute.WA_SetFont)
    ]
    fonts = iter([(widget, QFont(widget.font())) for widget in with_font])
    body = QFont(app.font())
    body.setPointSizeF(size * ratio)
    app.setFont(body)
    face.cache_clear()
    for window in app.topLevelWidgets():  # Qt itself sends this event only while its main loop runs
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


_body: QFont | None = None  # replaces the application's font while a picture is drawn


@contextmanager
def body_font(body: QFont) -> Iterator[None]:
    """Make all roles relative to this font for a while, for a picture with its own size of text."""
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
    """The font of a role. It is shared, so do not change it."""
    size, weight = role.value
    font = QFont(_body or QApplication.font())
    if role in (Face.MONO, Face.MONO_CAPTION, Face.MONO_STRONG):
        font.setFamilies([MONO])
        font.setStyleHint(QFont.StyleHint.Monospace)
    font.setPointSizeF(font.pointSizeF() * size)
    font.setWeight(weight)
    return font


class ThemeWatcher(QObject):
    """Keeps the application's palette in step with the scheme.

    Child of the application. ``changed`` carries the new ``Tokens``.
    """

    changed = Signal(object)

    def __init__(self, app: QApplication) -> None:
        super().__init__(app)
        self._app = app
        app.styleHints().colorSchemeChanged.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Apply the current scheme's theme, if it is not applied already."""
        global _shown
        theme = _asked_for()
        if theme is _shown:
            return
        _shown = theme
        palette = palette_of(theme)
        self._app.setPalette(palette)
        QToolTip.setPalette(palette)
        self.changed.emit(theme)


def set_scheme(scheme: Scheme) -> None:
    """Use the light or the dark theme, or follow the system's again."""
    app = QApplication.instance()
    if not isinstance(app, QApplication):
        raise RuntimeError("set_scheme needs a QApplication")
    app.setProperty("colourScheme", scheme)
    schemes = {"light": Qt.ColorScheme.Light, "dark": Qt.ColorScheme.Dark}
    # The platform uses this for title bars and file dialogs where it can.
    app.styleHints().setColorScheme(schemes.get(scheme, Qt.ColorScheme.Unknown))
    watcher = app.findChild(ThemeWatcher)
    if watcher is not None:
        watcher.refresh()


@lru_cache(maxsize=2)
def palette_of(theme: Tokens) -> QPalette:
    """The Qt palette of ``theme``, with the disabled state. It is shared, so do not change it."""
    role = QPalette.ColorRole
    colours = {
        role.Window: theme.canvas,
        role.WindowText: theme.text,
        role.Base: theme.field,
        role.AlternateBase: theme.sunk,
        role.Text: theme.text,
        role.PlaceholderText: theme.text3,
        role.Button: theme.raised,
        role.ButtonText: theme.text,
        role.BrightText: theme.bad,
        role.ToolTipBase: theme.toast,
        role.ToolTipText: theme.toast_text,
        role.Highlight: theme.tint,
        role.HighlightedText: theme.text,
        role.Accent: theme.accent,
        role.Link: theme.accent,
        role.LinkVisited: theme.accent_on_tint,
        # Text and background colours that Qt has no name for; Fusion draws no control with these.
        role.Light: theme.card,
        role.Midlight: theme.hover,
        role.Mid: theme.text2,
        role.Shadow: theme.warn,
    }
    palette = QPalette(QColor(theme.raised), QColor(theme.canvas))
    for which, colour in colours.items():
        palette.setColor(which, QColor(colour))
    for which in (role.WindowText, role.Text, role.ButtonText, role.PlaceholderText):
        palette.setColor(QPalette.ColorGroup.Disabled, which, QColor(theme.text3))
    palette.setColor(QPalette.ColorGroup.Disabled, role.Highlight, QColor(theme.hover))
    palette.setColor(QPalette.ColorGroup.Disabled, role.HighlightedText, QColor(theme.text2))
    return palette
