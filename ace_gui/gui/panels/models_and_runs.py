"""The models of the merge with name, weight and colour, and the runs below the method."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from PySide6.QtCore import QModelIndex, QPoint, QSize, Qt, Signal
from PySide6.QtGui import QAction, QKeySequence, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QListView,
    QMenu,
    QStackedLayout,
    QTableView,
    QWidget,
)

from ace_gui.formatting import human_bytes
from ace_gui.gui.control.merge_operation import RunOperations
from ace_gui.gui.models.list_models import NAME, STATUS, WEIGHT, ExpertsModel, RunsModel
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.session import Session
from ace_gui.gui.theme import Face, face, icon
from ace_gui.gui.theme.painting import SWATCH
from ace_gui.gui.widgets.controls import action_button, push_button, tool_button, widget_action
from ace_gui.gui.widgets.labels import ElidedLabel, Swatch, explain, heading, muted_label
from ace_gui.gui.widgets.layout import across, down, on_font_change
from ace_gui.gui.widgets.tables import RunCell, SizeCell, WeightCell, plain_rows
from ace_gui.recipe.values import model_name

_ROWS_SHOWN: Final = 8
# in text lines: height of the rest of the column
_OTHER_LINES = 18
_LINES_A_ROW = 1.8


class ExpertsPanel(QWidget):
    """``checks_wanted``: the user clicked the summary of the checks."""

    checks_wanted = Signal()

    def __init__(self, session: Session, change_base: Callable[[], object], add: QAction) -> None:
        super().__init__()
        explain(self, "Expert")
        self._session = session
        self.model = ExpertsModel(session, self)
        draft = session.draft
        inputs_wanted = session.inputs_wanted
        self.model.expert_edited.connect(
            lambda row, expert: inputs_wanted.emit(draft.inputs.with_expert(row, expert))
        )
        self._base = ElidedLabel()
        self._facts = ElidedLabel(caption=True)
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
            self._facts.set_full_text("being opened …" if base else "")
        experts = self._session.draft.inputs.experts
        self._stack.setCurrentWidget(self.table if experts else self._hint)
        self._fit()
        self._allow()
        self._show_checks()

    def _show_checks(self) -> None:
        """Show a one-line summary of the checks, if there are any."""
        checks = self._session.checks.all
        summary = self._session.checks.summary
        worry = next((check.verdict.value for check in checks if check.is_worry), None)
        self.checks.setVisible(bool(checks))
        self.checks.setText(summary)
        self.checks.setAccessibleName(f"Show the checks: {summary}")
        self.checks.setIcon(icon(worry or "check"))

    def _make_table(self) -> QTableView:
        table = QTableView(self)
        # names of fine-tuned models often have the same start
        table.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        table.setObjectName("experts")
        table.setAccessibleName("Experts")
        table.setProperty("kind", "ground")
        table.setModel(self.model)
        plain_rows(table, padding=12)
        table.setIconSize(QSize(SWATCH, SWATCH))
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
        """Set the height for all experts up to eight. More experts are scrolled."""
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
        """Edit a weight on a single click, because its cell looks like a field."""
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
        """Allow changes of the models, but not during a merge."""
        session = self._session
        locked = session.activity.is_writing
        triggers = QAbstractItemView.EditTrigger
        editable = triggers.DoubleClicked | triggers.EditKeyPressed
        self.table.setEditTriggers(triggers.NoEditTriggers if locked else editable)
        self._add.setEnabled(not locked and session.draft.inputs.base is not None)
        self._change_base.setEnabled(not locked)
        self._remove.setEnabled(not locked and bool(self._selected()))
        self._remove.setVisible(self._remove.isEnabled())


_RUNS_SHOWN: Final = 3


class RunsPanel(QWidget):
    """The list of runs. ``export_wanted`` carries a run and whether its model becomes an expert,
    ``delete_wanted`` several runs, ``pair_wanted`` two runs to compare."""

    export_wanted = Signal(object, bool)
    delete_wanted = Signal(object)
    pair_wanted = Signal(object, object)

    def __init__(self, session: Session, runs: RunOperations, clean_up: QAction) -> None:
        super().__init__()
        explain(self, "Run")
        self._session = session
        self._runs = runs
        self.model = RunsModel(session, self)
        self.model.renamed.connect(runs.rename)
        self.list = self._make_list()
        self._scores = muted_label("mean score")
        self.used = muted_label()
        clean = action_button(clean_up, "Clean up…", self, kind="link")
        clean.setAccessibleName("Clean up the kept runs")
        clean.setFont(face(Face.CAPTION))
        self._make_actions()
        head = across((heading("Runs"), 1), self._scores, self.more)
        foot = across((self.used, 1), clean)
        self.setLayout(down(head, self.list, foot, margins=(8, 4, 8, 4), gap=2))
        self.list.selectionModel().selectionChanged.connect(self._allow)
        session.activity.changed.connect(self._allow)
        session.results.changed.connect(self.refresh)
        session.results.runs.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show the session's runs. Without a run the panel is hidden."""
        runs = self._session.results.runs.all
        self.setVisible(bool(runs))
        if not runs:
            return
        hint = self.list.sizeHintForRow(0)
        self.list.setFixedHeight(min(len(runs), _RUNS_SHOWN) * (hint + 1) + 2)
        total = sum(run.bytes for run in runs)
        self.used.setText(f"{len(runs)} on disk, {human_bytes(total)}" if total else "")
        self._scores.setVisible(any(run.accuracies for run in runs))
        self._allow()

    def selected(self) -> list[MergeRun]:
        """The selected runs, newest first."""
        rows = sorted(index.row() for index in self.list.selectionModel().selectedIndexes())
        return [self.model.run_at(row) for row in rows]

    def _make_list(self) -> QListView:
        view = QListView(self)
        view.setAccessibleName("Runs")
        view.setProperty("kind", "ground")
        view.setModel(self.model)
        view.setItemDelegate(RunCell(view))
        view.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        view.setEditTriggers(QAbstractItemView.EditTrigger.EditKeyPressed)
        view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        view.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        view.setSpacing(0)
        view.setMouseTracking(True)
        view.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        view.customContextMenuRequested.connect(partial(self._show_menu, view.viewport()))
        view.activated.connect(lambda _: self.restore.trigger())
        return view

    def _make_actions(self) -> None:
        add = partial(widget_action, self.list)

        def first(act: Callable[[MergeRun], object]) -> Callable[[], object]:
            return lambda: act(self.selected()[0])

        tip = "Restore this run's settings and merge"
        export = self.export_wanted.emit
        self.restore = add("&Restore", first(self._runs.restore), tip=tip)
        tip = "Write this run's model as a folder"
        self.export = add("&Export…", first(lambda run: export(run, False)), tip=tip)
        tip = "Write this run's model as a folder, and merge it again with other models"
        self.add = add("Add as an e&xpert…", first(lambda run: export(run, True)), tip=tip)
        tip = "Compare layer by layer: two runs, or this merge"
        self.compare = add("&Compare", lambda: self.pair_wanted.emit(*self._pair()), tip=tip)
        edit = self.list.edit
        tip = "Give this run a name"
        self.rename = add("Re&name", lambda: edit(self.list.currentIndex()), "F2", tip)
        delete = self.delete_wanted.emit
        self.delete = add("&Delete", lambda: delete(self.selected()), "Delete", "Delete from disk")
        self.more = tool_button("", "Actions for the selected run", self._show_below)
        self.more.setIcon(icon("more"))

    def _show_below(self) -> None:
        self._show_menu(self.more, QPoint(0, self.more.height()))

    def _show_menu(self, over: QWidget, point: QPoint) -> None:
        menu = QMenu(self)
        menu.addActions(self.list.actions())
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(over.mapToGlobal(point))

    def _pair(self) -> list[MergeRun]:
        """The two selected runs, or the selected one and the window's merge. Older first."""
        chosen = self.selected()
        current = self._session.results.merge
        if current is None or current.finished is None:
            return sorted(chosen[:2], key=lambda run: run.made)
        if len(chosen) == 1 and current is not chosen[0]:
            chosen = [*chosen, current]
        return sorted(chosen[:2], key=lambda run: run.made)

    def _allow(self) -> None:
        chosen = self.selected()
        free = not self._session.activity.is_writing
        single = len(chosen) == 1
        for action in (self.restore, self.export, self.add):
            action.setEnabled(single and free)
        self.rename.setEnabled(single)
        self.compare.setEnabled(len(self._pair()) == 2 and len(chosen) <= 2)
        self.delete.setEnabled(bool(chosen) and free)
        self.more.setEnabled(bool(chosen))
