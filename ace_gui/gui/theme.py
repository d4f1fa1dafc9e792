"""Light and dark: the colours of every widget and plot, and the icons tinted to match.

Text colours keep a contrast of at least 4.5:1 and graphics of at least 3:1 (WCAG 2.2) against the
backgrounds they stand on, in both schemes. Colours that tell things apart (experts, roles) stay
distinct under the common colour-vision deficiencies; plots add line styles and symbols to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Literal

from PySide6.QtCore import QByteArray, QObject, Qt, Signal
from PySide6.QtGui import QColor, QGuiApplication, QIcon, QPainter, QPalette, QPixmap
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QApplication, QStyleFactory, QToolTip

from ace_gui.engine.contract.role_families import ROLE_FAMILIES
from ace_gui.paths import resource_path

Scheme = Literal["light", "dark", "system"]


@dataclass(frozen=True, kw_only=True)
class Theme:
    """The colours of one scheme, as "#rrggbb".

    ``window`` and ``base`` are the backgrounds of panels and of plots and lists; ``muted`` is for
    secondary text. ``role_colours`` is keyed by ``ROLE_FAMILIES``. ``expert_colours`` have the same
    hue at the same place in every theme.
    """

    dark: bool
    window: str
    base: str
    button: str
    text: str
    muted: str
    disabled: str
    grid: str
    accent: str
    warning: str
    error: str
    expert_colours: tuple[str, ...]
    role_colours: Mapping[str, str] = field(hash=False)

    def expert_colour(self, index: int) -> str:
        """The colour of the expert at ``index``; they repeat beyond the palette's length."""
        return self.expert_colours[index % len(self.expert_colours)]


LIGHT: Final = Theme(
    dark=False,
    window="#f4f5f7",
    base="#ffffff",
    button="#e9ebee",
    text="#1b1e23",
    muted="#575d66",
    disabled="#9aa0a8",
    grid="#dfe2e6",
    accent="#0a63b8",
    warning="#8a5300",
    error="#b3261e",
    expert_colours=(
        "#3948da",
        "#ca7613",
        "#05663f",
        "#e8326a",
        "#6248a1",
        "#1697b1",
        "#615506",
        "#862c67",
    ),
    role_colours=MappingProxyType(
        dict(
            zip(ROLE_FAMILIES, ("#0870e8", "#b87d08", "#0a642a", "#7a2f78", "#828383"), strict=True)
        )
    ),
)

DARK: Final = Theme(
    dark=True,
    window="#222529",
    base="#191b1f",
    button="#2f3339",
    text="#e7e9ec",
    muted="#a6acb5",
    disabled="#6d737c",
    grid="#34383e",
    accent="#6fb4ff",
    warning="#f2b64c",
    error="#ff8f85",
    expert_colours=(
        "#1d6ff9",
        "#bf7001",
        "#97de65",
        "#f7ac9a",
        "#7b6ca7",
        "#02d1f4",
        "#ebdc20",
        "#cf4871",
    ),
    role_colours=MappingProxyType(
        dict(
            zip(ROLE_FAMILIES, ("#5276fa", "#fa6500", "#76f082", "#bf4ea3", "#d3d1cc"), strict=True)
        )
    ),
)


class ThemeWatcher(QObject):
    """Keeps the application's palette in step with the scheme. Child of the application.

    ``changed`` carries the new ``Theme`` after the palette has been set.
    """

    changed = Signal(object)

    def __init__(self, app: QApplication) -> None:
        super().__init__(app)
        self._app = app
        self._shown: Theme | None = None
        app.styleHints().colorSchemeChanged.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Apply the theme of the present scheme, if it is not the one already shown."""
        theme = current_theme()
        if theme is self._shown:
            return
        self._shown = theme
        palette = palette_of(theme)
        self._app.setPalette(palette)
        QToolTip.setPalette(palette)
        self.changed.emit(theme)


def apply_theme(app: QApplication) -> ThemeWatcher:
    """Give ``app`` the Fusion style and a palette that follows the system's light or dark scheme.

    Calling it again returns the same watcher.
    """
    existing = app.findChild(ThemeWatcher)
    if existing is not None:
        return existing
    app.setStyle(QStyleFactory.create("Fusion"))
    return ThemeWatcher(app)


def current_theme() -> Theme:
    """The theme that applies now: the scheme set by hand, else the system's."""
    return DARK if _is_dark() else LIGHT


def set_scheme(scheme: Scheme) -> None:
    """Use the light or the dark theme whatever the system says, or follow it again."""
    app = QApplication.instance()
    if not isinstance(app, QApplication):
        raise RuntimeError("set_scheme needs a QApplication")
    app.setProperty("colourScheme", scheme)
    wanted = {"light": Qt.ColorScheme.Light, "dark": Qt.ColorScheme.Dark}
    # The platform draws title bars and file dialogs by this, where it can.
    app.styleHints().setColorScheme(wanted.get(scheme, Qt.ColorScheme.Unknown))
    watcher = app.findChild(ThemeWatcher)
    if watcher is not None:
        watcher.refresh()


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


def palette_of(theme: Theme) -> QPalette:
    """The Qt palette of ``theme``, disabled state included."""
    role = QPalette.ColorRole
    on_accent = theme.base
    colours = {
        role.Window: theme.window,
        role.WindowText: theme.text,
        role.Base: theme.base,
        role.AlternateBase: theme.window,
        role.Text: theme.text,
        role.PlaceholderText: theme.muted,
        role.Button: theme.button,
        role.ButtonText: theme.text,
        role.BrightText: theme.error,
        role.ToolTipBase: theme.button,
        role.ToolTipText: theme.text,
        role.Highlight: theme.accent,
        role.HighlightedText: on_accent,
        role.Accent: theme.accent,
        role.Link: theme.accent,
        role.LinkVisited: theme.accent,
    }
    palette = QPalette(QColor(theme.button), QColor(theme.window))
    for which, colour in colours.items():
        palette.setColor(which, QColor(colour))
    for which in (role.WindowText, role.Text, role.ButtonText, role.PlaceholderText):
        palette.setColor(QPalette.ColorGroup.Disabled, which, QColor(theme.disabled))
    palette.setColor(QPalette.ColorGroup.Disabled, role.Highlight, QColor(theme.grid))
    palette.setColor(QPalette.ColorGroup.Disabled, role.HighlightedText, QColor(theme.muted))
    return palette


_INK: Final = "#000000"  # what the drawings of resources/icons use for the tint
_ICON_SIZES: Final = (16, 20, 24, 32, 48, 64)


def icon(name: str) -> QIcon:
    """The icon ``resources/icons/NAME.svg`` in the colours of the current theme.

    Raises ``FileNotFoundError`` where there is no such drawing.
    """
    return _tinted(name, current_theme().dark)


@lru_cache(maxsize=64)
def _tinted(name: str, dark: bool) -> QIcon:
    theme = DARK if dark else LIGHT
    tints = {
        "merge": theme.accent,
        "info": theme.accent,
        "warning": theme.warning,
        "error": theme.error,
    }
    drawing = resource_path(f"icons/{name}.svg").read_text(encoding="utf-8")
    result = QIcon()
    for mode, tint in (
        (QIcon.Mode.Normal, tints.get(name, theme.text)),
        (QIcon.Mode.Selected, theme.base),
        (QIcon.Mode.Disabled, theme.disabled),
    ):
        for size in _ICON_SIZES:
            result.addPixmap(_rendered(drawing.replace(_INK, tint), size), mode)
    return result


def _rendered(drawing: str, size: int) -> QPixmap:
    pixmap = QPixmap(size, size)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    QSvgRenderer(QByteArray(drawing.encode())).render(painter)
    painter.end()
    return pixmap
