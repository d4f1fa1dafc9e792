"""A form with a row for each of a list of declared parameters, and the field of a cap."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final, Literal

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QFormLayout, QWidget

from ace_gui.engine.contract.after_fields import AFTER_FIELDS, CAP_FIELD, value_of, with_value
from ace_gui.field_info import FieldInfo
from ace_gui.gui.text import tooltip
from ace_gui.gui.widgets.fields.parameter import ParameterField, in_line
from ace_gui.gui.widgets.labels.plain_label import plain_label
from ace_gui.gui.widgets.labels.terms import explain
from ace_gui.gui.widgets.layout.arrangement import Column, down, on_font_change
from ace_gui.recipe.values import After, Cap, ParameterValue

_WIDEST = (
    "Refined fraction"  # every label is at least as wide, so that forms below each other agree
)


class Form(Column):
    """``edited`` carries the name of a parameter and its new value, None for the default.

    ``spoken``: how a field is called by screen readers, with its label in the braces.
    """

    edited = Signal(str, object)

    def __init__(
        self, fields: Iterable[FieldInfo], *, spoken: str = "{}", parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
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
        title = plain_label(label, wrap=False)
        title.setProperty("kind", "secondary")
        title.setToolTip(tip)
        title.setBuddy(widget)
        on_font_change(title, lambda m: title.setMinimumWidth(m.horizontalAdvance(_WIDEST)))
        self._form.addRow(title, widget)

    def show_row(self, widget: QWidget, shown: bool) -> None:
        """Show or hide the row of a widget."""
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


CAP_TIP: Final = (
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

    def __init__(self, *, inherits: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        explain(self, "Cap δ")
        self.choice = QComboBox(self)
        self.choice.setAccessibleName("Cap on the change")
        self.choice.setToolTip(tooltip(CAP_TIP))
        choices = (("as in the recipe", None), ("none", _OFF)) if inherits else (("none", None),)
        for text, value in choices:
            self.choice.addItem(text, value)
        self.choice.addItem("at δ", Cap())
        self.delta = ParameterField(CAP_FIELD, self)
        self.choice.activated.connect(lambda _: self.edited.emit(self.choice.currentData()))
        self.delta.edited.connect(self._change_delta)
        self.setLayout(down(in_line(self.choice), self.delta, gap=4))

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
        self.add_row("Cap", self.cap, tooltip(CAP_TIP))
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
