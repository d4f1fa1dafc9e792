"""Text for people: plain, short, with units."""

from __future__ import annotations

import html
import math
import os.path
import unicodedata
from collections.abc import Sequence

_ZERO_WIDTH_SPACE = "\u200b"
_MULTIPLES = ("kB", "MB", "GB", "TB")


def plain(text: str) -> str:
    """Without control and direction characters, which names in files may carry; newlines stay."""
    if text.replace("\n", "").isprintable():  # the usual case, told fast: tables ask for every cell
        return text
    return "".join(
        character
        for character in text
        if character == "\n" or unicodedata.category(character) not in ("Cc", "Cf")
    )


def breakable(text: str) -> str:
    """``plain``, with places inside long paths and names where a label may wrap."""
    text = plain(text)
    for character in "/\\_":
        text = text.replace(character, character + _ZERO_WIDTH_SPACE)
    return text


def tooltip(text: str) -> str:
    """For setToolTip: shown literally and wrapped, whatever markup the text looks like."""
    return f"<p style='white-space: pre-wrap'>{html.escape(plain(text))}</p>"


def human_bytes(count: int) -> str:
    """``475 MB``, ``1.3 GB``: decimal units, two or three figures."""
    if count < 1000:
        return f"{count} B"
    value = float(count)
    for unit in _MULTIPLES:
        value /= 1000
        if value < 999.5 or unit == _MULTIPLES[-1]:
            break
    return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"


def duration(seconds: float) -> str:
    """``0:41``, ``1:02:03``."""
    whole = max(0, math.ceil(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, remainder = divmod(rest, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{remainder:02d}"
    return f"{minutes}:{remainder:02d}"


def shape_text(shape: tuple[int, ...]) -> str:
    """``768 × 3072``; a scalar has no shape and says so."""
    return " × ".join(str(size) for size in shape) if shape else "scalar"


def shared_prefix(names: Sequence[str]) -> str:
    """The dotted beginning that all names share: ``vit.encoder.layer.``; empty if none is."""
    shared = os.path.commonprefix(list(names))  # noqa: RUF071 (cut back to a dot below)
    return shared[: shared.rfind(".") + 1]


def value_text(value: float | bool | str) -> str:
    """A parameter's value as one would write it: ``0.3``, ``1e-5``, ``2e-4``, ``True``."""
    if isinstance(value, str | bool):
        return str(value)
    if value != 0 and not 1e-3 <= abs(value) < 1e5:
        mantissa, exponent = f"{value:.6e}".split("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    return f"{value:.6g}"
