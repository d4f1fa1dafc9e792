"""Draws the picture of the README from its table: ``python packaging/make_evidence.py``.

A line for each method of ``SHOWN``: the share of the experts' accuracy by the number of experts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs/evidence.md"
PICTURE: Final = ROOT / "resources/screenshots/evidence.svg"

SHOWN: Final = {
    "**recommended**": ("recommended", "#b5321c", 3),
    "ACE published": ("ACE as published, its defaults", "#2f6db5", 1),
    "TSV-M, cap": ("TSV-M with a cap", "#7a6a2b", 1),
    "TIES": ("TIES", "#6b4fa0", 1),
    "averaging": ("averaging", "#666666", 1),
}
"""By row of the table: name in the picture, colour, and the cell of each count within its group."""

EXPERTS: Final = {2: 1, 4: 4, 8: 8}
"""By number of experts, the first column of its group in the table."""

WIDTH = 640
HEIGHT = 300
# margins in px
LEFT = 56
RIGHT = 210
TOP = 20
BOTTOM = 44
LOWEST = 0.6
HIGHEST = 1.0


def shares(row: list[str]) -> list[float]:
    """The share of every number of experts; the recommended merge has one cell a group."""
    found = []
    for first, end in zip(EXPERTS.values(), [*list(EXPERTS.values())[1:], len(row)], strict=True):
        cells = [cell.strip("*") for cell in row[first:end] if cell != "–"]
        found.append(float(cells[0]))
    return found


def picture(page: str) -> str:
    """The SVG of a page's table."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines()]
    found = {
        row[0]: shares(row) for row in rows if row[0] in SHOWN and len(row) > max(EXPERTS.values())
    }
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
    for key, (name, colour, thickness) in SHOWN.items():
        points = [(_x(index), _y(share)) for index, share in enumerate(found[key])]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        stroke = f'fill="none" stroke="{colour}" stroke-width="{thickness + 1}"'
        parts.append(f'<polyline points="{path}" {stroke}/>')
        x, y = points[-1]
        parts.append(_text(x + 8, y + 4 + _SHIFTS.get(key, 0), name, "start", colour))
    return "\n".join([*parts, "</svg>", ""])


_SHIFTS: Final = {"**recommended**": -6, "ACE published": 2, "TSV-M, cap": 12}
"""Vertical shifts in px of names that would overlap."""


def _x(index: int) -> float:
    return LEFT + 24 + index * (WIDTH - LEFT - RIGHT - 48) / (len(EXPERTS) - 1)


def _y(share: float) -> float:
    return TOP + (HIGHEST - share) / (HIGHEST - LOWEST) * (HEIGHT - TOP - BOTTOM)


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#333333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{text}</text>'


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(picture(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
