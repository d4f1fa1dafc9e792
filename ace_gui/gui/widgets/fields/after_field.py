"""What is done to each merged matrix after the method, as a recipe or a rule of it has it."""

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

    ``edited`` carries an After. ``inherits``: a rule may leave each of them to the recipe.
    """

    edited = Signal(object)

    def __init__(self, *, inherits: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.hide()  # it has no look of its own
        self._after = After()
        self.fields = {info.name: ParameterField(info, parent) for info in AFTER_FIELDS}
        self.cap = CapField(inherits=inherits, parent=parent)
        for name, field in self.fields.items():
            field.edited.connect(
                lambda value, name=name: self.edited.emit(with_value(self._after, name, value))
            )
        self.cap.edited.connect(lambda cap: self.edited.emit(replace(self._after, cap=cap)))

    def add_to(self, form: QFormLayout, label: Callable[[str, str], QWidget]) -> None:
        """Put the rows at the end of a form. ``label``: makes one of a text and a tip."""
        for field in self.fields.values():
            form.addRow(label(field.field.label, field.control.toolTip()), field)
        form.addRow(label("Cap", tooltip(CAP_TIP)), self.cap)

    def show_after(self, after: After, others: After | None = None) -> None:
        """Show what is in force; no signal. ``others``: of the recipe, where these say nothing."""
        self._after = after
        for name, field in self.fields.items():
            own = value_of(after, name)
            inherited = None if others is None else value_of(others, name)
            shown = inherited if own is None else own
            value = field.field.default if shown is None else shown
            field.show_value(value, "", touched=own is not None)
        self.cap.show_cap(after.cap if others is not None else after.cap or None)
