"""A form with a row for each of a list of declared parameters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFormLayout, QWidget

from ace_gui.field_info import FieldInfo
from ace_gui.gui.widgets.fields.parameter import ParameterField
from ace_gui.gui.widgets.labels.plain_label import plain_label
from ace_gui.gui.widgets.layout.arrangement import Column
from ace_gui.gui.widgets.layout.font_metrics import on_font_change
from ace_gui.recipe.values import ParameterValue

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
        on_font_change(title, lambda m: title.setMinimumWidth(m.horizontalAdvance(_WIDEST) + 4))
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

        ``touched``: the parameters that the user has set. ``notes``: where others come from.
        """
        for name, field in self.fields.items():
            value = value_of(name)
            if value is not None:
                field.show_value(value, (notes or {}).get(name, ""), touched=name in touched)
            self.show_row(field, field.field.applies(value_of))
