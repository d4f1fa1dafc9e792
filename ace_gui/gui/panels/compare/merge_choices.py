"""The merges of a comparison: the checked methods, or values of one parameter."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QLineEdit,
    QVBoxLayout,
    QWidget,
)

from ace_gui.engine.contract.events import MethodInfo
from ace_gui.field_info import FieldInfo
from ace_gui.gui.state.chosen.draft import by_family
from ace_gui.gui.state.chosen.inputs import Inputs
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import tooltip
from ace_gui.gui.widgets.fields.buttons import plain_button
from ace_gui.gui.widgets.labels.plain_label import muted_label
from ace_gui.gui.widgets.layout.arrangement import Column, across, down, scroll_area
from ace_gui.recipe import Recipe, recommended
from ace_gui.recipe.values import ParameterValue


class MergeChoices(QWidget):
    """``changed`` follows each change of the choice."""

    changed = Signal()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.boxes: dict[tuple[str, str | None], QCheckBox] = {}
        """By method and variant; None: the default variant, or the only one."""
        self.methods = scroll_area("Methods to compare", self)
        self.methods.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.parameter = QComboBox(self)
        self.values = QLineEdit(self)
        self.all = plain_button("Select a&ll", "Select every method", self)
        self.none = plain_button("&None", "Deselect every method", self)
        self._lay_out()
        self._fill_methods()
        self._fill_parameters()
        self._allow()
        self.all.clicked.connect(lambda _=False: self._tick(True))
        self.none.clicked.connect(lambda _=False: self._tick(False))
        self.parameter.currentIndexChanged.connect(lambda _: self._allow())
        self.values.textChanged.connect(lambda _: self._allow())
        session.draft.changed.connect(self._fill_parameters)
        session.draft.changed.connect(self._offer_what_fits)
        session.engine_changed.connect(self._fill_methods)

    @property
    def count(self) -> int:
        """The number of chosen merges."""
        return len(self._written_values()) if self._varies else len(self._ticked())

    @property
    def _varies(self) -> bool:
        return self.parameter.currentIndex() > 0

    @property
    def _offered(self) -> tuple[MethodInfo, ...]:
        draft = self._session.draft
        return (*draft.recommended, *draft.methods)

    def recipes(self) -> list[Recipe]:
        """The recipes to merge: one per checked method, or one per value."""
        inputs = self._session.draft.inputs
        if self.parameter.currentIndex() > 0:
            name = self.parameter.currentData().name
            return [inputs.with_parameter(name, value).recipe() for value in self._written_values()]
        return [_under(inputs, *chosen).recipe() for chosen in self._ticked()]

    def _lay_out(self) -> None:
        ticks = across(self.all, self.none)
        note = muted_label("or values of one parameter", self)
        self.setLayout(down((self.methods, 1), ticks, note, self.parameter, self.values))

    def _allow(self) -> None:
        self.values.setVisible(self._varies)
        self.methods.setEnabled(not self._varies)
        self.changed.emit()

    def _fill_methods(self) -> None:
        """One box per variant of each method; the window's method is checked."""
        column = Column()
        layout = QVBoxLayout(column)
        layout.setSpacing(3)
        self.boxes.clear()
        for family, members in by_family(self._offered):
            layout.addWidget(muted_label(family, column))
            for method, variant in ((m, v) for m in members for v in _variants(m)):
                title = method.title if variant is None else f"{method.title}, {variant}"
                box = QCheckBox(title, column)
                box.setToolTip(tooltip(method.summary))
                box.setChecked(self._is_current(method, variant))
                box.toggled.connect(lambda _: self._allow())
                layout.addWidget(box)
                default = variant is None or variant == method.variants[0]
                self.boxes[method.name, None if default else variant] = box
        layout.addStretch(1)
        self.methods.setWidget(column)
        self._offer_what_fits()

    def _offer_what_fits(self) -> None:
        """Enable only methods that support this number of experts."""
        count = len(self._session.draft.inputs.experts)
        known = {method.name: method for method in self._offered}
        for (name, _), box in self.boxes.items():
            method = known[name]
            fits = method.least <= count and (method.most is None or count <= method.most)
            box.setVisible(fits)
            if not fits:
                box.setChecked(False)

    def _is_current(self, method: MethodInfo, variant: str | None) -> bool:
        draft = self._session.draft
        if draft.inputs.is_recommended:
            return method.name == recommended.NAME
        in_force = variant in (None, draft.parameter("variant"))
        return method.name == draft.inputs.method and in_force

    def _fill_parameters(self) -> None:
        """The numeric parameters of the window's method, one of which can be varied."""
        chosen = self.parameter.currentText()
        self.parameter.setAccessibleName("Parameter to vary")
        self.parameter.clear()
        self.parameter.addItem("no parameter", None)
        method = self._session.draft.method
        for item in method.fields if method is not None else ():
            if item.kind in ("float", "int"):
                self.parameter.addItem(item.label, item)
        self.parameter.setCurrentIndex(max(0, self.parameter.findText(chosen)))
        self.values.setAccessibleName("Values to try")
        self.values.setPlaceholderText("0.1, 0.2, 0.5")
        title = method.title if method is not None else "the method"
        tip = f"Values of one parameter of {title}, separated by commas, instead of other methods"
        self.parameter.setToolTip(tip)
        self.values.setToolTip(tip)

    def _written_values(self) -> list[ParameterValue]:
        """The values in the field that are numbers in range."""
        item: FieldInfo | None = self.parameter.currentData()
        if item is None:
            return []
        found = []
        for text in self.values.text().replace(";", ",").split(","):
            try:
                value = int(text) if item.kind == "int" else float(text)
            except ValueError:
                continue
            low = item.low is None or (value > item.low if item.low_open else value >= item.low)
            if low and (item.high is None or value <= item.high):
                found.append(value)
        return list(dict.fromkeys(found))

    def _ticked(self) -> list[tuple[str, str | None]]:
        return [chosen for chosen, box in self.boxes.items() if box.isChecked()]

    def tick(self, names: Collection[str]) -> None:
        """Select these methods alone, each in its default variant."""
        self.parameter.setCurrentIndex(0)
        for (name, variant), box in self.boxes.items():
            box.setChecked(name in names and variant is None and not box.isHidden())

    def _tick(self, ticked: bool) -> None:
        for box in self.boxes.values():
            box.setChecked(ticked and not box.isHidden())


def _variants(method: MethodInfo) -> tuple[str | None, ...]:
    return (None,) if method.name == recommended.NAME else method.variants or (None,)


def _under(inputs: Inputs, method: str, variant: str | None) -> Inputs:
    """The inputs with that method. Overrides belong to their method and are dropped for others."""
    changed = inputs.with_method(method)
    rules = inputs.overrides if changed.method == inputs.method else ()
    changed = replace(changed, overrides=rules)
    return changed if method == recommended.NAME else changed.with_parameter("variant", variant)
