"""Plots as SVG text: axes, ticks and marks, coloured by CSS classes of the page.

All content of elements is escaped. Lengths are CSS pixels, y downwards.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from markupsafe import Markup, escape

from ace_gui.formatting import power_of_ten, printable, value_text

WIDTH: Final = 900.0
LEFT, TOP, BOTTOM = 74.0, 12.0, 46.0
_SMALLEST, _LARGEST = 1e-3, 1e5
SYMBOLS: Final = ("circle", "square", "triangle", "diamond", "cross")


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


def tag(name: str, *children: str, **attributes: object) -> Markup:
    """An element. In attribute names ``_`` stands for ``-``, and a trailing ``_`` is dropped.

    Children and attributes are escaped, unless they are elements themselves.
    """
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(visible(_short(value)))}"'
        for key, value in attributes.items()
    )
    inside = "".join(escape(visible(child)) for child in children)
    return Markup(f"<{name}{words}>{inside}</{name}>")


def visible(text: str) -> str:
    """``printable``, with line breaks as they are; elements are not changed."""
    return text if isinstance(text, Markup) else printable(text, keep="\n")


def _short(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


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


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A plot's rectangle and axes. ``rows``: names for y = 0, 1, … instead of ticks."""

    x: Axis
    y: Axis
    height: float = 300.0
    right: float = 14.0
    rows: Sequence[str] = ()

    @property
    def left(self) -> float:
        """Left end of the rectangle: names need more room than numbers."""
        return max(LEFT, 26.0 + 6.6 * max(map(len, self.rows), default=0))

    def point(self, x: float, y: float) -> tuple[float, float]:
        """The position of a point in the picture, in pixels."""
        across = self.left + self.x.share(x) * (WIDTH - self.right - self.left)
        down = self.height - BOTTOM - self.y.share(y) * (self.height - BOTTOM - TOP)
        return across, down

    def picture(
        self, title: str, description: str, marks: Iterable[str], style: str = ""
    ) -> Markup:
        """The plot with its grid, axes and marks, named and described for screen readers.

        ``style``: for a picture in a file of its own.
        """
        return tag(
            "svg",
            *([tag("style", style)] if style else []),
            tag("title", title),
            tag("desc", description),
            *self._across(),
            *self._up(),
            *marks,
            tag("rect", class_="frame", fill="none", **self._rectangle()),
            viewBox=f"0 0 {WIDTH:g} {self.height:g}",
            xmlns="http://www.w3.org/2000/svg",
            role="img",
            aria_label=f"{title}. {description}",
        )

    def _rectangle(self) -> dict[str, object]:
        width, height = WIDTH - self.right - self.left, self.height - BOTTOM - TOP
        return {"x": self.left, "y": TOP, "width": width, "height": height}

    def _across(self) -> Iterator[Markup]:
        bottom = self.height - BOTTOM
        for value, text in self.x.ticks():
            x, _ = self.point(value, self.y.low)
            yield tag("line", class_="grid", x1=x, x2=x, y1=TOP, y2=bottom)
            yield tag("text", text, class_="tick", x=x, y=bottom + 17, text_anchor="middle")
        middle = (self.left + WIDTH - self.right) / 2
        yield tag("text", self.x.title, class_="axis", x=middle, y=self.height - 8, **_MIDDLE)

    def _up(self) -> Iterator[Markup]:
        named: list[tuple[float, str]] = [*enumerate(self.rows)]
        for value, text in named or self.y.ticks():
            _, y = self.point(self.x.low, value)
            yield tag("line", class_="grid", x1=self.left, x2=WIDTH - self.right, y1=y, y2=y)
            yield tag("text", text, class_="tick", x=self.left - 8, y=y + 4, text_anchor="end")
        middle = (TOP + self.height - BOTTOM) / 2
        turned = f"rotate(-90 14 {middle:g})"
        yield tag(
            "text", self.y.title, class_="axis", x=14.0, y=middle, transform=turned, **_MIDDLE
        )


_MIDDLE: Final = {"text_anchor": "middle"}


def power(value: float) -> str:
    """A number with a power of ten: 10⁻⁵, 2×10⁻⁴."""
    digits, exponent = f"{value:.0e}".split("e")
    times = "" if digits == "1" else f"{digits}×"
    return f"{times}{power_of_ten(int(exponent))}"


def line(points: Iterable[tuple[float, float]], class_: str) -> Markup:
    """A polyline through the points."""
    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return tag("polyline", class_=f"line {class_}", fill="none", points=text)


def symbol(kind: str, x: float, y: float, class_: str, tooltip: str, size: float = 3.6) -> Markup:
    """A symbol of about ``size`` around a point; ``tooltip`` is its title element."""
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
    return tag("path", tag("title", tooltip), class_=f"mark {kind} {class_}", d=shapes[kind])
