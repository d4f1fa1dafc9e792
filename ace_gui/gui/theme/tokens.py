"""The colours of the window, light and dark, from which everything is painted; which are current.

Text has a contrast of at least 4.5:1 and marks of at least 3:1 (WCAG 2.2) on every background they
are used on, in both schemes. ``edge``, ``line`` and ``grid`` are paler on purpose, because they
carry no information of their own. A hue only identifies an expert; black or white is the merged
model, grey the base; indigo marks what is selected, clickable or heterogeneous. Roles differ in
shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication

Scheme = Literal["light", "dark", "system"]


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """The colours of one scheme, as "#rrggbb".

    Backgrounds: ``canvas`` of the window, ``card`` of panels, ``raised`` of buttons and menus,
    ``field`` of inputs, ``sunk`` of tracks and bands, ``tint`` of the selection. ``text2`` is
    secondary text, ``text3`` captions. ``expert_colours`` are marks and have the same hue at the
    same index in both schemes; ``expert_inks`` are the same hues as text.
    """

    dark: bool
    canvas: str
    card: str
    raised: str
    field: str
    sunk: str
    hover: str
    tint: str
    line: str
    edge: str
    grid: str
    toast: str
    text: str
    text2: str
    text3: str
    accent: str
    accent_hover: str
    on_accent: str
    accent_on_tint: str
    ok: str
    warn: str
    warn_ground: str
    bad: str
    toast_text: str
    toast_action: str
    toast_warn: str
    toast_bad: str
    control: str
    axis: str
    merged: str
    base: str
    expert_colours: tuple[str, ...]
    expert_inks: tuple[str, ...]

    def expert_colour(self, index: int) -> str:
        """The colour of the expert at ``index``; colours repeat, dashed, beyond the palette."""
        return self.expert_colours[index % len(self.expert_colours)]

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


def in_theme(expert_colour: str, theme: Tokens) -> str:
    """An expert's colour of either theme, as the colour with the same index in ``theme``."""
    for palette in (LIGHT.expert_colours, DARK.expert_colours):
        if expert_colour in palette:
            return theme.expert_colours[palette.index(expert_colour)]
    return expert_colour


def current_theme() -> Tokens:
    """The current tokens: of the scheme chosen by the user, or else the system's."""
    return DARK if _is_dark() else LIGHT


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
