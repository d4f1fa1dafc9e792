"""Colours of experts and of matrix cells, for light and dark.

A cell's lightness alone gives its value, so it can be read with any colour vision. The hue of a
diverging scale only repeats the sign of the number in the cell.
"""

from __future__ import annotations

from typing import Final

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
    end = (_POSITIVE if share >= 0 else _NEGATIVE)[theme.dark]
    return _mixed(theme.card, end, min(abs(share), 1.0))


def ink_on(colour: str) -> str:
    """Black or white, whichever has the higher contrast on ``colour``: at least 4.5:1."""
    return "#000000" if _luminance(colour) > _MIDDLE else "#ffffff"


def _mixed(start: str, end: str, share: float) -> str:
    pairs = zip(_channels(start), _channels(end), strict=True)
    return "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in pairs)


def _channels(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[index : index + 2], 16) for index in (1, 3, 5))


def _luminance(colour: str) -> float:
    """Relative luminance of WCAG 2.2."""
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (channel / 255 for channel in _channels(colour))
    ]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
