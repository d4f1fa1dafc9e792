"""Plots as values: axes, marks and lines, which ``plot.svg.jinja`` draws.

Colours are CSS classes of the page. Lengths are CSS pixels, y downwards.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ace_gui.engine.contract.plan import ROLE_FAMILIES
from ace_gui.formatting import power_of_ten, value_text

WIDTH: Final = 900.0
LEFT, TOP, BOTTOM = 74.0, 12.0, 46.0
_SMALLEST, _LARGEST = 1e-3, 1e5
SYMBOLS: Final = dict(
    zip(ROLE_FAMILIES, ("circle", "square", "triangle", "diamond", "cross"), strict=True)
)


def _style() -> str:
    """The rules of the page's style sheet that concern pictures, with the colours of a light page.

    Programs that show a picture alone often know no variables.
    """
    sheet = (Path(__file__).parent / "report.css").read_text("utf-8")
    colours = dict(reversed(re.findall(r"--(\w+): (#\w+);", sheet)))
    rules = re.findall(r"(?:svg |\.line|\.mark)[^{}]*\{[^}]*\}", sheet)
    return re.sub(r"var\(--(\w+)\)", lambda found: colours[found[1]], "\n".join(rules))


STYLE: Final = _style()
"""For pictures in files of their own."""


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A quantity from ``low`` to ``high`` (``low`` < ``high``; both over 0 if ``log``)."""

    title: str
    low: float
    high: float
    log: bool = False

    @classmethod
    def over(cls, title: str, values: Iterable[float], *, log: bool = False) -> Axis:
        """An axis for all values with a margin; it starts at 0 unless ``log``."""
        values = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
        if log:
            low, high = min(values, default=1.0), max(values, default=10.0)
            room = max((high / low) ** 0.04, math.sqrt(10 * low / high))  # at least a decade
            return cls(title=title, low=low / room, high=high * room, log=True)
        low, high = min([*values, 0.0]), max(values, default=1.0)
        return cls(title=title, low=low, high=low + ((high - low) * 1.05 or 1.0))

    def share(self, value: float) -> float:
        """0 at ``low``, 1 at ``high``."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[tuple[float, str]]:
        """About six round values on the axis, and their labels."""
        values = list(_decades(self.low, self.high) if self.log else _round(self.low, self.high))
        if self.log and any(not _SMALLEST <= value < _LARGEST for value in values):
            return [(value, power(value)) for value in values]
        return [(value, value_text(value)) for value in values]


def _round(low: float, high: float) -> Iterator[float]:
    rough = (high - low) / 6
    unit = 10 ** math.floor(math.log10(rough))
    step = next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= rough)
    for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1):
        yield number * step


def _decades(low: float, high: float) -> Iterator[float]:
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    if last - first < 2:  # few decades: values between them too
        for power in range(first - 1, last + 1):
            yield from (f * 10.0**power for f in (1, 2, 5) if low <= f * 10.0**power <= high)
        return
    for power in range(first, last + 1, math.ceil((last - first) / 7)):
        yield 10.0**power


Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A plot, in the quantities of its axes. ``rows``: names for y = 0, 1, … instead of ticks.

    ``marks``: a family of roles, a point and a tooltip. ``lines``: a CSS class and points.
    ``medians``: of rows. ``limit``: a line across, and its name. ``families``: of roles, for a
    legend in the picture.
    """

    title: str
    description: str
    x: Axis
    y: Axis
    height: float = 300.0
    right: float = 14.0
    rows: Sequence[str] = ()
    marks: Sequence[tuple[str, float, float, str]] = ()
    lines: Sequence[tuple[str, Sequence[Point]]] = ()
    medians: Sequence[Point] = ()
    limit: tuple[float, str] | None = None
    families: Sequence[str] = ()

    @property
    def left(self) -> float:
        """Left end of the axes: names need more room than numbers."""
        return max(LEFT, 26.0 + 6.6 * max(map(len, self.rows), default=0))

    @property
    def end(self) -> float:
        """Right end of the axes."""
        return WIDTH - self.right

    @property
    def bottom(self) -> float:
        """Lower end of the axes."""
        return self.height - BOTTOM

    def across(self, x: float) -> float:
        """Where a value of the x axis is in the picture."""
        return self.left + self.x.share(x) * (self.end - self.left)

    def down(self, y: float) -> float:
        """Where a value of the y axis is in the picture."""
        return self.bottom - self.y.share(y) * (self.bottom - TOP)


def power(value: float) -> str:
    """A number with a power of ten: 10⁻⁵, 2×10⁻⁴."""
    digits, exponent = f"{value:.0e}".split("e")
    times = "" if digits == "1" else f"{digits}×"
    return f"{times}{power_of_ten(int(exponent))}"


def symbol(family: str, x: float, y: float, size: float) -> str:
    """The path of the symbol of a family of roles, of about ``size`` around a point."""
    shapes = {
        "circle": f"M{x - size:.1f} {y:.1f}a{size} {size} 0 1 0 {2 * size} 0"
        f"a{size} {size} 0 1 0 {-2 * size} 0",
        "square": f"M{x - size:.1f} {y - size:.1f}h{2 * size}v{2 * size}h{-2 * size}z",
        "triangle": f"M{x:.1f} {y - 1.2 * size:.1f}l{1.2 * size:g} {2 * size}h{-2.4 * size:g}z",
        "diamond": f"M{x:.1f} {y - 1.4 * size:.1f}l{1.2 * size:g} {1.4 * size:g}"
        f"l{-1.2 * size:g} {1.4 * size:g}l{-1.2 * size:g} {-1.4 * size:g}z",
        "cross": f"M{x - size:.1f} {y - size:.1f}l{2 * size} {2 * size}m0 {-2 * size}"
        f"l{-2 * size} {2 * size}",
    }
    return shapes[SYMBOLS[family]]
