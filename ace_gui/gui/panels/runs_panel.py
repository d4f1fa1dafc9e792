"""The runs below the method: restore, export, compare, rename, delete."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from PySide6.QtCore import QPoint, Qt, Signal, SignalInstance
from PySide6.QtWidgets import QAbstractItemView, QListView, QMenu, QWidget

from ace_gui.formatting import human_bytes
from ace_gui.gui.models.list_models import RunsModel
from ace_gui.gui.state.activity import MergeRun, State
from ace_gui.gui.state.session import Session
from ace_gui.gui.theme import Face, icon
from ace_gui.gui.widgets.cells import RunCell
from ace_gui.gui.widgets.controls import push_button, tool_button, widget_action
from ace_gui.gui.widgets.labels import explain, heading, muted_label
from ace_gui.gui.widgets.layout import across, down

_ROWS_SHOWN: Final = 3


class RunsPanel(QWidget):
    """``restore_wanted``, ``export_wanted`` and ``expert_wanted`` (it shall be an expert) carry one
    run, ``delete_wanted`` several.

    ``pair_wanted`` carries two runs to compare, ``renamed`` a run and its name.
    ``clean_up_wanted``: the user wants to see the merges on disk.
    """

    restore_wanted = Signal(object)
    export_wanted = Signal(object)
    expert_wanted = Signal(object)
    delete_wanted = Signal(object)
    pair_wanted = Signal(object, object)
    renamed = Signal(object, str)
    clean_up_wanted = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__()
        explain(self, "Run")
        self._session = session
        self.model = RunsModel(session, self)
        self.model.renamed.connect(self.renamed)
        self.list = self._make_list()
        self._scores, self.used = muted_label("mean score"), muted_label()
        tip, clean_up = "Choose which kept merges to delete from disk", self.clean_up_wanted.emit
        name = "Clean up the kept runs"
        clean = push_button(
            "Clean up…", clean_up, kind="link", tip=tip, name=name, role=Face.CAPTION
        )
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
        """Show the session's runs; hidden before there is one."""
        runs = self._session.results.runs.all
        self.setVisible(bool(runs))
        if not runs:
            return
        hint = self.list.sizeHintForRow(0)
        self.list.setFixedHeight(min(len(runs), _ROWS_SHOWN) * (hint + 1) + 2)
        total = sum(run.bytes for run in runs)
        self.used.setText(f"{len(runs)} kept, {human_bytes(total)}" if total else "")
        self._scores.setVisible(any(run.accuracies for run in runs))
        self._allow()

    def selected(self) -> list[MergeRun]:
        """The selected runs, newest first."""
        rows = sorted(index.row() for index in self.list.selectionModel().selectedIndexes())
        return [self.model.run_at(row) for row in rows]

    def _make_list(self) -> QListView:
        made = QListView(self)
        made.setAccessibleName("Runs")
        made.setProperty("kind", "ground")
        made.setModel(self.model)
        made.setItemDelegate(RunCell(made))
        made.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        made.setEditTriggers(QAbstractItemView.EditTrigger.EditKeyPressed)
        made.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        made.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        made.setSpacing(0)
        made.setMouseTracking(True)
        made.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        made.customContextMenuRequested.connect(partial(self._show_menu, made.viewport()))
        made.activated.connect(lambda _: self.restore.trigger())
        return made

    def _make_actions(self) -> None:
        add = partial(widget_action, self.list)

        def first(signal: SignalInstance) -> Callable[[], object]:
            return lambda: signal.emit(self.selected()[0])

        tip = "Restore this run's settings and merge"
        self.restore = add("&Restore", first(self.restore_wanted), tip=tip)
        tip = "Write this run's model as a folder"
        self.export = add("&Export…", first(self.export_wanted), tip=tip)
        tip = "Write this run's model as a folder, and merge it again with other models"
        self.add = add("Add as an e&xpert…", first(self.expert_wanted), tip=tip)
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
        chosen, current = self.selected(), self._session.results.merge
        if len(chosen) == 1 and current is not None and current.finished is not None:
            chosen = [*chosen, current] if current is not chosen[0] else chosen
        return sorted(chosen[:2], key=lambda run: run.made)

    def _allow(self) -> None:
        chosen = self.selected()
        free = not self._session.activity.is_running(State.MERGING, State.EXPORTING)
        one = len(chosen) == 1
        for action in (self.restore, self.export, self.add):
            action.setEnabled(one and free)
        self.rename.setEnabled(one)
        self.compare.setEnabled(len(self._pair()) == 2 and len(chosen) <= 2)
        self.delete.setEnabled(bool(chosen) and free)
        self.more.setEnabled(bool(chosen))
