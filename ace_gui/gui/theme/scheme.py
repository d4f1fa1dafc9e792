"""The current scheme, light or dark."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication

from ace_gui.gui.theme.tokens import DARK, LIGHT, Tokens

Scheme = Literal["light", "dark", "system"]


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
