"""A form with a field for each of a list of declared parameters, and the field of a cap."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from math import floor, inf, isfinite, log10, nextafter
from typing import Final, Literal

from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QKeySequence, QValidator
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QFormLayout,
    QLineEdit,
    QMenu,
    QSpinBox,
    QToolButton,
    QWidget,
)

from ace_gui.engine.contract.after_fields import AFTER_FIELDS, CAP_FIELD, value_of, with_value
from ace_gui.field_info import FieldInfo
from ace_gui.gui.text import quoted, tooltip, value_text
from ace_gui.gui.theme import icon
from ace_gui.gui.widgets.labels import OF_PARAMETERS, explain, plain_label
from ace_gui.gui.widgets.layout import Column, across, down, on_font_change
from ace_gui.recipe.values import After, Cap, ParameterValue

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


_DECIMALS: Final = 3
_GAP = 2  # px between a field's button and its control
_DOT = QSize(14, 22)
_INSET = _DOT.width() + _GAP


class ParameterField(QWidget):
    """A control for one field, its presets, and a button that restores the default.

    ``edited`` carries the user's value, or None for the default.
    """

    edited = Signal(object)

    def __init__(self, field: FieldInfo, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.field = field
        self.control, self._show = _control(field, self.edited.emit, self)
        self.control.setAccessibleName(field.label)
        self.control.setAccessibleDescription(quoted(field.help))
        self.control.setToolTip(tooltip(_help(field)))
        explain(self, OF_PARAMETERS.get(field.name, ""))
        self.control.installEventFilter(self)
        self._reset = QToolButton(self)
        self._reset.setIcon(icon("dot", "accent"))
        self._reset.setIconSize(QSize(8, 8))
        self._reset.setProperty("kind", "dot")
        self._reset.setFixedSize(_DOT)
        self._reset.setAccessibleName(f"Default {field.label}")
        self._reset.setToolTip("Restore the default")
        self._reset.clicked.connect(lambda: self.edited.emit(None))
        policy = self._reset.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self._reset.setSizePolicy(policy)
        presets = [self._preset_button()] if field.presets else []
        self.setLayout(across(self._reset, (self.control, 1), *presets, gap=_GAP))

    def show_value(self, value: ParameterValue, note: str, *, touched: bool) -> None:
        """Show the effective value, its origin, and whether the user set it."""
        self.control.blockSignals(True)
        self._show(value)
        self.control.blockSignals(False)
        for line in self._lines():
            line.setModified(False)
        self._reset.setVisible(touched)
        about = "" if touched or not note else f"\nNow: {note}."
        self.control.setToolTip(tooltip(_help(self.field) + about))

    def eventFilter(self, control: QObject, event: QEvent) -> bool:
        """Leave Undo to the window unless the user is typing: a line edit would take the
        shortcut."""
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            keys = QKeySequence.StandardKey
            if event.matches(keys.Undo) or event.matches(keys.Redo):
                event.setAccepted(any(line.isModified() for line in self._lines()))
                return not event.isAccepted()
        return super().eventFilter(control, event)

    def _lines(self) -> list[QLineEdit]:
        """The control's line edit, if it has one."""
        own = self.control
        return [own] if isinstance(own, QLineEdit) else own.findChildren(QLineEdit)

    def _preset_button(self) -> QToolButton:
        button = QToolButton(self)
        button.setArrowType(Qt.ArrowType.DownArrow)
        button.setAccessibleName(f"Presets for {self.field.label}")
        button.setToolTip("Values from the papers and for model families")
        button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(button)
        for title, value in self.field.presets:
            action = menu.addAction(f"{value_text(value)}   {title}")
            action.triggered.connect(lambda _=False, value=value: self.edited.emit(value))
        button.setMenu(menu)
        return button


def _help(field: FieldInfo) -> str:
    """What it is, its range and default, and where the glossary explains it."""
    low, high = ("" if end is None else value_text(end) for end in (field.low, field.high))
    bounds = f"At most {high}. " if high else ""
    if low:
        least = "Above" if field.low_open else "From" if high else "At least"
        bounds = f"{least} {low} to {high}. " if high else f"{least} {low}. "
    text = f"{quoted(field.help)}\n{bounds}Default {value_text(field.default)}."
    term = OF_PARAMETERS.get(field.name)
    return f"{text}\nF1: {term} in the glossary." if term else text


def _control(
    field: FieldInfo, edited: Callable[[ParameterValue], None], parent: QWidget
) -> tuple[QWidget, Callable[[ParameterValue], object]]:
    """The control of a field, and what shows a value in it."""
    if field.choices:
        choice = QComboBox(parent)
        for each in field.choices:
            choice.addItem(each, each)
        choice.currentIndexChanged.connect(lambda _: edited(choice.currentData()))
        return choice, lambda value: choice.setCurrentIndex(choice.findData(value))
    if field.kind == "bool":
        tick = QCheckBox(parent)
        tick.toggled.connect(edited)
        return tick, lambda value: tick.setChecked(bool(value))
    if field.kind == "str":
        line = QLineEdit(parent)
        line.editingFinished.connect(lambda: edited(line.text()))
        return line, lambda value: line.setText(str(value))
    if field.kind == "int":
        count = QSpinBox(parent)
        count.setKeyboardTracking(False)
        count.setMinimum(-(2**31) if field.low is None else int(field.low) + int(field.low_open))
        count.setMaximum(2**31 - 1 if field.high is None else int(field.high))
        count.valueChanged.connect(edited)
        return count, lambda value: count.setValue(int(value))
    if field.logarithmic:
        box: QDoubleSpinBox = ScientificSpinBox(
            field.low, field.high, low_open=field.low_open, parent=parent
        )
    else:
        box = QDoubleSpinBox(parent, decimals=_DECIMALS, singleStep=0.05)
        box.setKeyboardTracking(False)
        low = -_UNBOUNDED if field.low is None else field.low
        box.setMinimum(low + 10**-_DECIMALS if field.low_open else low)
        box.setMaximum(_UNBOUNDED if field.high is None else field.high)
    box.valueChanged.connect(edited)
    return box, lambda value: box.setValue(float(value))


_WIDEST = "Refined fraction"  # labels are at least as wide, so that forms below each other agree


class Form(Column):
    """``edited`` carries the name of a parameter and its new value, None for the default.

    ``spoken``: how a field is called by screen readers, with its label in the braces.
    """

    edited = Signal(str, object)

    def __init__(self, fields: Iterable[FieldInfo] = (), *, spoken: str = "{}") -> None:
        super().__init__()
        self._form = form = QFormLayout(self)
        form.setContentsMargins(0, 0, 0, 0)
        form.setVerticalSpacing(6)
        form.setHorizontalSpacing(8)
        form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapLongRows)  # for large font sizes
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        self.fields: dict[str, ParameterField] = {}
        for info in fields:
            field = self.fields[info.name] = ParameterField(info, self)
            field.control.setAccessibleName(spoken.format(info.label))
            field.edited.connect(lambda value, name=info.name: self.edited.emit(name, value))
            self.add_row(info.label, field, field.control.toolTip())

    def add_row(self, label: str, widget: QWidget, tip: str = "") -> None:
        """Append a row that is not a parameter; without a label it takes the whole width."""
        if not label:
            self._form.addRow(widget)
            return
        title = plain_label(label, wrap=False, kind="secondary")
        title.setToolTip(tip)
        title.setBuddy(widget)
        on_font_change(title, lambda m: title.setMinimumWidth(m.horizontalAdvance(_WIDEST)))
        self._form.addRow(title, widget)

    def show_row(self, widget: QWidget, shown: bool) -> None:
        self._form.setRowVisible(widget, shown)

    def show_values(
        self,
        value_of: Callable[[str], ParameterValue | None],
        touched: Collection[str],
        notes: Mapping[str, str] | None = None,
    ) -> None:
        """Show the effective values without a signal, and only the parameters that apply.

        ``touched``: the parameters without their usual values. ``notes``: where others come from.
        """
        for name, field in self.fields.items():
            value = value_of(name)
            if value is not None:
                field.show_value(value, (notes or {}).get(name, ""), touched=name in touched)
            self.show_row(field, field.field.applies(value_of))


_CAP_TIP: Final = (
    "Limits how far a merge moves each matrix, for every method. The change may always be "
    "as long as one expert's on average, and with T experts up to √T times that within δ "
    "of the base's norm. A longer change is scaled down, with a note on the layer."
)
_OFF: Final[Literal[False]] = False


class CapField(QWidget):
    """Off or on, with δ if on. An override may leave it to the recipe (``inherits``).

    ``edited`` carries a Cap; None to leave it unset; False for an override that removes the
    recipe's cap.
    """

    edited = Signal(object)

    def __init__(self, *, inherits: bool = False) -> None:
        super().__init__()
        explain(self, "Cap δ")
        self.choice = QComboBox(self)
        self.choice.setAccessibleName("Cap on the change")
        self.choice.setToolTip(tooltip(_CAP_TIP))
        choices = (("as in the recipe", None), ("none", _OFF)) if inherits else (("none", None),)
        for text, value in choices:
            self.choice.addItem(text, value)
        self.choice.addItem("at δ", Cap())
        self.delta = ParameterField(CAP_FIELD, self)
        self.choice.activated.connect(lambda _: self.edited.emit(self.choice.currentData()))
        self.delta.edited.connect(self._change_delta)
        in_line = across(self.choice, margins=(_INSET, 0, 0, 0))  # with fields that have a dot
        self.setLayout(down(in_line, self.delta, gap=4))

    def show_cap(self, cap: Cap | Literal[False] | None) -> None:
        """Show the effective value without a signal."""
        last = self.choice.count() - 1
        known = (index for index in range(last) if self.choice.itemData(index) is cap)
        self.choice.setCurrentIndex(next(known, last))
        self.delta.setVisible(isinstance(cap, Cap))
        if isinstance(cap, Cap):
            self.delta.show_value(cap.delta, "", touched=cap != Cap())

    def _change_delta(self, delta: ParameterValue | None) -> None:
        self.edited.emit(Cap() if delta is None else Cap(delta=float(delta)))


class AfterForm(Form):
    """The steps after a method, the cap last. ``changed`` carries the After with an edit.

    ``inherits``: it belongs to an override, which may leave them to the recipe.
    """

    changed = Signal(object)

    def __init__(self, *, inherits: bool = False) -> None:
        super().__init__(AFTER_FIELDS)
        self._after = self._usual = After()
        self.cap = CapField(inherits=inherits)
        self.add_row("Cap", self.cap, tooltip(_CAP_TIP))
        self.edited.connect(lambda name, value: self.changed.emit(self._with(name, value)))
        self.cap.edited.connect(lambda cap: self.changed.emit(replace(self._after, cap=cap)))

    def show_after(
        self, after: After, recipe: After | None = None, usual: After | None = None
    ) -> None:
        """Show what is set, and else the recipe's or the default. What is ``usual`` has no mark,
        and is what a field goes back to."""
        self._after, self._usual = after, usual or After()
        shown: dict[str, ParameterValue] = {info.name: info.default for info in AFTER_FIELDS}
        touched = []
        for info in AFTER_FIELDS:
            for value in (value_of(recipe or After(), info.name), value_of(after, info.name)):
                shown[info.name] = shown[info.name] if value is None else value
            if value_of(after, info.name) != value_of(self._usual, info.name):
                touched.append(info.name)
        self.show_values(shown.get, touched)
        self.cap.show_cap(after.cap)

    def _with(self, name: str, value: ParameterValue | None) -> After:
        return with_value(
            self._after, name, value_of(self._usual, name) if value is None else float(value)
        )
