"""The limit on the merged change of each matrix, of a recipe or an override."""

from __future__ import annotations

from typing import Final, Literal

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QVBoxLayout, QWidget

from ace_gui.engine.contract.after_fields import CAP_FIELD
from ace_gui.gui.text import tooltip
from ace_gui.gui.widgets.fields.parameter import ParameterField, in_line
from ace_gui.gui.widgets.labels.terms import explain
from ace_gui.recipe.values import Cap, ParameterValue

CAP_TIP: Final = (
    "Limits how far a merge moves each matrix, whatever the method. The merged change may be as "
    "long as one expert's on average; with T experts √T times that, as long as it stays within δ "
    "of the base's norm. A longer one is scaled down, and the layer's notes say so."
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
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(in_line(self.choice))
        layout.addWidget(self.delta)

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
