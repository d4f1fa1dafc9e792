"""Numbers as they are shown: those of ``formatting``, with the person's decimal point.

What is written into files takes them from ``formatting``.
"""

from __future__ import annotations

import math

from ace_gui import formatting
from ace_gui.gui.told import told
from ace_gui.gui.words import local, tr


def number_text(value: float, digits: int = 2) -> str:
    """``value`` with ``digits`` significant digits: "0.31", "12", "4.2×10⁻⁵"."""
    if math.isnan(value):
        return tr("not a number")
    return local(formatting.number_text(value, digits))


def short_score_text(score: float) -> str:
    """A mean score as it stands beside others: ".807"."""
    return local(f"{score:.3f}".removeprefix("0"))


def value_text(value: float | bool | str) -> str:
    """A parameter's value as one reads it: ``0.3``, ``1e-5``, ``yes``, a choice."""
    if isinstance(value, bool):
        return tr("yes") if value else tr("no")
    return told(value) if isinstance(value, str) else local(formatting.value_text(value))


def human_bytes(count: int) -> str:
    """``475 MB``, ``1.3 GB``: decimal units, two or three figures."""
    return local(formatting.human_bytes(count))
