"""The colours of figures: for print, in greys, and as in the window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ace_gui.figures.charts import Ink
from ace_gui.figures.sheet import Colours


@dataclass(frozen=True, kw_only=True)
class Palette:
    """A set of colours, as hexadecimal numbers in small letters."""

    experts: Sequence[str]
    """Of experts in turn; those beyond have dashes."""

    families: Sequence[str]
    """Of the families of roles in turn; the last one is for all others."""

    inks: Mapping[Ink, str]
    """What else is drawn."""

    ground: str
    """Behind everything, and in symbols that are not filled."""

    faint: str
    """Lines across at ticks."""

    edge: str
    """Axes."""

    quiet: str
    """The letters of ticks."""

    cells: str
    """matplotlib's name of the scale of a map."""


# Okabe and Ito's colours, which people with any colour vision tell apart; without yellow, which
# is too light on white.
_SAFE: Final = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9")
_GREYS: Final = ("#404040", "#8c8c8c", "#b8b8b8")
_PRINT: Final = Palette(
    experts=_SAFE,
    families=_SAFE,
    inks={
        Ink.TEXT: "#202020",
        Ink.MERGED: "#000000",
        Ink.BEFORE: "#606060",
        Ink.ALONE: "#909090",
    },
    ground="#ffffff",
    faint="#e4e4e4",
    edge="#808080",
    quiet="#000000",
    cells="cividis",
)

PALETTES: Final[Mapping[Colours, Palette]] = {
    Colours.SAFE: _PRINT,
    Colours.GREY: Palette(
        experts=_GREYS,
        families=_GREYS,
        inks=_PRINT.inks,
        ground=_PRINT.ground,
        faint=_PRINT.faint,
        edge=_PRINT.edge,
        quiet=_PRINT.quiet,
        cells="Greys_r",
    ),
    Colours.WINDOW: Palette(
        experts=("#1c7abb", "#c96f00", "#095c34", "#c42d81", "#79028e"),
        families=("#0870e8", "#b87d08", "#0a642a", "#7a2f78", "#828383"),
        inks={
            Ink.TEXT: "#181b22",
            Ink.MERGED: "#181b22",
            Ink.BEFORE: "#4b5362",
            Ink.ALONE: "#7b8393",
        },
        ground="#ffffff",
        faint="#e8eaef",
        edge="#7b8393",
        quiet="#4b5362",
        cells="cividis",
    ),
}
"""By the choice of colours."""
