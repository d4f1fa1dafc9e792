"""The window: puts the panels together and passes wishes on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction, QCloseEvent, QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QMainWindow, QMenuBar, QStackedWidget, QVBoxLayout, QWidget

from ace_gui.engine.contract.plan import Plan
from ace_gui.errors import WorkbenchError
from ace_gui.gui.control.conductor import Conductor
from ace_gui.gui.control.engine_client import EngineClient, Worker
from ace_gui.gui.control.forecasting import Forecasting
from ace_gui.gui.control.layer_queries import LayerQueries
from ace_gui.gui.control.merge_operation import MergeOperation
from ace_gui.gui.control.merge_stores import MergeStores
from ace_gui.gui.control.method_comparison import MethodComparison
from ace_gui.gui.control.output_operations import OutputOperations
from ace_gui.gui.control.scoring import Scoring
from ace_gui.gui.control.what_if import WhatIf
from ace_gui.gui.panels.choose_base_panel import ChooseBasePanel
from ace_gui.gui.panels.notice import Notice, Severity
from ace_gui.gui.panels.welcome import Start, WelcomePanel
from ace_gui.gui.saving import protect
from ace_gui.gui.shell.actions import Actions
from ace_gui.gui.shell.closing import Closing
from ace_gui.gui.shell.dropped_paths import local_paths
from ace_gui.gui.shell.footer import Footer
from ace_gui.gui.shell.menus import Menus
from ace_gui.gui.shell.opener import Opener
from ace_gui.gui.shell.override_editor import OverrideEditor
from ace_gui.gui.shell.primary_place import PrimaryPlace
from ace_gui.gui.shell.questions import Questions
from ace_gui.gui.shell.toast import Toast
from ace_gui.gui.shell.window_header import Header
from ace_gui.gui.state.activity import MergeRun, State
from ace_gui.gui.state.session import Session
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.theme import Scheme, Tokens, current_theme, icon, set_scheme
from ace_gui.gui.widgets.card import GAP
from ace_gui.gui.widgets.step_queue import Turns
from ace_gui.recipe.values import model_name

if TYPE_CHECKING:  # the workspace brings the plots along, which the empty window does not need
    from ace_gui.gui.dialogs.compare_dialog import CompareMethodsDialog
    from ace_gui.gui.dialogs.export_dialog import ExportDialog
    from ace_gui.gui.dialogs.method_dialog import ChooseMethodDialog
    from ace_gui.gui.shell.workspace import Workspace

_SIZE: Final = (1440, 900)
_BUSY: Final = (State.MERGING, State.EXPORTING)
_CANCELLABLE: Final = (
    State.PLANNING,
    State.ANALYSING,
    State.REPORTING,
    State.SCORING,
    State.TUNING,
)


class MainWindow(QMainWindow):
    """``closed`` follows when the window is really closed, after asking where there is need."""

    closed = Signal()

    def __init__(
        self, worker: Worker, settings: Settings, stores: MergeStores, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.settings = settings
        self.session = Session(self)
        self.session.device = settings.device
        self.session.limit_memory(settings.memory_bytes)
        self.engine = EngineClient(self.session, worker, self)
        self.merge = MergeOperation(self.session, self.engine, stores)
        self.output = OutputOperations(self.session, self.engine, self)
        self.conductor = Conductor(self.session, self.engine, self.merge, self)
        self.comparison = MethodComparison(self.session, self.engine, stores, self.conductor, self)
        self.compare_dialog: CompareMethodsDialog | None = None
        self.queries = LayerQueries(self.session, self.engine, self)
        self.what_if = WhatIf(self.session, self.engine, self)
        self.scoring = Scoring(self.session, self.engine, self)
        self.forecasting = Forecasting(self.session, self.engine, self)
        self.opener = Opener(self.session, self.conductor, self.output, self)
        self.actions_ = Actions(self)
        self.header = Header(PrimaryPlace(self.session, self.actions_), self)
        self.menus = Menus(self, self.header.menu_bar, self.actions_)
        self.notice = Notice(self, floats=True)
        self.questions = Questions(
            self.session,
            self.conductor,
            self.merge,
            self.notice,
            lambda: self.workspace.show_checks(),
        )
        self.welcome = WelcomePanel(self._starts(), self.actions_.sample, self)
        self.choose_base = ChooseBasePanel(self)
        self.export_dialog: ExportDialog | None = None
        self._workspace: Workspace | None = None
        self._making: Generator[None, None, Workspace] | None = None
        self._preparing, self._restyling = Turns(self), Turns(self)
        self.closing = Closing(self.session, self)
        self.closing.agreed.connect(self.close_unasked)
        self._closing = False
        self._plan: Plan | None = None  # the latest whose warnings were shown
        self._warnings: tuple[str, ...] = ()
        self._lay_out()
        self._connect_session()
        self._connect_actions()
        self._restore()
        protect(lambda: self.session.draft.inputs.models)

    @property
    def workspace(self) -> Workspace:
        """The panels; made when they are first needed."""
        while self._workspace is None:
            self._make_panel()
        return self._workspace

    def prepare(self) -> None:
        """Make the panels before they are needed, one in a turn of the event loop."""
        self._preparing.run(self._prepare())

    def _prepare(self) -> Generator[None, None, None]:
        while self._workspace is None:
            self._make_panel()
            yield

    def _make_panel(self) -> None:
        from ace_gui.gui.shell.workspace import workspace_in_steps

        if self._making is None:
            change_base = self.opener.change_base
            self._making = workspace_in_steps(
                self.session, self.what_if, self.scoring, change_base, self.actions_
            )
        try:
            next(self._making)
        except StopIteration as made:
            self._making = None
            self._take_in(made.value)

    def _take_in(self, made: Workspace) -> None:
        made.restore_layout(self.settings)
        for _piece in made.restyle(current_theme()):
            pass  # nothing is seen yet
        made.experts.remove_wanted.connect(self.conductor.remove_experts)
        made.experts.model.expert_edited.connect(self.conductor.change_expert)
        made.method.parameter_edited.connect(self.conductor.set_parameter)
        made.method.inputs_edited.connect(self.conductor.change)
        self.override_editor = OverrideEditor(self.session, self.conductor, made, self)
        made.inputs_edited.connect(self.conductor.change)
        made.value_chosen.connect(self.conductor.set_parameter)
        made.trial_accepted.connect(lambda: self.conductor.change(self.what_if.inputs()))
        made.heterogeneity.tau_committed.connect(partial(self.conductor.set_parameter, "tau"))
        made.method.seen.connect(self.forecasting.look)
        self.forecasting.changed.connect(made.method.show_forecast)
        made.finding_wanted.connect(self.queries.want)
        self.queries.awaited.connect(made.set_awaited)
        self.header.workspaces.chosen.connect(made.show_space)
        self.actions_.inputs.toggled.connect(made.show_inputs)
        made.left.folded_changed.connect(lambda folded: self.actions_.inputs.setChecked(not folded))
        self.actions_.maximise.triggered.connect(lambda _=False: made.cards.toggle_maximised())
        made.space_shown.connect(self.header.workspaces.choose)
        self._pages.addWidget(made)
        self._workspace = made

    # Layout

    def _lay_out(self) -> None:
        self.setWindowIcon(icon("app"))
        self.setAcceptDrops(True)
        self.setMinimumSize(900, 600)
        self._pages = QStackedWidget(self)
        self._pages.addWidget(self.welcome)
        self._pages.addWidget(self.choose_base)
        self._central = central = QWidget(self)
        layout = QVBoxLayout(central)
        layout.setContentsMargins(GAP, 0, 12, 0)
        layout.addWidget(self._pages, 1)
        self.setCentralWidget(central)
        self.notice.setParent(central)
        self._toast = Toast(self.notice, central)
        self.setMenuWidget(self.header)
        self.setStatusBar(Footer(self.session, self.menus.devices, self.actions_, self))

    def _starts(self) -> list[Start]:
        a = self.actions_
        return [
            Start(a.open_base, "open", "A folder; its experts are added next"),
            Start(a.open_cached, "scan", "Models that were downloaded before"),
            Start(a.open_recipe, "file", "YAML, of this program or mergekit"),
        ]

    def _restore(self) -> None:
        self.resize(*_SIZE)
        if not self.settings.geometry.isEmpty():
            self.restoreGeometry(self.settings.geometry)
        self._show_recent()
        self.menus.set_devices((), self.session.device)
        self.menus.memory.offer(0, self.session.memory_bytes)
        self.set_theme(current_theme())
        self._refresh()

    def set_theme(self, theme: Tokens) -> None:
        """Restyle what does not follow the palette by itself."""
        for action in self.actions_.schemes.actions():
            action.setChecked(action.data() == self.settings.scheme)
        if self._workspace is not None:
            self._restyling.run(self._restyle(self._workspace, theme))

    def _restyle(self, workspace: Workspace, theme: Tokens) -> Generator[None, None, None]:
        """Plot by plot, each in a turn of its own; then all panels show the new colours at once.

        To tell every widget of the new palette, as Qt does in the turn that sets it, is enough for
        one turn: the panels are not painted in it.
        """
        self._central.setUpdatesEnabled(False)
        try:
            yield
            yield from workspace.restyle(theme)
        finally:
            self._central.setUpdatesEnabled(True)

    # Connections

    def _connect_session(self) -> None:
        session = self.session
        for signal in (session.activity.changed, session.draft.changed, session.results.changed):
            signal.connect(self._refresh)
        session.engine_changed.connect(self._show_engine)
        session.draft.changed.connect(self._show_plan)
        session.problem.connect(self.show_error)
        session.advice.connect(lambda sentence: self.notice.show_message(Severity.INFO, sentence))
        self.menus.explained.connect(session.advice)
        self.opener.base_unclear.connect(self._ask_for_base)
        self.choose_base.chosen.connect(self._take_base)
        self.choose_base.dismissed.connect(self._refresh)
        self.conductor.opened.connect(self._remember)
        for recent in (self.menus.recent_chosen, self.welcome.recent_chosen):
            recent.connect(lambda path: self.opener.open_paths([path]))
        self.menus.devices.chosen.connect(self._choose_device)
        self.menus.memory.limited.connect(self._limit_memory)

    def _connect_actions(self) -> None:
        a, opener = self.actions_, self.opener
        slots: dict[QAction, Callable[[], object]] = {
            a.open_base: opener.open_base,
            a.open_base_file: opener.open_base_file,
            a.add_experts: opener.add_experts,
            a.add_expert_files: opener.add_expert_files,
            a.open_cached: opener.open_cached,
            a.open_recipe: opener.open_recipe,
            a.save_recipe: opener.save_recipe,
            a.sample: opener.open_sample,
            a.stop_opening: self.conductor.stop_opening,
            a.close_models: self.conductor.close,
            a.quit: self.close,
            a.merge: self.questions.merge,
            a.cancel: self._cancel,
            a.choose_method: self.choose_method,
            a.compare: self.compare_methods,
            a.export: self.open_export,
            a.report: opener.save_report,
            a.find: lambda: self.workspace.layers.focus_filter(),
            a.next_layer: lambda: self.workspace.layers.step(1),
            a.previous_layer: lambda: self.workspace.layers.step(-1),
            a.top_layer: lambda: self.session.select(self.session.layers.most_heterogeneous),
            a.reset_layout: self._reset_layout,
            a.help: self._show_help,
            a.about: self._show_about,
        }
        for action, slot in slots.items():
            a.connect(action, slot)
        a.schemes.triggered.connect(lambda action: self._choose_scheme(action.data()))

    # What the session says

    def _refresh(self) -> None:
        session, a = self.session, self.actions_
        busy = session.activity.is_running(*_BUSY)
        loaded = session.draft.inputs.base is not None
        opening = (a.open_base, a.open_base_file, a.open_cached, a.open_recipe, a.sample)
        for action in opening:
            action.setEnabled(not busy)
        for action in (a.add_experts, a.add_expert_files):
            action.setEnabled(loaded and not busy)
        for action in (
            a.find,
            a.next_layer,
            a.previous_layer,
            a.top_layer,
            a.inputs,
            a.maximise,
            a.reset_layout,
        ):
            action.setEnabled(loaded)
        a.stop_opening.setEnabled(session.activity.is_running(State.PLANNING))
        a.close_models.setEnabled(loaded and not busy)
        a.save_recipe.setEnabled(loaded and bool(session.draft.inputs.experts))
        a.merge.setEnabled(session.can_merge)
        a.merge.setText("Continue &merge" if session.can_resume and not busy else "&Merge")
        a.compare.setEnabled(session.draft.plan is not None and bool(session.draft.plan.experts))
        a.cancel.setEnabled(busy or session.activity.is_running(*_CANCELLABLE))
        a.export.setEnabled(session.can_export)
        a.report.setEnabled(session.can_report)
        a.choose_method.setEnabled(session.engine is not None)
        self.setWindowTitle(self._title())
        self._show_page()
        if self._closing and not busy:
            self.close()

    def menuBar(self) -> QMenuBar:
        """The one in the header."""
        return self.header.menu_bar

    def _title(self) -> str:
        base = self.session.draft.inputs.base
        return f"{model_name(base)} – ACE Workbench" if base is not None else "ACE Workbench"

    def _show_page(self) -> None:
        loaded = self.session.draft.inputs.base is not None
        self.header.workspaces.setVisible(loaded)
        self._pages.setCurrentWidget(self.workspace if loaded else self.welcome)

    def _show_engine(self) -> None:
        engine = self.session.engine
        if engine is not None:
            self.menus.set_devices(engine.devices, self.session.device, engine.devices_not_used)
            self.menus.memory.offer(engine.memory_bytes, self.session.memory_bytes)
            if engine.problems:
                self.notice.show_message(
                    Severity.WARNING, engine.problems[0], "\n".join(engine.problems[1:])
                )

    def _show_plan(self) -> None:
        plan = self.session.draft.plan
        if plan is None or plan is self._plan:
            return
        self._plan = plan
        if self.notice.severity is Severity.ERROR:
            self.notice.hide()
        if plan.experts and plan.warnings != self._warnings:
            self._warnings = plan.warnings
            if plan.warnings:
                self.notice.show_message(Severity.WARNING, " ".join(plan.warnings))

    def show_error(self, error: WorkbenchError) -> None:
        """Show an error in the window, unless the export dialog shows it."""
        exporting = self.export_dialog is not None and self.export_dialog.isVisible()
        if not self.questions.asks_about(error) and not exporting:
            self.notice.show_error(error)

    # What the person wants

    def choose_method(self) -> ChooseMethodDialog | None:
        """Open the dialog of the merge methods, once the engine has said which there are."""
        from ace_gui.gui.dialogs.method_dialog import ChooseMethodDialog

        draft = self.session.draft
        if self.session.engine is None:
            return None
        experts = len(draft.inputs.experts)
        dialog = ChooseMethodDialog(draft.methods, draft.inputs.method, experts, self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.chosen.connect(self.conductor.choose_method)
        dialog.open()
        return dialog

    def compare_methods(self) -> None:
        """Open the dialog that merges by several methods and compares them."""
        from ace_gui.gui.dialogs.compare_dialog import CompareMethodsDialog

        if self.compare_dialog is None:
            self.compare_dialog = CompareMethodsDialog(self.session, self.comparison, self)
            self.compare_dialog.pair_wanted.connect(self._compare_layers)
        self.compare_dialog.show()
        self.compare_dialog.raise_()

    def _compare_layers(self, first: MergeRun, second: MergeRun) -> None:
        self.session.results.comparison.compare(first, second)
        self.workspace.show_comparison()

    def _cancel(self) -> None:
        self.conductor.cancel()
        self.comparison.stop()

    def open_export(self) -> None:
        """Show the export dialog."""
        from ace_gui.gui.dialogs.export_dialog import ExportDialog

        if self.session.can_export:
            self.export_dialog = ExportDialog(self.session, self.output, self)
            self.export_dialog.finished.connect(self._forget_export)
            self.export_dialog.open()

    def _forget_export(self) -> None:
        if self.export_dialog is not None:
            self.export_dialog.deleteLater()
            self.export_dialog = None

    def _show_help(self) -> None:
        from ace_gui.gui.dialogs.help_dialog import HelpDialog

        dialog = HelpDialog(self)
        dialog.finished.connect(dialog.deleteLater)
        dialog.show()

    def _show_about(self) -> None:
        from ace_gui.gui.dialogs.about_dialog import AboutDialog

        dialog = AboutDialog(self)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def _ask_for_base(self, paths: Sequence[Path]) -> None:
        self.choose_base.ask(paths)
        self._pages.setCurrentWidget(self.choose_base)

    def _take_base(self, paths: Sequence[Path]) -> None:
        self._show_page()
        self.opener.open_paths(paths)

    def _choose_device(self, name: str) -> None:
        self.settings.device = name
        self.session.choose_device(name)
        self._show_engine()

    def _limit_memory(self, memory_bytes: int | None) -> None:
        self.settings.memory_bytes = memory_bytes
        self.session.limit_memory(memory_bytes)
        self._show_engine()

    def _choose_scheme(self, scheme: Scheme) -> None:
        self.settings.scheme = scheme
        set_scheme(scheme)

    def _reset_layout(self) -> None:
        self.settings.forget_layout()
        self.workspace.reset_layout()

    def _remember(self, paths: Sequence[Path]) -> None:
        self.settings.remember(Path(paths[0]))
        self._show_recent()

    def _show_recent(self) -> None:
        recent = self.settings.recent
        self.menus.set_recent(recent)
        self.welcome.set_recent(recent)

    # Qt's events

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if local_paths(event.mimeData()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        event.acceptProposedAction()
        self.opener.drop(local_paths(event.mimeData()))

    def closeEvent(self, event: QCloseEvent) -> None:
        worry = self.closing.worry
        if worry and not self._closing:
            event.ignore()
            self.closing.ask(worry)
            return
        if self.session.activity.is_running(*_BUSY):
            event.ignore()  # cancelled; the end of the job closes
            return
        self._restyling.stop()
        self.settings.geometry = self.saveGeometry()
        if self._workspace is not None:
            self._workspace.save_layout(self.settings)
        event.accept()
        self.closed.emit()

    def close_unasked(self) -> None:
        """Close whatever is lost by it, as soon as what is running has stopped."""
        self._closing = True
        self._cancel()
        self.close()
