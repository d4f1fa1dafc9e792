"""Draws the picture of the README: ``python packaging/make_evidence.py``.

A line for each method of ``DRAWN``: the share of the experts' accuracy that is kept, by the number
of full fine-tunes, with its standard error over the sets of experts.
"""

from __future__ import annotations

import csv
import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SETS: Final = ROOT / "docs/evidence-sets.csv"
PICTURE: Final = ROOT / "resources/screenshots/evidence.svg"


@dataclass(frozen=True, kw_only=True)
class Line:
    """How a method is drawn."""

    name: str
    colour: str
    width: int = 2
    """In px."""
    shift: int = 0
    """Vertical shift of the name in px, where names would overlap."""


DRAWN: Final = {
    "recommended": Line(name="recommended", colour="#b5321c", width=4, shift=-4),
    "TSV-M, cap": Line(name="TSV-M with a cap", colour="#7a6a2b", shift=-3),
    "ACE published": Line(name="ACE as published, its defaults", colour="#2f6db5", shift=9),
    "TIES": Line(name="TIES", colour="#6b4fa0"),
    "averaging": Line(name="averaging", colour="#666666"),
}
"""By the name in the table of sets."""

EXPERTS: Final = (2, 4, 8)

WIDTH = 640
HEIGHT = 300
# margins in px
LEFT = 56
RIGHT = 210
TOP = 20
BOTTOM = 44
LOWEST = 0.6
HIGHEST = 1.0


def shares() -> Mapping[tuple[str, int], Sequence[float]]:
    """The shares of all sets of full fine-tunes, by method and number of experts."""
    found: dict[tuple[str, int], list[float]] = defaultdict(list)
    with SETS.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            if row["kind"] == "full":
                found[row["method"], int(row["T"])].append(float(row["share"]))
    return found


def picture() -> str:
    """The SVG of the shares."""
    shares_of_sets = shares()
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for share in (0.6, 0.7, 0.8, 0.9, 1.0):
        y = _y(share)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>')
        parts.append(_text(LEFT - 8, y + 4, f"{share:.1f}", "end"))
    for index, count in enumerate(EXPERTS):
        parts.append(_text(_x(index), HEIGHT - 24, str(count), "middle"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(_text(middle, HEIGHT - 6, "experts in one model", "middle"))
    for method, line in DRAWN.items():
        points = []
        for index, count in enumerate(EXPERTS):
            of_sets = shares_of_sets[method, count]
            mean = statistics.fmean(of_sets)
            error = statistics.stdev(of_sets) / math.sqrt(len(of_sets))
            points.append((_x(index), _y(mean)))
            bar = f"M{_x(index):.1f} {_y(mean - error):.1f}V{_y(mean + error):.1f}"
            parts.append(f'<path d="{bar}" stroke="{line.colour}"/>')
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        stroke = f'fill="none" stroke="{line.colour}" stroke-width="{line.width}"'
        parts.append(f'<polyline points="{path}" {stroke}/>')
        x, y = points[-1]
        parts.append(_text(x + 8, y + 4 + line.shift, line.name, "start", line.colour))
    return "\n".join([*parts, "</svg>", ""])


def _x(index: int) -> float:
    return LEFT + 24 + index * (WIDTH - LEFT - RIGHT - 48) / (len(EXPERTS) - 1)


def _y(share: float) -> float:
    return TOP + (HIGHEST - share) / (HIGHEST - LOWEST) * (HEIGHT - TOP - BOTTOM)


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#333333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{text}</text>'


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
