"""A method's parameters, each with a range to search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import Signal
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QCheckBox, QGridLayout, QWidget

from ace_gui.engine.contract.scored.tuned import ParameterRange
from ace_gui.field_info import FieldInfo
from ace_gui.gui.text import tooltip
from ace_gui.gui.widgets.fields.scientific import ScientificSpinBox
from ace_gui.gui.widgets.labels.plain_label import muted_label
from ace_gui.gui.widgets.layout.arrangement import clear_layout
from ace_gui.gui.widgets.layout.font_metrics import on_font_change
from ace_gui.recipe.values import ParameterValue


class RangeRows(QWidget):
    """One row per number; the checked ones are searched. ``changed`` follows every edit."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._fields: tuple[FieldInfo, ...] = ()
        self.rows: dict[str, tuple[QCheckBox, ScientificSpinBox, ScientificSpinBox]] = {}
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(8)
        self._grid.setColumnStretch(0, 2)
        self._grid.setColumnStretch(1, 1)
        self._grid.setColumnStretch(3, 1)

    def offer(
        self,
        fields: Sequence[FieldInfo],
        value_of: Callable[[str], ParameterValue | None],
    ) -> None:
        """Offer the numbers among these fields; existing rows stay as they are."""
        numbers = tuple(field for field in fields if field.kind in ("float", "int"))
        if numbers == self._fields:
            return
        self._fields = numbers
        clear_layout(self._grid)
        self.rows = {}
        for index, field in enumerate(numbers):
            self._add(index, field, value_of(field.name))
        if numbers:
            preferred = next((f.name for f in numbers if f.name == "scaling"), numbers[0].name)
            self.rows[preferred][0].setChecked(True)

    def _add(self, index: int, field: FieldInfo, value: ParameterValue | None) -> None:
        tick = QCheckBox(field.label, self)
        tick.setAccessibleName(f"Search {field.label}")
        tick.setToolTip(tooltip(field.help))
        low, high = _usual_range(field, field.default if value is None else value)
        boxes = []
        for end, number in (("from", low), ("to", high)):
            box = ScientificSpinBox(field.low, field.high, low_open=field.low_open, parent=self)
            box.setAccessibleName(f"{field.label}, {end}")
            box.set_value(number)
            on_font_change(box, partial(_give_room, box))
            box.setEnabled(False)
            box.value_changed.connect(lambda _: self.changed.emit())
            tick.toggled.connect(box.setEnabled)
            boxes.append(box)
        tick.toggled.connect(lambda _: self.changed.emit())
        self._grid.addWidget(tick, index, 0)
        self._grid.addWidget(boxes[0], index, 1)
        self._grid.addWidget(muted_label("to", self), index, 2)
        self._grid.addWidget(boxes[1], index, 3)
        self.rows[field.name] = tick, boxes[0], boxes[1]

    @property
    def ranges(self) -> tuple[ParameterRange, ...]:
        """The checked ranges."""
        return tuple(
            ParameterRange(name=name, low=low.value, high=high.value)
            for name, (tick, low, high) in self.rows.items()
            if tick.isChecked()
        )

    @property
    def fault(self) -> str:
        """What is wrong with the ranges; empty if they can be searched."""
        if not self.ranges:
            return "Select a parameter."
        wrong = [each.name for each in self.ranges if not each.low < each.high]
        return f"The range of {wrong[0]} is empty." if wrong else ""


def _usual_range(field: FieldInfo, value: ParameterValue) -> tuple[float, float]:
    """A range around the current value, within the method's limits."""
    now = float(value)
    if field.logarithmic and now > 0:
        low, high = now / 100, now * 100
    else:
        low, high = min(0.0, 2 * now), max(2 * now, 1.0)
    low = low if field.low is None else max(low, field.low)
    high = high if field.high is None else min(high, field.high)
    if field.low_open and field.low is not None and low <= field.low:
        low = field.low + (high - field.low) / 20
    return (float(round(low)), float(round(high))) if field.kind == "int" else (low, high)


def _give_room(box: QWidget, metrics: QFontMetrics) -> None:
    box.setMinimumWidth(metrics.horizontalAdvance("0.00000") + 24)
