"""A spin box for values over many orders of magnitude: shows 1e-5, steps by factors."""

from __future__ import annotations

from math import floor, log10

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QValidator
from PySide6.QtWidgets import QAbstractSpinBox, QWidget

from ace_gui.gui.numbers import value_text

STEPS = (1.0, 2.0, 5.0)
_SHORT = "0.000"  # a value that is completely visible
_BUTTONS = 28  # px


class ScientificSpinBox(QAbstractSpinBox):
    """``value_changed`` follows an edit or a step. Values out of range are set to the nearest
    limit.

    ``low`` itself is excluded if ``low_open``.
    """

    value_changed = Signal(float)

    def __init__(
        self,
        low: float | None = None,
        high: float | None = None,
        *,
        low_open: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._low, self._high, self._low_open = low, high, low_open
        self._value = 1.0
        self.setKeyboardTracking(False)
        self.editingFinished.connect(self._take)

    @property
    def value(self) -> float:
        """The value as last set or completed."""
        return self._value

    def set_value(self, value: float) -> None:
        """Show a value without a signal."""
        self._value = value
        self.lineEdit().setText(value_text(value))

    def minimumSizeHint(self) -> QSize:
        hint = super().minimumSizeHint()
        return hint.expandedTo(QSize(self.fontMetrics().horizontalAdvance(_SHORT) + _BUTTONS, 0))

    def stepBy(self, steps: int) -> None:
        value = self._value
        for _ in range(abs(steps)):
            stepped = _next_step(value, up=steps > 0)
            if not self._allowed(stepped):
                break
            value = stepped
        if value != self._value:
            self.set_value(value)
            self.value_changed.emit(value)

    def stepEnabled(self) -> QAbstractSpinBox.StepEnabledFlag:
        both = QAbstractSpinBox.StepEnabledFlag
        return both.StepUpEnabled | both.StepDownEnabled

    def validate(self, text: str, position: int) -> tuple[QValidator.State, str, int]:
        value = _parse(text)
        if value is None or not self._allowed(value):
            return QValidator.State.Intermediate, text, position
        return QValidator.State.Acceptable, text, position

    def fixup(self, _text: str) -> str:
        return value_text(self._value)

    def _take(self) -> None:
        value = _parse(self.lineEdit().text())
        if value is None or not self._allowed(value):
            self.set_value(self._value)
        elif value != self._value:
            self.set_value(value)
            self.value_changed.emit(value)

    def _allowed(self, value: float) -> bool:
        if self._low is not None and (value < self._low or (self._low_open and value == self._low)):
            return False
        return self._high is None or value <= self._high


def _parse(text: str) -> float | None:
    try:
        value = float(text.strip().replace(",", "."))
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


def _next_step(value: float, *, up: bool) -> float:
    """The next of 1, 2, 5 × 10ⁿ."""
    if value <= 0:
        return 1e-6 if up else 0.0
    decade = floor(log10(value) + 1e-9)
    ladder = [
        float(f"{step}e{exponent}") for exponent in range(decade - 1, decade + 2) for step in STEPS
    ]
    near = 1e-6 * value
    if up:
        return min(step for step in ladder if step > value + near)
    return max(step for step in ladder if step < value - near)
