"""The sheet that a figure is printed on: its size, letters and colours, and where panels stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ace_gui.errors import RecipeError
from ace_gui.figures.charts import Panel

SMALLEST: Final = 20.0
LARGEST: Final = 1200.0
"""Least and greatest width and height in mm."""

SMALLEST_POINTS: Final = 3
LARGEST_POINTS: Final = 40
"""Least and greatest size of letters."""

ROW: Final = 66.0
"""Height in mm of a row of panels, if nothing is said."""


class Colours(StrEnum):
    """How experts are told apart."""

    SAFE = "colour-blind safe"
    GREY = "grey"
    WINDOW = "as in the window"


class Letters(StrEnum):
    """The kind of type."""

    SANS = "sans"
    SERIF = "serif"


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """How a figure is printed. Raises RecipeError for a size that cannot be printed."""

    width: float = 190.0
    """In mm. Journals have about 90 for one column, 140, and 190 for two."""

    height: float | None = None
    """In mm; None: 66 for each row of panels."""

    points: float = 8.0
    """Size of letters in points of 1/72 inch."""

    letters: Letters = Letters.SANS
    """The family of the letters."""
    colours: Colours = Colours.SAFE
    """The set of colours."""

    limits: bool = True
    """Whether thresholds are drawn."""

    before: bool = True
    """Whether spectra before refinement are drawn, dashed."""

    crosses: bool = True
    """Whether unreliable values are marked by crosses."""

    names: bool = False
    """Whether curves have their names at their ends instead of a legend."""

    def __post_init__(self) -> None:
        for name, value in (("width", self.width), ("height", self.height)):
            if value is not None and not SMALLEST <= value <= LARGEST:
                raise RecipeError(
                    f"A figure's {name} is from {SMALLEST:g} to {LARGEST:g} mm, not {value:g}.",
                    key=name,
                )
        if not SMALLEST_POINTS <= self.points <= LARGEST_POINTS:
            raise RecipeError(
                f"Letters have {SMALLEST_POINTS} to {LARGEST_POINTS} points, not {self.points:g}.",
                key="letters",
            )

    def rows(self, panels: Sequence[Panel]) -> list[list[int]]:
        """The indices of the panels of each row: beside each other as far as the width allows."""
        rows: list[list[int]] = []
        room = 0.0
        for index, panel in enumerate(panels):
            if rows and panel.width <= room:
                rows[-1].append(index)
                room -= panel.width
            else:
                rows.append([index])
                room = self.width - panel.width
        return rows

    def tall(self, panels: Sequence[Panel]) -> float:
        """The height in mm."""
        if self.height is not None:
            return self.height
        return ROW * len(self.rows(panels))
