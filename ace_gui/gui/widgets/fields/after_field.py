"""The steps applied to each merged matrix after the method, of a recipe or an override."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFormLayout, QWidget

from ace_gui.engine.contract.after_fields import AFTER_FIELDS, value_of, with_value
from ace_gui.gui.text import tooltip
from ace_gui.gui.widgets.fields.cap_field import CAP_TIP, CapField
from ace_gui.gui.widgets.fields.parameter import ParameterField
from ace_gui.recipe.values import After


class AfterField(QWidget):
    """Rows for a form: one for each of ``AFTER_FIELDS``, and one for the cap.

    ``edited`` carries an After. ``inherits``: an override may leave each of them to the recipe.
    """

    edited = Signal(object)

    def __init__(self, *, inherits: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.hide()  # it paints nothing itself
        self._after = After()
        self.fields = {info.name: ParameterField(info, parent) for info in AFTER_FIELDS}
        self.cap = CapField(inherits=inherits, parent=parent)
        for name, field in self.fields.items():
            field.edited.connect(
                lambda value, name=name: self.edited.emit(with_value(self._after, name, value))
            )
        self.cap.edited.connect(lambda cap: self.edited.emit(replace(self._after, cap=cap)))

    def add_to(self, form: QFormLayout, label: Callable[[str, str], QWidget]) -> None:
        """Append the rows to a form. ``label`` creates a label from a text and a tooltip."""
        for field in self.fields.values():
            form.addRow(label(field.field.label, field.control.toolTip()), field)
        form.addRow(label("Cap", tooltip(CAP_TIP)), self.cap)

    def show_after(self, after: After, others: After | None = None) -> None:
        """Show the effective values without a signal. ``others``: the recipe's, where unset."""
        self._after = after
        for name, field in self.fields.items():
            own = value_of(after, name)
            inherited = None if others is None else value_of(others, name)
            shown = inherited if own is None else own
            value = field.field.default if shown is None else shown
            field.show_value(value, "", touched=own is not None)
        self.cap.show_cap(after.cap if others is not None else after.cap or None)
