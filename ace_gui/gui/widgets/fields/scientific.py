"""A spin box for values over many orders of magnitude: shows 1e-5, steps by factors."""

from __future__ import annotations

import sys
from math import floor, inf, isfinite, log10, nextafter
from typing import Final

from PySide6.QtCore import QSize
from PySide6.QtGui import QValidator
from PySide6.QtWidgets import QDoubleSpinBox, QWidget

from ace_gui.gui.numbers import value_text

_SHORT: Final = "0.000"  # a value that is completely visible
_BUTTONS: Final = 28  # px
_STEPS: Final = (1.0, 2.0, 5.0)
_UNBOUNDED: Final = 1e9
_EVERY_DIGIT: Final = 323  # decimals of the smallest normal number


class ScientificSpinBox(QDoubleSpinBox):
    """Steps through 1, 2, 5 × 10ⁿ. A typed value out of range is replaced by the one before.

    ``low`` itself is excluded if ``low_open``.
    """

    def __init__(
        self,
        low: float | None = None,
        high: float | None = None,
        *,
        low_open: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent, decimals=_EVERY_DIGIT)
        self.setKeyboardTracking(False)
        least = -_UNBOUNDED if low is None else low
        if low_open:
            least = nextafter(least, inf) if least else sys.float_info.min
        self.setRange(least, _UNBOUNDED if high is None else high)

    def sizeHint(self) -> QSize:
        """Qt would make room for the text of the limits."""
        width = self.fontMetrics().horizontalAdvance(_SHORT) + _BUTTONS
        return QSize(width, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def textFromValue(self, value: float) -> str:
        return value_text(value)

    def valueFromText(self, text: str) -> float:
        return _parse(text)

    def validate(self, text: str, position: int) -> tuple[QValidator.State, str, int]:
        allowed = self.minimum() <= _parse(text) <= self.maximum()
        state = QValidator.State.Acceptable if allowed else QValidator.State.Intermediate
        return state, text, position

    def stepBy(self, steps: int) -> None:
        value = self.value()
        for _ in range(abs(steps)):
            stepped = _next_step(value, up=steps > 0)
            if not self.minimum() <= stepped <= self.maximum():
                break
            value = stepped
        self.setValue(value)


def _parse(text: str) -> float:
    """The number, infinite if there is none."""
    try:
        value = float(text.strip().replace(",", "."))
    except ValueError:
        return inf
    return value if isfinite(value) else inf


def _next_step(value: float, *, up: bool) -> float:
    """The next of 1, 2, 5 × 10ⁿ."""
    if value <= 0:
        return 1e-6 if up else 0.0
    decade = floor(log10(value) + 1e-9)
    ladder = [
        float(f"{step}e{exponent}") for exponent in range(decade - 1, decade + 2) for step in _STEPS
    ]
    near = 1e-6 * value
    if up:
        return min(step for step in ladder if step > value + near)
    return max(step for step in ladder if step < value - near)
