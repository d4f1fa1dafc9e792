"""Forms with a field for each declared parameter, or for each attribute of a dataclass."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from math import floor, inf, isfinite, log10, nextafter
from typing import Any, Final

from PySide6.QtCore import QEvent, QObject, QRegularExpression, QSize, Qt, Signal
from PySide6.QtGui import (
    QFocusEvent,
    QKeyEvent,
    QKeySequence,
    QRegularExpressionValidator,
    QValidator,
)
from PySide6.QtWidgets import (
    QCheckBox,
    QDoubleSpinBox,
    QFormLayout,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QSpinBox,
    QToolButton,
    QWidget,
)

from ace_gui.engine.contract.after_fields import AFTER_FIELDS, CAP_FIELD, value_of, with_value
from ace_gui.field_info import FieldInfo, Option
from ace_gui.gui.text import quoted, tooltip, value_text
from ace_gui.gui.theme import icon
from ace_gui.gui.widgets.controls import Choice
from ace_gui.gui.widgets.labels import OF_PARAMETERS, explain, plain_label
from ace_gui.gui.widgets.layout import WrappedColumn, across, on_font_change, pane
from ace_gui.recipe.values import After, Cap, ParameterValue

_SHORT: Final = "0.000"  # a value that is completely visible
_BUTTONS: Final = 28  # px
_STEPS: Final = (1.0, 2.0, 5.0)
_UNBOUNDED: Final = 1e9
_EVERY_DIGIT: Final = 323  # decimals of the smallest normal number


class ScientificSpinBox(QDoubleSpinBox):
    """Steps through 1, 2, 5 × 10ⁿ. The earlier value replaces a typed value out of range.

    ``low_open``: ``low`` itself is not allowed.
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
        if low is None:
            minimum = -_UNBOUNDED
        else:
            minimum = low
        if low_open:
            minimum = nextafter(minimum, inf) if minimum else sys.float_info.min
        self.setRange(minimum, _UNBOUNDED if high is None else high)

    def sizeHint(self) -> QSize:
        """The width of a short value; Qt would reserve space for the texts of the limits."""
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
        if allowed:
            state = QValidator.State.Acceptable
        else:
            state = QValidator.State.Intermediate
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
    """The number in a text, or infinity if it has none."""
    try:
        value = float(text.strip().replace(",", "."))
    except ValueError:
        return inf
    if isfinite(value):
        return value
    return inf


def _next_step(value: float, *, up: bool) -> float:
    """The next larger or smaller of the numbers 1, 2, 5 × 10ⁿ."""
    if value <= 0:
        if up:
            return 1e-6
        return 0.0
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
_DIGITS = QRegularExpression(r"\d{1,18}")
_TITLE = 10  # characters of a choice that are always visible


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
        if field.presets:
            presets = [self._preset_button()]
        else:
            presets = []
        self.setLayout(across(self._reset, (self.control, 1), *presets, gap=_GAP))

    def show_value(self, value: ParameterValue, note: str, *, touched: bool) -> None:
        """Show the effective value, its origin, and whether the user set it."""
        self.control.blockSignals(True)
        self._show(value)
        self.control.blockSignals(False)
        for line in self._lines():
            line.setModified(False)
        self._reset.setVisible(touched)
        if touched or not note:
            about = ""
        else:
            about = f"\nNow: {note}."
        self.control.setToolTip(tooltip(_help(self.field) + about))

    def eventFilter(self, control: QObject, event: QEvent) -> bool:
        """Leave Undo to the window unless the user is typing; a line edit would take it."""
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            keys = QKeySequence.StandardKey
            if event.matches(keys.Undo) or event.matches(keys.Redo):
                event.setAccepted(any(line.isModified() for line in self._lines()))
                return not event.isAccepted()
        return super().eventFilter(control, event)

    def _lines(self) -> list[QLineEdit]:
        """The line edit of the control, if it has one."""
        control = self.control
        if isinstance(control, QLineEdit):
            return [control]
        return control.findChildren(QLineEdit)

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
    """A field's tooltip: its help, range and default, and its term in the glossary."""
    if isinstance(field, Option) and field.empty:
        return f"{quoted(field.help)}\nDefault: {field.empty}.".lstrip()
    low, high = ("" if end is None else value_text(end) for end in (field.low, field.high))
    if high:
        bounds = f"At most {high}. "
    else:
        bounds = ""
    if low:
        if field.low_open:
            start = "Above"
        elif high:
            start = "From"
        else:
            start = "At least"
        if high:
            bounds = f"{start} {low} to {high}. "
        else:
            bounds = f"{start} {low}. "
    text = f"{quoted(field.help)}\n{bounds}Default {value_text(field.default)}."
    term = OF_PARAMETERS.get(field.name)
    if term:
        return f"{text}\nF1: {term} in the glossary."
    return text


def _control(
    field: FieldInfo, edited: Callable[[ParameterValue], None], parent: QWidget
) -> tuple[QWidget, Callable[[ParameterValue], object]]:
    """The control of a field, and the function that shows a value in it."""
    if isinstance(field, Option):
        empty = field.empty
    else:
        empty = ""
    if field.choices:
        choice = Choice(field.label, {choice: choice for choice in field.choices})
        policy = Choice.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        choice.setSizeAdjustPolicy(policy)
        choice.setMinimumContentsLength(_TITLE)
        choice.chosen.connect(lambda: edited(choice.current))
        return choice, lambda value: choice.setCurrentIndex(choice.findText(str(value)))
    if field.kind == "bool":
        tick = QCheckBox(parent)
        tick.toggled.connect(edited)
        return tick, lambda value: tick.setChecked(bool(value))
    if field.kind == "text":
        lines = _TextLines(empty)
        lines.edited.connect(edited)
        return lines, lambda value: lines.show_text(str(value))
    if field.kind in ("str", "digits"):
        line = _Line(parent, placeholderText=empty)
        if field.kind == "digits":
            line.setValidator(QRegularExpressionValidator(_DIGITS, line))
        line.editingFinished.connect(lambda: edited(line.text()))
        return line, lambda value: line.show_text(str(value))
    if field.kind == "int":
        count = QSpinBox(parent)
        count.setKeyboardTracking(False)
        count.setMinimum(-(2**31) if field.low is None else int(field.low) + int(field.low_open))
        count.setMaximum(2**31 - 1 if field.high is None else int(field.high))
        count.setSpecialValueText(empty)
        count.valueChanged.connect(edited)
        return count, lambda value: count.setValue(int(value))
    box = _decimals(field, parent)
    box.valueChanged.connect(edited)
    return box, lambda value: box.setValue(float(value))


def _decimals(field: FieldInfo, parent: QWidget) -> QDoubleSpinBox:
    if field.logarithmic:
        return ScientificSpinBox(field.low, field.high, low_open=field.low_open, parent=parent)
    box = QDoubleSpinBox(parent, decimals=_DECIMALS, singleStep=0.05)
    box.setKeyboardTracking(False)
    if field.low is None:
        low = -_UNBOUNDED
    else:
        low = field.low
    box.setMinimum(low + 10**-_DECIMALS if field.low_open else low)
    box.setMaximum(_UNBOUNDED if field.high is None else field.high)
    return box


class _Line(QLineEdit):
    """A line of text that is not replaced while the user is typing."""

    def __init__(self, parent: QWidget | None, *, placeholderText: str) -> None:
        super().__init__(parent, placeholderText=placeholderText)
        self.editingFinished.connect(lambda: self.setModified(False))

    def show_text(self, text: str) -> None:
        if not (self.hasFocus() and self.isModified()) and text != self.text():
            self.setText(text)


class _TextLines(QPlainTextEdit):
    """Several lines of text. ``edited`` carries the text when the user leaves the field."""

    edited = Signal(str)

    def __init__(self, hint: str) -> None:
        super().__init__(placeholderText=hint, tabChangesFocus=True)
        on_font_change(self, lambda metrics: self.setFixedHeight(3 * metrics.lineSpacing() + 12))

    def show_text(self, text: str) -> None:
        """Show another text, unless the user is typing."""
        if not (self.hasFocus() and self.document().isModified()) and text != self.toPlainText():
            self.setPlainText(text)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        if self.document().isModified():
            self.document().setModified(False)
            self.edited.emit(self.toPlainText().strip())


_WIDEST = "Refined fraction"  # the minimum width of labels, so that forms below each other align


class Form(WrappedColumn):
    """``edited`` carries the name of a parameter and its new value, None for the default.

    ``spoken``: a field's accessible name, with its label in the braces.
    """

    edited = Signal(str, object)

    def __init__(self, fields: Iterable[FieldInfo] = (), *, spoken: str = "{}") -> None:
        super().__init__()
        self._spoken = spoken
        self._form = form = QFormLayout(self)
        form.setContentsMargins(0, 0, 0, 0)
        form.setVerticalSpacing(6)
        form.setHorizontalSpacing(8)
        form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapLongRows)  # for large font sizes
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        self.fields: dict[str, ParameterField] = {}
        self.declare(fields)

    def declare(self, fields: Iterable[FieldInfo]) -> None:
        """Replace the fields by these. A field with the name of the focused one takes the focus."""
        infos = tuple(fields)
        old = self.fields
        if infos == tuple(control.field for control in old.values()):
            return
        focused = next((name for name, control in old.items() if control.control.hasFocus()), None)
        for control in old.values():  # deleted later: the signal of one may have led here
            row = self._form.takeRow(control)
            for widget in (row.labelItem.widget(), control):
                assert widget is not None
                widget.hide()
                widget.deleteLater()
        self.fields = {}
        for index, info in enumerate(infos):
            added = self.fields[info.name] = ParameterField(info, self)
            added.control.setAccessibleName(self._spoken.format(info.label))
            added.edited.connect(lambda value, name=info.name: self.edited.emit(name, value))
            self._form.insertRow(index, self._title(info.label, added), added)
        if focused in self.fields:
            self.fields[focused].control.setFocus()

    def add_row(self, label: str, widget: QWidget, tip: str = "") -> None:
        """Append a row that is not a parameter; without a label it takes the whole width."""
        if label:
            inset = across((widget, 1), margins=(_INSET, 0, 0, 0))  # the space of a field's button
            self._form.addRow(self._title(label, widget, tip), pane(inset))
        else:
            self._form.addRow(widget)

    def _title(self, label: str, widget: QWidget, tip: str = "") -> QWidget:
        title = plain_label(label, wrap=False, kind="secondary")
        title.setToolTip(widget.control.toolTip() if isinstance(widget, ParameterField) else tip)
        title.setBuddy(widget)
        on_font_change(title, lambda m: title.setMinimumWidth(m.horizontalAdvance(_WIDEST)))
        return title

    def show_row(self, widget: QWidget, visible: bool) -> None:
        self._form.setRowVisible(widget, visible)

    def show_values(
        self,
        value_of: Callable[[str], ParameterValue | None],
        touched: Collection[str],
        notes: Mapping[str, str] | None = None,
    ) -> None:
        """Show the effective values without a signal, and only the parameters that apply.

        ``touched``: parameters without their usual values. ``notes``: the origin of other values.
        """
        for name, control in self.fields.items():
            value = value_of(name)
            if value is not None:
                control.show_value(value, (notes or {}).get(name, ""), touched=name in touched)
            self.show_row(control, control.field.applies(value_of))


class OptionForm(Form):
    """A form of a frozen dataclass. ``changed`` carries an edited copy."""

    changed = Signal(object)

    def __init__(self, *, spoken: str = "{}") -> None:
        super().__init__(spoken=spoken)
        self._record: Any = None
        self._defaults: Any = None
        self._shown_values: dict[str, ParameterValue] = {}
        self._touched: set[str] = set()
        self.edited.connect(self._edit)

    def show_record(
        self, options: Iterable[Option], record: Any, defaults: Any, effective: Any = None
    ) -> None:
        """Show these options of ``record``. Values that differ from ``defaults`` have a mark, which
        restores them. ``effective``: ``record`` with guesses for the values that it leaves open."""
        options = tuple(options)
        self._record = record
        self._defaults = defaults
        effective_record = record if effective is None else effective
        self._shown_values = {option.name: option.shown(effective_record) for option in options}
        self.declare(options)
        self._touched = {
            option.name for option in options if option.get(record) != option.get(defaults)
        }
        self.show_values(self._shown_values.get, self._touched)

    def _edit(self, name: str, value: ParameterValue | None) -> None:
        option = self.fields[name].field
        assert isinstance(option, Option)
        if value == self._shown_values[name]:  # the user left the field without an edit
            return
        edited = option.edited(self._record, value, self._defaults)
        if edited != self._record:
            self.changed.emit(edited)
        else:
            self.show_values(self._shown_values.get, self._touched)


_CAP_TIP: Final = (
    "Limits how far a merge moves each matrix, for every method. The experts' mean norm is "
    "always allowed. T experts may reach √T times that, if it is below δ times the base's "
    "norm. A larger change is scaled down, with a note on the layer. Experts that answer through "
    "one head, as language models do, compete: there the mean norm is enough."
)
_AT_DELTA: Final = "at δ"
_BY_HEADS: Final = "at δ, by heads"
_CAPS: Final = {_AT_DELTA: Cap(), _BY_HEADS: Cap(one_head=0.0)}


class AfterForm(Form):
    """A form of the steps after a method, the cap last. ``changed`` carries the edited After.

    ``inherits``: it belongs to an override, which may leave steps to the recipe.
    """

    changed = Signal(object)

    def __init__(self, *, inherits: bool = False) -> None:
        # in an override, False removes the recipe's cap
        self._caps: dict[str, Any] = {"none": None, **_CAPS}
        if inherits:
            self._caps = {"as in the recipe": None, "none": False, **_CAPS}
        cap = Option(name="cap", label="Cap", help=_CAP_TIP, values=self._caps)
        delta = replace(CAP_FIELD, applies_when=(cap.name, *_CAPS))
        super().__init__((*AFTER_FIELDS, cap, delta))
        self._after = self._defaults = After()
        self.edited.connect(lambda name, value: self.changed.emit(self._with(name, value)))

    def show_after(
        self, after: After, recipe: After | None = None, defaults: After | None = None
    ) -> None:
        """Show the steps of ``after``, or else the recipe's or the default. Values that differ from
        ``defaults`` have a mark, which restores them."""
        self._after = after
        self._defaults = defaults or After()
        shown_values: dict[str, ParameterValue] = {info.name: info.default for info in AFTER_FIELDS}
        touched = []
        for info in AFTER_FIELDS:
            for value in (value_of(recipe or After(), info.name), value_of(after, info.name)):
                shown_values[info.name] = shown_values[info.name] if value is None else value
            if value_of(after, info.name) != value_of(self._defaults, info.name):
                touched.append(info.name)
        shown_cap = after.cap if isinstance(after.cap, Cap) else Cap()
        usual_text = _AT_DELTA if shown_cap.one_head is None else _BY_HEADS
        texts = (text for text, cap in self._caps.items() if cap is after.cap)
        shown_values |= {"cap": next(texts, usual_text), CAP_FIELD.name: shown_cap.delta}
        touched += ["cap"] * (after.cap != self._defaults.cap)
        changed = shown_cap.delta != Cap().delta
        self.show_values(shown_values.get, touched + [CAP_FIELD.name] * changed)

    def _with(self, name: str, value: ParameterValue | None) -> After:
        if name == "cap":
            cap = self._defaults.cap if value is None else self._caps[str(value)]
            return replace(self._after, cap=cap)
        if name == CAP_FIELD.name:
            delta = Cap().delta if value is None else float(value)
            return replace(self._after, cap=replace(self._after.cap or Cap(), delta=delta))
        default = value_of(self._defaults, name)
        return with_value(self._after, name, default if value is None else float(value))
