"""How well a colour is told from another."""

from __future__ import annotations

import numpy as np

TEXT = 4.5
"""Least contrast of letters and their ground (WCAG 2.2, level AA)."""


def linear(colour: str) -> np.ndarray:
    """Linear RGB of "#rrggbb"."""
    encoded = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


def contrast(first: str, second: str) -> float:
    """WCAG 2.2 contrast ratio."""
    luminances = sorted(float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (first, second))
    return (luminances[1] + 0.05) / (luminances[0] + 0.05)
