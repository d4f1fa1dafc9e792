"""The models of the merge: the base, and the experts with name, weight and colour."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from PySide6.QtCore import QEvent, QModelIndex, QSize, Qt, Signal
from PySide6.QtGui import QAction, QKeySequence, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QStackedLayout, QTableView, QWidget

from ace_gui.formatting import human_bytes
from ace_gui.gui.models.list_models import NAME, STATUS, WEIGHT, ExpertsModel
from ace_gui.gui.panels.checks_panel import summary_of
from ace_gui.gui.state.activity import State
from ace_gui.gui.state.session import Session
from ace_gui.gui.theme import Face, face, icon
from ace_gui.gui.theme.painting import SWATCH
from ace_gui.gui.widgets.cells import RowGround, SizeCell, WeightCell
from ace_gui.gui.widgets.controls import (
    action_button,
    push_button,
    tool_button,
    widget_action,
)
from ace_gui.gui.widgets.labels import ElidedLabel, Swatch, explain, heading, muted_label
from ace_gui.gui.widgets.layout import across, down, on_font_change
from ace_gui.gui.widgets.tables import plain_rows
from ace_gui.recipe.values import model_name

_ROWS_SHOWN: Final = 8
_OTHER_LINES, _LINES_A_ROW = 18, 1.8  # in text lines: height of the rest of the column


class ExpertsPanel(QWidget):
    """``checks_wanted``: the user clicked the summary of the checks."""

    checks_wanted = Signal()

    def __init__(self, session: Session, change_base: Callable[[], object], add: QAction) -> None:
        super().__init__()
        explain(self, "Expert")
        self._session = session
        self.model = ExpertsModel(session, self)
        self._base, self._facts = ElidedLabel(), ElidedLabel()
        self._facts.setProperty("kind", "caption")
        self._facts.setFont(face(Face.CAPTION))
        tip = "Choose another base model for the same experts"
        self._change_base = tool_button("", tip, change_base)
        self._change_base.setIcon(icon("more"))
        self._add = action_button(add, "Add experts…", self, kind="link")
        self._add.setIcon(icon("add", "accent"))
        self._add.setToolTip("Add models fine-tuned from the base; or drop their folders here")
        self._remove = push_button(
            "Remove", self._ask_to_remove, kind="ghost", name="Remove the selected experts"
        )
        self.table = self._make_table()
        self._hint = muted_label("Drop models fine-tuned from the base here.")
        self._hint.setAlignment(Qt.AlignmentFlag.AlignCenter)
        tip = "Show the checks before the merge"
        self.checks = tool_button("", tip, self.checks_wanted.emit)
        self.checks.setFont(face(Face.CAPTION))
        self.checks.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self._stack = QStackedLayout()
        self._lay_out()
        session.draft.changed.connect(self.refresh)
        session.checks.changed.connect(self._show_checks)
        session.activity.changed.connect(self._allow)
        self.table.selectionModel().selectionChanged.connect(self._allow)
        self.refresh()
        on_font_change(self, lambda _: self._fit())

    def refresh(self) -> None:
        base = self._session.draft.inputs.base
        self._base.set_full_text(model_name(base) if base else "no base model")
        plan = self._session.draft.plan
        if plan is not None and plan.recipe.base_model == base:
            facts = [plan.base.architecture, plan.base.dtype, human_bytes(plan.base.bytes)]
            self._facts.set_full_text(" · ".join(fact for fact in facts if fact))
        else:
            self._facts.set_full_text("reading headers …" if base else "")
        experts = self._session.draft.inputs.experts
        self._stack.setCurrentWidget(self.table if experts else self._hint)
        self._fit()
        self._allow()
        self._show_checks()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self.model.refresh()  # swatches have the theme's colours

    def _show_checks(self) -> None:
        """Show a one-line summary of the checks, if there are any."""
        checks, summary = self._session.checks.all, summary_of(self._session)
        worry = next((check.verdict.value for check in checks if check.is_worry), None)
        self.checks.setVisible(bool(checks))
        self.checks.setText(summary)
        self.checks.setAccessibleName(f"Show the checks: {summary}")
        self.checks.setIcon(icon(worry or "check"))

    def _make_table(self) -> QTableView:
        table = QTableView(self)
        # names of fine-tunes often start alike
        table.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        table.setObjectName("experts")
        table.setAccessibleName("Experts")
        table.setProperty("kind", "ground")
        table.setModel(self.model)
        plain_rows(table, padding=12)
        table.setIconSize(QSize(SWATCH, SWATCH))
        table.setItemDelegateForColumn(NAME, RowGround(table))
        table.setItemDelegateForColumn(WEIGHT, WeightCell(table))
        table.setItemDelegateForColumn(STATUS, SizeCell(table))
        table.clicked.connect(self._edit_weight)
        header = table.horizontalHeader()
        header.moveSection(STATUS, 1)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(NAME, QHeaderView.ResizeMode.Stretch)
        key = QKeySequence.StandardKey.Delete
        widget_action(table, "Remove expert", self._ask_to_remove, key)
        return table

    def _lay_out(self) -> None:
        head = across((heading("Models"), 1), self._add)
        names = down(self._base, self._facts, gap=0)
        base = across(Swatch(self), (names, 1), self._change_base, gap=10)
        self._place = QWidget(self)
        self._place.setLayout(self._stack)
        self._stack.addWidget(self._hint)
        self._stack.addWidget(self.table)
        below = across(self.checks, None, self._remove)
        self.setLayout(down(head, base, self._place, below, margins=(8, 8, 8, 4), gap=6))

    def _fit(self) -> None:
        """Set the height for all experts, up to eight; more are scrolled."""
        lines = self.window().height() / self.fontMetrics().height()
        most = min(max(round((lines - _OTHER_LINES) / _LINES_A_ROW), 2), _ROWS_SHOWN)
        rows = min(max(self.model.rowCount(), 1), most)
        line = self.table.verticalHeader().defaultSectionSize()
        head = self.table.horizontalHeader().sizeHint().height()
        self._place.setFixedHeight(head + rows * line + 2)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _edit_weight(self, index: QModelIndex) -> None:
        """Edit a cell that looks like a field on a single click."""
        editable = self.table.editTriggers() != QAbstractItemView.EditTrigger.NoEditTriggers
        if index.column() == WEIGHT and editable:
            self.table.edit(index)

    def _selected(self) -> list[int]:
        return sorted(index.row() for index in self.table.selectionModel().selectedRows())

    def _ask_to_remove(self) -> None:
        if self._remove.isEnabled():
            inputs = self._session.draft.inputs.without_experts(self._selected())
            self._session.inputs_wanted.emit(inputs)

    def _allow(self) -> None:
        """Models cannot change during a merge."""
        session = self._session
        locked = session.activity.is_running(State.MERGING, State.EXPORTING)
        triggers = QAbstractItemView.EditTrigger
        editable = triggers.DoubleClicked | triggers.EditKeyPressed
        self.table.setEditTriggers(triggers.NoEditTriggers if locked else editable)
        self._add.setEnabled(not locked and session.draft.inputs.base is not None)
        self._change_base.setEnabled(not locked)
        self._remove.setEnabled(not locked and bool(self._selected()))
        self._remove.setVisible(self._remove.isEnabled())
