"""A control for one parameter of a method, built from its field description."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QLineEdit,
    QMenu,
    QSpinBox,
    QToolButton,
    QWidget,
)

from ace_gui.field_info import FieldInfo
from ace_gui.gui.numbers import value_text
from ace_gui.gui.text import quoted, tooltip
from ace_gui.gui.theme import icon
from ace_gui.gui.widgets.fields.scientific import ScientificSpinBox
from ace_gui.gui.widgets.labels.terms import OF_PARAMETERS, explain
from ace_gui.gui.widgets.layout.arrangement import across, pane
from ace_gui.recipe.values import ParameterValue

_DECIMALS = 3
_UNBOUNDED = 1e9
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
        self._show, self.control = _CONTROLS[self._kind()](field, self.edited.emit, self)
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

    def _kind(self) -> str:
        if self.field.choices:
            return "choice"
        if self.field.kind == "float" and self.field.logarithmic:
            return "scientific"
        return self.field.kind

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


def in_line(control: QWidget) -> QWidget:
    """Align a control without its own button with those that have one."""
    return pane(across(control, margins=(_INSET, 0, 0, 0)))


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


_Made = tuple[Callable[[ParameterValue], None], QWidget]
_Edited = Callable[[ParameterValue], None]


def _float(field: FieldInfo, edited: _Edited, parent: QWidget) -> _Made:
    box = QDoubleSpinBox(parent)
    box.setKeyboardTracking(False)
    box.setDecimals(_DECIMALS)
    box.setSingleStep(0.05)
    low = -_UNBOUNDED if field.low is None else field.low
    box.setMinimum(low + 10**-_DECIMALS if field.low_open else low)
    box.setMaximum(_UNBOUNDED if field.high is None else field.high)
    box.valueChanged.connect(edited)
    return lambda value: box.setValue(float(value)), box


def _scientific(field: FieldInfo, edited: _Edited, parent: QWidget) -> _Made:
    box = ScientificSpinBox(field.low, field.high, low_open=field.low_open, parent=parent)
    box.valueChanged.connect(edited)
    return lambda value: box.setValue(float(value)), box


def _int(field: FieldInfo, edited: _Edited, parent: QWidget) -> _Made:
    box = QSpinBox(parent)
    box.setKeyboardTracking(False)
    box.setMinimum(-(2**31) if field.low is None else int(field.low) + int(field.low_open))
    box.setMaximum(2**31 - 1 if field.high is None else int(field.high))
    box.valueChanged.connect(edited)
    return lambda value: box.setValue(int(value)), box


def _bool(_field: FieldInfo, edited: _Edited, parent: QWidget) -> _Made:
    box = QCheckBox(parent)
    box.toggled.connect(edited)
    return lambda value: box.setChecked(bool(value)), box


def _choice(field: FieldInfo, edited: _Edited, parent: QWidget) -> _Made:
    box = QComboBox(parent)
    for choice in field.choices:
        box.addItem(choice, choice)
    box.currentIndexChanged.connect(lambda _: edited(box.currentData()))
    return lambda value: box.setCurrentIndex(box.findData(value)), box


def _str(_field: FieldInfo, edited: _Edited, parent: QWidget) -> _Made:
    line = QLineEdit(parent)
    line.editingFinished.connect(lambda: edited(line.text()))
    return lambda value: line.setText(str(value)), line


_CONTROLS = {
    "float": _float,
    "scientific": _scientific,
    "int": _int,
    "bool": _bool,
    "choice": _choice,
    "str": _str,
}
