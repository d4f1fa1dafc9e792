"""Applies fonts, style and palette, in step with the scheme."""

from __future__ import annotations

from functools import lru_cache

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication, QToolTip

from ace_gui.gui.theme.style import WorkbenchStyle
from ace_gui.gui.theme.tokens import Scheme, Tokens, current_theme
from ace_gui.gui.theme.type_scale import Face, face, use_fonts


class ThemeWatcher(QObject):
    """Keeps the application's palette in step with the scheme.

    Child of the application. ``changed`` carries the new ``Tokens``.
    """

    changed = Signal(object)

    def __init__(self, app: QApplication) -> None:
        super().__init__(app)
        self._app = app
        self._shown: Tokens | None = None
        app.styleHints().colorSchemeChanged.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Apply the current scheme's theme, if it is not applied already."""
        theme = current_theme()
        if theme is self._shown:
            return
        self._shown = theme
        palette = palette_of(theme)
        self._app.setPalette(palette)
        QToolTip.setPalette(palette)
        self.changed.emit(theme)


def apply_theme(app: QApplication) -> ThemeWatcher:
    """Apply fonts, style and palette to ``app``, and follow the system's scheme.

    Calling it again returns the same watcher.
    """
    existing = app.findChild(ThemeWatcher)
    if existing is not None:
        return existing
    use_fonts(app)
    app.setStyle(WorkbenchStyle())
    QToolTip.setFont(face(Face.CAPTION))
    return ThemeWatcher(app)


def set_scheme(scheme: Scheme) -> None:
    """Use the light or the dark theme, or follow the system's again."""
    app = QApplication.instance()
    if not isinstance(app, QApplication):
        raise RuntimeError("set_scheme needs a QApplication")
    app.setProperty("colourScheme", scheme)
    wanted = {"light": Qt.ColorScheme.Light, "dark": Qt.ColorScheme.Dark}
    # The platform uses this for title bars and file dialogs where it can.
    app.styleHints().setColorScheme(wanted.get(scheme, Qt.ColorScheme.Unknown))
    watcher = app.findChild(ThemeWatcher)
    if watcher is not None:
        watcher.refresh()


@lru_cache(maxsize=2)
def palette_of(theme: Tokens) -> QPalette:
    """The Qt palette of ``theme``, including the disabled state. Shared, so do not change it."""
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
