"""The look of the window: one table of tokens, and the code that paints with it.

``tokens``: colours, palette and fonts; ``style`` draws every control, with ``drawn_controls``,
which also has the looks of widgets by kind; ``painting``: swatches, shares, lines of text, icons.
"""

from ace_gui.gui.theme.drawn_controls import change_kind
from ace_gui.gui.theme.painting import icon
from ace_gui.gui.theme.style import apply_theme
from ace_gui.gui.theme.tokens import (
    DARK,
    LIGHT,
    Face,
    Scheme,
    ThemeWatcher,
    Tokens,
    body_font,
    current_theme,
    face,
    palette_of,
    repetition,
    set_font_scale,
    set_scheme,
)

__all__ = [
    "DARK",
    "LIGHT",
    "Face",
    "Scheme",
    "ThemeWatcher",
    "Tokens",
    "apply_theme",
    "body_font",
    "change_kind",
    "current_theme",
    "face",
    "icon",
    "palette_of",
    "repetition",
    "set_font_scale",
    "set_scheme",
]
