"""The look of the window: one table of tokens, and the code that paints with it.

``tokens``: colours; ``type_scale``: fonts; ``style`` draws every control, with ``drawn_controls``,
which also has the looks of widgets by kind; ``painting``: swatches, shares, lines of text, icons;
``watcher`` applies them.
"""

from ace_gui.gui.theme.drawn_controls import change_kind
from ace_gui.gui.theme.painting import icon
from ace_gui.gui.theme.tokens import DARK, LIGHT, Scheme, Tokens, current_theme, in_theme
from ace_gui.gui.theme.type_scale import Face, body_font, face, set_font_scale
from ace_gui.gui.theme.watcher import ThemeWatcher, apply_theme, palette_of, set_scheme

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
    "in_theme",
    "palette_of",
    "set_font_scale",
    "set_scheme",
]
