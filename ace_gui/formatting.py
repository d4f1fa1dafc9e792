"""Text for people: file contents made safe for a sentence or a terminal, and numbers with units."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

NAMES_SHOWN: Final = 8
"""Largest number of names in a sentence."""

_LONGEST: Final = 160
_MULTIPLES: Final = ("kB", "MB", "GB", "TB")
_SUPERSCRIPTS: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def printable(text: str, keep: str = "") -> str:
    """``text`` with control, bidirectional and other invisible characters escaped.

    It is safe to print in a terminal. ``keep``: characters that stay.
    """
    if text.isprintable():
        return text
    letters = []
    for letter in text:
        if letter.isprintable() or letter in keep:
            letters.append(letter)
        else:
            letters.append(letter.encode("unicode_escape").decode("ascii"))
    return "".join(letters)


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Rows as CSV. A text that a spreadsheet would take for a formula gets an apostrophe."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows([[_csv_cell(value) for value in row] for row in rows])
    return text.getvalue()


def _csv_cell(value: object) -> object:
    if not isinstance(value, str) or not value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def plain(name: str) -> str:
    """``printable`` text, shortened to 160 characters."""
    printed = printable(name[: 2 * _LONGEST])
    if len(name) <= _LONGEST and len(printed) <= _LONGEST:
        return printed
    return printed[: _LONGEST - 1] + "…"


def quoted_value(value: object) -> str:
    """``repr`` of a value, printable and shortened; also if Python refuses to print a number."""
    try:
        return plain(repr(value))
    except ValueError:
        return "a number of thousands of digits"


def path_text(path: Path) -> str:
    """The whole path as it was given, safe for a terminal."""
    return printable(str(path))


def listing(names: Collection[str]) -> str:
    """The first eight names in backquotes, and the number of further ones."""
    first = [f"`{plain(name)}`" for name in list(names)[:NAMES_SHOWN]]
    more = len(names) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")


def alternatives(words: Collection[str]) -> str:
    """The words in a sentence, as in "a model or an adapter"."""
    *first, last = words
    if first:
        return f"{', '.join(first)} or {last}"
    return last


def conjunction(words: Collection[str]) -> str:
    """The words in a sentence, as in "a base, a model and an adapter"."""
    *first, last = words
    if first:
        return f"{', '.join(first)} and {last}"
    return last


def number_text(value: float, digits: int = 2) -> str:
    """``value`` with ``digits`` significant digits: "0.31", "12", "4.2×10⁻⁵"."""
    if not math.isfinite(value):
        if value != value:
            return "not a number"
        if value > 0:
            return "∞"
        return "−∞"
    if value == 0:
        return "0"
    mantissa, exponent_text = f"{abs(value):.{digits - 1}e}".split("e")
    exponent = int(exponent_text)
    sign = "−" if value < 0 else ""
    if -4 < exponent < 5:
        return f"{sign}{abs(float(f'{value:.{digits - 1}e}')):.{max(digits - 1 - exponent, 0)}f}"
    return f"{sign}{mantissa}×{power_of_ten(exponent)}"


def power_of_ten(exponent: int) -> str:
    """``10⁻⁵`` for the exponent −5."""
    return f"10{str(exponent).translate(_SUPERSCRIPTS)}"


def value_text(value: float | bool | str) -> str:
    """A parameter's value as one would write it: ``0.3``, ``1e-5``, ``2e-4``, ``True``."""
    if isinstance(value, str | bool):
        return str(value)
    if value != 0 and math.isfinite(value) and not 1e-3 <= abs(value) < 1e5:
        mantissa, exponent = f"{value:.6e}".split("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    return f"{value:.6g}"


def counted(count: int, singular: str, many: str, /, **values: object) -> str:
    """``1 matrix``, ``6 matrices``; or whole sentences, with the count instead of ``%n``."""
    if count == 1:
        text = singular
    else:
        text = many
    if "%n" in many:
        text = text.replace("%n", str(count))
    else:
        text = f"{count} {text}"
    if values:
        return text.format(**values)
    return text


def dimensions(shape: Sequence[int]) -> str:
    """``768×3072`` within a sentence, or ``a scalar``."""
    return "×".join(map(str, shape)) or "a scalar"


def shape_text(shape: tuple[int, ...]) -> str:
    """``768 × 3072``, or a word for a scalar, which has no shape."""
    if shape:
        return " × ".join(str(size) for size in shape)
    return "scalar"


def human_bytes(count: int) -> str:
    """``475 MB``, ``1.3 GB``: decimal units, two or three figures."""
    if count < 1000:
        return f"{count} B"
    value = float(count)
    for unit in _MULTIPLES:
        value /= 1000
        if value < 999.5 or unit == _MULTIPLES[-1]:
            break
    if value < 9.95:
        return f"{value:.1f} {unit}"
    return f"{value:.0f} {unit}"


def duration(seconds: float) -> str:
    """``0:41``, ``1:02:03``."""
    total = max(0, math.ceil(seconds))
    hours, below_hour = divmod(total, 3600)
    minutes, remainder = divmod(below_hour, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{remainder:02d}"
    return f"{minutes}:{remainder:02d}"


def symbol_of(label: str) -> str:
    """``τ`` for ``Threshold τ``; "" for a label without a symbol."""
    last = label.rpartition(" ")[2]
    if len(last) == 1:
        return last
    return ""
