"""The method's parameters, built from what the engine says of its fields."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QFormLayout,
    QFrame,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from ace_gui.engine.events import MethodInfo
from ace_gui.gui.inputs import Inputs
from ace_gui.gui.session import Session
from ace_gui.gui.text import tooltip
from ace_gui.gui.widgets.column import Column
from ace_gui.gui.widgets.folding import Folding
from ace_gui.gui.widgets.labels import heading, muted_label, plain_label
from ace_gui.gui.widgets.parameter import ParameterField

OUT_DTYPES = (
    (None, "as the base"),
    ("float32", "float32"),
    ("bfloat16", "bfloat16"),
    ("float16", "float16"),
    ("float64", "float64"),
)
_SCOPE_TIP = (
    "Which tensors the method merges, and in which orientation; the authors' presets reproduce "
    "their scripts."
)


class MethodPanel(QWidget):
    """``parameter_edited`` carries a name and a value (None: the default); ``inputs_edited`` the
    Inputs with another scope or output type."""

    parameter_edited = Signal(str, object)
    inputs_edited = Signal(object)

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._shown: MethodInfo | None = None
        self.fields: dict[str, ParameterField] = {}
        self._title = heading("Method", self)
        self._waiting = muted_label("Starting the engine …", self)
        self.scope = self._combo("Scope", _SCOPE_TIP)
        self._scope_note = muted_label("", self)
        self.out_dtype = self._combo(
            "Output type", "Number format of the merged tensors; rounded once, on writing."
        )
        for value, text in OUT_DTYPES:
            self.out_dtype.addItem(text, value)
        self._scroll = QScrollArea(self)
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setAccessibleName("Parameters of the method")
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 8, 8, 8)
        layout.addWidget(self._title)
        layout.addWidget(self._waiting)
        layout.addWidget(self._scroll, 1)
        self._rebuild()
        session.engine_changed.connect(self.refresh)
        session.inputs_changed.connect(self.refresh)
        session.plan_changed.connect(self.refresh)
        session.tau_changed.connect(self._show_tau)
        self.scope.activated.connect(self._choose)
        self.out_dtype.activated.connect(self._choose)
        self.refresh()

    def refresh(self) -> None:
        """Show the chosen method and the values in force."""
        method = self._session.method
        self._waiting.setVisible(self._session.engine is None)
        self._scroll.setVisible(self._session.engine is not None)
        if method != self._shown:
            self._shown = method
            self._rebuild()
        self._fill_scopes()
        inputs, plan = self._session.inputs, self._session.plan
        notes = plan.parameter_notes if plan is not None else {}
        for name, field in self.fields.items():
            value = self._session.parameter(name)
            if value is not None:
                field.show_value(value, notes.get(name, ""), touched=name in inputs.touched)
        self.out_dtype.setCurrentIndex(self.out_dtype.findData(inputs.out_dtype))

    def _rebuild(self) -> None:
        """Make the form of the method anew; the combos of every method move into it."""
        method = self._shown
        form_widget = Column()
        form = QFormLayout(form_widget)
        form.setContentsMargins(0, 0, 4, 0)
        form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.DontWrapRows)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        self.fields = {}
        if method is not None:
            self._title.setText(method.title)
            form.addRow(muted_label(method.summary))
            for info in method.fields:
                self._add_field(form, ParameterField(info, form_widget))
        form.addRow(_row_label("Scope", _SCOPE_TIP), self.scope)
        form.addRow("", self._scope_note)
        form.addRow(_row_label("Output", self.out_dtype.toolTip()), self.out_dtype)
        if method is not None:
            about = plain_label(f"{method.formula}\n\n{method.citation}")
            about.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            form.addRow(Folding("Formula and paper", about))
        self._scroll.setWidget(form_widget)

    def _add_field(self, form: QFormLayout, field: ParameterField) -> None:
        name = field.field.name
        field.edited.connect(lambda value, name=name: self.parameter_edited.emit(name, value))
        form.addRow(_row_label(field.field.label, field.control.toolTip()), field)
        form.addRow("", field.note)
        self.fields[name] = field

    def _fill_scopes(self) -> None:
        scopes = self._session.engine.scopes if self._session.engine else ()
        if self.scope.count() != len(scopes):
            self.scope.clear()
            for name, description in scopes:
                self.scope.addItem(name, description)
                tip = tooltip(description)
                self.scope.setItemData(self.scope.count() - 1, tip, Qt.ItemDataRole.ToolTipRole)
        self.scope.setCurrentText(self._session.inputs.scope)
        self._scope_note.setText(self.scope.currentData() or "")

    def _choose(self) -> None:
        inputs: Inputs = self._session.inputs
        self.inputs_edited.emit(
            replace(inputs, scope=self.scope.currentText(), out_dtype=self.out_dtype.currentData())
        )

    def _show_tau(self, tau: float) -> None:
        field = self.fields.get("tau")
        if field is not None:
            field.show_value(tau, "", touched=self._session.tau_is_set)

    def _combo(self, name: str, tip: str) -> QComboBox:
        combo = QComboBox(self)
        combo.setAccessibleName(name)
        combo.setToolTip(tooltip(tip))
        combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        combo.setMinimumContentsLength(8)
        return combo


def _row_label(text: str, tip: str) -> QWidget:
    label = plain_label(text, wrap=False)
    label.setToolTip(tip)
    return label
