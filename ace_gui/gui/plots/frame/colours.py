"""Colours of experts and of matrix cells, for light and dark.

A cell's lightness alone gives its value, so it can be read with any colour vision. The hue of a
diverging scale only repeats the sign of the number in the cell.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from PySide6.QtGui import QColor

from ace_gui.gui.theme import DARK, LIGHT, Tokens

_POSITIVE: Final = {False: "#0a4f9e", True: "#8cc4ff"}  # by whether the theme is dark
_NEGATIVE: Final = {False: "#8a4200", True: "#ffb066"}
_MIDDLE: Final = 0.05 * (21**0.5 - 1)  # the luminance on which black and white are equally clear


def in_theme(expert_colour: str, theme: Tokens) -> str:
    """An expert's colour of either theme, as the colour with the same index in ``theme``."""
    for palette in (LIGHT.expert_colours, DARK.expert_colours):
        if expert_colour in palette:
            return theme.expert_colours[palette.index(expert_colour)]
    return expert_colour


def cell_colour(share: float, theme: Tokens) -> str:
    """From the background at 0 to blue at 1 and to orange at −1, clipped beyond."""
    start, end = (
        np.array(QColor(colour).getRgb())
        for colour in (theme.card, (_POSITIVE if share >= 0 else _NEGATIVE)[theme.dark])
    )
    return QColor(*map(round, start + min(abs(share), 1.0) * (end - start))).name()


def ink_on(colour: str) -> str:
    """Black or white, whichever has the higher contrast on ``colour``: at least 4.5:1."""
    parts = QColor(colour)
    channels = np.array([parts.redF(), parts.greenF(), parts.blueF()])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    luminance = linear @ (0.2126, 0.7152, 0.0722)  # WCAG 2.2
    return "#000000" if luminance > _MIDDLE else "#ffffff"
