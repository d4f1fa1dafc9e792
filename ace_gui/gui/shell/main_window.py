"""The main window: connects panels, session and dialogs."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QAction, QCloseEvent, QDragEnterEvent, QDropEvent, QKeyEvent
from PySide6.QtWidgets import QApplication, QMenuBar, QStackedWidget, QVBoxLayout, QWidget

from ace_gui.engine.contract.plan import Plan
from ace_gui.errors import WorkbenchError
from ace_gui.gui.control.engine.engine_client import EngineThread
from ace_gui.gui.control.merge_stores import MergeStores
from ace_gui.gui.panels.notice import Notice, Severity
from ace_gui.gui.panels.welcome.welcome_page import Start, WelcomePanel
from ace_gui.gui.saving import protect
from ace_gui.gui.shell.actions import BUSY, Actions, allow
from ace_gui.gui.shell.footer import Footer
from ace_gui.gui.shell.help_desk import HelpDesk
from ace_gui.gui.shell.long_work import LongWork
from ace_gui.gui.shell.menus import SAFETY, Menus
from ace_gui.gui.shell.merge_news import MergeNews
from ace_gui.gui.shell.projects.opener import Opener, local_paths
from ace_gui.gui.shell.projects.project import Project
from ace_gui.gui.shell.projects.recent_projects import RecentProjects
from ace_gui.gui.shell.questions import Questions
from ace_gui.gui.shell.shell_window import ShellWindow
from ace_gui.gui.shell.toast import Toast
from ace_gui.gui.shell.window_dialogs import Dialogs
from ace_gui.gui.shell.window_header import Header, PrimaryArea
from ace_gui.gui.state.activity import State
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.theme import Tokens, current_theme, icon, set_font_scale
from ace_gui.gui.widgets.files.file_dialogs import offers
from ace_gui.gui.widgets.layout.arrangement import GAP
from ace_gui.gui.widgets.layout.idle_queue import IdleQueue
from ace_gui.paths import Sample

if TYPE_CHECKING:  # the workspace imports the plots, which the empty window does not need
    from ace_gui.gui.shell.layout.workspace import Workspace

_SIZE: Final = (1440, 900)
_FRAME: Final = QSize(16, 48)  # px that a window manager may draw around it


class MainWindow(ShellWindow):
    """The main window. ``closed`` follows when it is really closed, after any confirmation."""

    closed = Signal()

    def __init__(
        self,
        worker: EngineThread,
        settings: Settings,
        stores: MergeStores,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(worker, settings, stores, parent)
        self.project = Project(self)
        self.opener = Opener(self, self.project)
        self.long_work = LongWork(self)
        self.dialogs = Dialogs(self)
        self.dialogs.compare_wanted.connect(lambda names: self.workspace.compare_methods(names))
        self.actions_ = Actions(self, self.history.stack)
        self.header = Header(PrimaryArea(self.session, self.actions_), self)
        self.menus = Menus(self, self.header.menu_bar, self.actions_)
        self.notice = Notice(self, floats=True)
        self.questions = Questions(self, self.notice, lambda: self.workspace.show_checks())
        self.help = HelpDesk(self)
        self.merge_news = MergeNews(self)
        self.welcome = WelcomePanel(
            self._starts(),
            self.actions_.sample,
            self.actions_.tutorial,
            self.actions_.clean_up,
            self,
        )
        self._workspace: Workspace | None = None
        self._making: Generator[None, None, Workspace] | None = None
        self._preparing, self._restyling, self._enlarging = (IdleQueue(self) for _ in range(3))
        self._closing = False
        self._plan: Plan | None = None  # the latest outcome whose warnings were shown
        self._warnings: tuple[str, ...] = ()
        self._lay_out()
        self.recent_projects = RecentProjects(self, self.menus, self.help)
        self._connect_session()
        self._connect_actions()
        self._restore()
        protect(lambda: self.session.draft.inputs.models)

    @property
    def workspace(self) -> Workspace:
        """The panels, created on first use."""
        while self._workspace is None:
            self._make_panel()
        return self._workspace

    def prepare(self) -> None:
        """Create the panels in advance, one per turn of the event loop."""
        self._preparing.run(self._prepare())
        self.runs.list_all()

    def _prepare(self) -> Generator[None, None, None]:
        while self._workspace is None:
            self._make_panel()
            yield

    def _make_panel(self) -> None:
        from ace_gui.gui.shell.layout.workspace import workspace_in_steps

        if self._making is None:
            self._making = workspace_in_steps(self, self.opener.change_base, self.actions_)
        try:
            next(self._making)
        except StopIteration as made:
            self._making = None
            self._take_in(made.value)

    def _take_in(self, made: Workspace) -> None:
        made.restore_layout(self.settings)
        for _piece in made.restyle(current_theme()):
            pass  # nothing is visible yet
        draft, change = self.session.draft, self.conductor.change
        made.experts.remove_wanted.connect(
            lambda indices: change(draft.inputs.without_experts(indices))
        )
        made.experts.model.expert_edited.connect(
            lambda index, expert: change(draft.inputs.with_expert(index, expert))
        )
        made.method.parameter_edited.connect(self.conductor.set_parameter)
        made.method.inputs_edited.connect(change)
        listed, layers, dialogs = made.method.overrides, made.layers, self.dialogs
        for panel in (listed, layers):
            panel.overrides_edited.connect(dialogs.override)
        listed.rule_wanted.connect(dialogs.edit_override)
        layers.rule_wanted.connect(dialogs.complete_override)
        made.heterogeneity.tau_committed.connect(partial(self.conductor.set_parameter, "tau"))
        made.runs.restore_wanted.connect(self.runs.restore)
        made.runs.export_wanted.connect(self.dialogs.export_run)
        made.runs.expert_wanted.connect(partial(self.dialogs.export_run, adds=True))
        made.runs.delete_wanted.connect(self.dialogs.delete_runs)
        made.runs.pair_wanted.connect(made.compare)
        made.runs.renamed.connect(self.runs.rename)
        made.runs.clean_up_wanted.connect(self.dialogs.clean_up_runs)
        made.method.seen.connect(self.forecasting.look)
        self.forecasting.changed.connect(made.method.show_forecast)
        self.queries.awaited.connect(made.set_awaited)
        self.header.workspaces.chosen.connect(made.show_space)
        self.actions_.inputs.toggled.connect(lambda shown: made.left.fold(not shown))
        made.left.folded_changed.connect(lambda folded: self.actions_.inputs.setChecked(not folded))
        self.actions_.maximise.triggered.connect(lambda _=False: made.cards.toggle_maximised())
        self.actions_.detach.triggered.connect(lambda _=False: made.cards.toggle_detached())
        made.space_shown.connect(self.header.workspaces.choose)
        self._pages.addWidget(made)
        last = made.order_tabs(self.header.primary.main)
        QWidget.setTabOrder(last, self._footer.device)
        self._workspace = made

    # Layout

    def _lay_out(self) -> None:
        self.setWindowIcon(icon("app"))
        self.setAcceptDrops(True)
        self.setMinimumSize(900, 600)
        self._pages = QStackedWidget(self)
        self._pages.addWidget(self.welcome)
        self._central = central = QWidget(self)
        layout = QVBoxLayout(central)
        layout.setContentsMargins(GAP, 0, 12, 0)
        layout.addWidget(self._pages, 1)
        self.setCentralWidget(central)
        self.notice.setParent(central)
        self._toast = Toast(self.notice, central, self._checked)
        self.setMenuWidget(self.header)
        self._footer = Footer(self.session, self.menus.devices, self.actions_, self)
        self.setStatusBar(self._footer)

    def _checked(self) -> QWidget | None:
        """The panel with the checks, which questions are about."""
        return None if self._workspace is None else self._workspace.inspector

    def _starts(self) -> list[Start]:
        a = self.actions_
        return [
            Start(a.open_base, "open", "A folder or a file; add experts next"),
            Start(a.scan, "scan", "Find models that fit together"),
            Start(a.open_recipe, "file", "YAML, from this program or mergekit"),
            Start(a.reopen, "clock", "What the last session had open"),
        ]

    def _restore(self) -> None:
        self.resize(*_SIZE)
        if not self.settings.geometry.isEmpty():
            self.restoreGeometry(self.settings.geometry)
        self.menus.devices.offer((), self.session.chosen_device)
        self.menus.memory.offer(0, self.session.memory_bytes)
        self.set_theme(current_theme())
        self._refresh()

    def fit_to_screen(self) -> None:
        """Fill the screen before the first show if the window and its frame do not fit on it.

        The size used when it is no longer maximised also fits and lies on the screen.
        """
        room, whole = self.screen().availableGeometry(), self.size() + _FRAME
        if whole != whole.boundedTo(room.size()):
            self.resize(self.size().boundedTo(room.size() - _FRAME))
            self.move(room.topLeft())
            self.setWindowState(Qt.WindowState.WindowMaximized)

    def set_theme(self, theme: Tokens) -> None:
        """Restyle everything that does not follow the palette automatically."""
        self._show_preferences()
        if self._workspace is not None:
            self._restyling.run(self._restyle(self._workspace, theme))

    def _restyle(self, workspace: Workspace, theme: Tokens) -> Generator[None, None, None]:
        """Restyle one plot per turn, then show the new colours in all panels at once.

        Qt's palette update of every widget takes a whole turn, so the panels are not painted in it.
        """
        self._central.setUpdatesEnabled(False)
        try:
            yield
            yield from workspace.restyle(theme)
        finally:
            self._central.setUpdatesEnabled(True)

    def _enlarge(self, percent: int) -> Generator[None, None, None]:
        """Apply a new font size in several turns: first the widgets, then plot by plot."""
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        self._central.setUpdatesEnabled(False)
        try:
            yield from set_font_scale(app, percent)
            yield
            if self._workspace is not None:
                yield from self._workspace.restyle(current_theme())
        finally:
            self._central.setUpdatesEnabled(True)

    # Connections

    def _connect_session(self) -> None:
        session = self.session
        for signal in (session.activity.changed, session.draft.changed, session.results.changed):
            signal.connect(self._refresh)
        session.engine_changed.connect(self._show_engine)
        self.preferences.changed.connect(self._show_preferences)
        self.preferences.enlarged.connect(
            lambda percent: self._enlarging.run(self._enlarge(percent))
        )
        session.draft.changed.connect(self._show_plan)
        session.problem.connect(self.show_error)
        session.written.connect(lambda text, path: self.notice.offer(text, offers(path)))
        self.long_work.counted.connect(self._show_project)
        session.advice.connect(lambda sentence: self.notice.show_message(Severity.INFO, sentence))
        self.menus.devices.explained.connect(session.advice)
        self.conductor.opened.connect(self.project.open)
        self.conductor.opened.connect(lambda *_: self.workspace.show_space(0))
        self.conductor.leaving.connect(self.project.leave)
        self.project.changed.connect(self._show_project)
        self.project.save_wanted.connect(self.opener.save_recipe)
        self.history.wanted.connect(self.conductor.change)
        self.runs.listed.connect(
            lambda kept: self.welcome.recent.show_kept(sum(run.bytes for run in kept))
        )
        self.menus.devices.chosen.connect(self._choose_device)
        self.menus.memory.limited.connect(self.preferences.limit_memory)

    def _connect_actions(self) -> None:
        a, opener = self.actions_, self.opener
        slots: dict[QAction, Callable[[], object]] = {
            a.open_base: opener.open_base,
            a.add_experts: opener.add_experts,
            a.open_cached: opener.open_cached,
            a.open_recipe: opener.open_recipe,
            a.scan: opener.scan,
            a.save_recipe: opener.save_recipe,
            a.save_recipe_as: opener.save_recipe_as,
            a.sample: self._open_sample,
            a.stop_opening: self.conductor.stop_opening,
            a.close_models: lambda: self.project.before_leaving(self.conductor.close),
            a.quit: self.close,
            a.merge: self.questions.merge,
            a.cancel: self._cancel,
            a.choose_method: self.dialogs.choose_method,
            a.compare: lambda: self.workspace.show_methods(),
            a.export: self.dialogs.open_export,
            a.clean_up: self.dialogs.clean_up_runs,
            a.report: lambda: self.dialogs.show_report(opener.save_report),
            a.find: lambda: self.workspace.layers.focus_filter(),
            a.next_layer: lambda: self.workspace.layers.step(1),
            a.previous_layer: lambda: self.workspace.layers.step(-1),
            a.top_layer: lambda: self.session.select(self.session.layers.most_heterogeneous),
            a.reset_layout: self._reset_layout,
            a.preferences: lambda: self.dialogs.show_preferences(self.preferences),
        }
        for action, slot in slots.items():
            a.connect(action, slot)
        a.schemes.triggered.connect(lambda action: self.preferences.choose_scheme(action.data()))

    # Session signals

    def _refresh(self) -> None:
        allow(self.actions_, self.session, self.merge)
        self._show_project()
        self._show_page()
        if self._closing and not self.session.activity.is_running(*BUSY):
            self.close()

    def menuBar(self) -> QMenuBar:
        """The menu bar, which is in the header."""
        return self.header.menu_bar

    def _show_project(self) -> None:
        """Update the title, with a mark if there are unsaved changes."""
        name = self.project.name
        title = f"{name}[*] – ACE Workbench" if name else "ACE Workbench"
        share = self.long_work.share
        self.setWindowTitle(title if share is None else f"{share} % – {title}")
        self.setWindowModified(self.project.is_modified)

    def _show_page(self) -> None:
        loaded = self.session.draft.inputs.base is not None
        self.welcome.show_opening(self.session.activity.is_running(State.PLANNING))
        self.header.workspaces.setVisible(loaded)
        self._pages.setCurrentWidget(self.workspace if loaded else self.welcome)

    def _show_engine(self) -> None:
        engine = self.session.engine
        if engine is not None:
            self._show_preferences()
            if engine.problems:
                self.notice.show_message(
                    Severity.WARNING, engine.problems[0], "\n".join(engine.problems[1:])
                )

    def _show_preferences(self) -> None:
        for action in self.actions_.schemes.actions():
            action.setChecked(action.data() == self.settings.scheme)
        engine, session = self.session.engine, self.session
        if engine is not None:
            not_used, threads = engine.devices_not_used, engine.threads
            self.menus.devices.offer(engine.devices, session.chosen_device, not_used, threads)
            self.menus.memory.offer(engine.memory_bytes, session.memory_bytes)

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
        if not self.questions.asks_about(error) and not self.dialogs.is_exporting:
            self.notice.show_error(error)

    # User actions

    def _open_sample(self) -> None:
        """Open the sample, merge and evaluate it; the tutorial leaves that to the person."""
        from ace_gui.gui.shell.tours.sample_tour import Demo

        if self.help.is_touring:
            self.opener.open_sample()
        else:
            Demo(self, Sample.IMAGES.recipe)

    def _cancel(self) -> None:
        self.conductor.cancel()
        self.comparison.stop()

    def _choose_device(self, name: str) -> None:
        self.preferences.choose_device(name)
        if self.session.cluster:
            self.session.advice.emit(SAFETY)

    def _reset_layout(self) -> None:
        self.settings.forget_layout()
        self.workspace.reset_layout()

    # Qt's events

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if local_paths(event.mimeData()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        event.acceptProposedAction()
        self.opener.drop(local_paths(event.mimeData()))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.ActivationChange and self.isActiveWindow():
            self.questions.come_back()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Escape ends the tutorial, or shows all panels again after one was maximised."""
        made = self._workspace
        if event.key() == Qt.Key.Key_Escape and self.help.is_touring:
            self.help.end_tutorial()
        elif event.key() == Qt.Key.Key_Escape and made is not None and made.cards.is_maximised:
            made.cards.toggle_maximised()
        else:
            super().keyPressEvent(event)

    def closeEvent(self, event: QCloseEvent) -> None:
        if not self._closing and self._asks_before_closing():
            event.ignore()
            return
        if self.session.activity.is_running(*BUSY):
            event.ignore()  # cancelled; closes when the job has ended
            return
        self._restyling.stop()
        self._enlarging.stop()
        self.settings.geometry = self.saveGeometry()
        if self._workspace is not None:
            self._workspace.save_layout(self.settings)
            self._workspace.cards.put_back()
        self.project.leave()
        self.runs.finish()
        self.history.stack.blockSignals(True)  # it announces its own end
        event.accept()
        self.closed.emit()

    def _asks_before_closing(self) -> bool:
        """Ask before closing if something is unsaved or being written. False: nothing to ask."""
        writing = self.session.activity.is_running(*BUSY)
        if writing:
            self.dialogs.ask_before_closing(self.close_unasked)
        elif self.project.is_modified:
            self.project.before_leaving(self.close_unasked)
        return writing or self.project.is_modified

    def close_unasked(self) -> None:
        """Close without asking as soon as the running work has stopped."""
        self._closing = True
        self._cancel()
        self.close()
