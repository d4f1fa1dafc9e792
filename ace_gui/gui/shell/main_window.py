"""The main window, which connects panels, session and dialogs."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QAction, QCloseEvent, QDragEnterEvent, QDropEvent, QKeyEvent
from PySide6.QtWidgets import (
    QApplication,
    QMenuBar,
    QPushButton,
    QStackedWidget,
    QToolButton,
)

from ace_gui.engine.contract.plan import Plan
from ace_gui.errors import WorkbenchError
from ace_gui.gui.control.engine_client import EngineThread
from ace_gui.gui.control.merge_stores import MergeStores
from ace_gui.gui.panels.notice import Notice
from ace_gui.gui.panels.welcome_page import Start, WelcomePanel
from ace_gui.gui.saving import protect
from ace_gui.gui.shell.actions import SAFETY, Actions, Menus
from ace_gui.gui.shell.base_window import Window
from ace_gui.gui.shell.dialogs import Dialogs
from ace_gui.gui.shell.help_desk import HelpDesk
from ace_gui.gui.shell.messages import LongWork, MergeNews, Questions
from ace_gui.gui.shell.open_project import Project
from ace_gui.gui.shell.projects import Opener, RecentProjects, local_paths
from ace_gui.gui.shell.toast import Toast
from ace_gui.gui.shell.window_frame import Footer, PrimaryArea, WindowHeader
from ace_gui.gui.state.activity import ActivityState, Level
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.text import sentence_case
from ace_gui.gui.theme import icon, set_font_scale
from ace_gui.gui.widgets.file_dialogs import offers
from ace_gui.gui.widgets.layout import GAP, down, move_focus, pane
from ace_gui.gui.widgets.lazy import IdleQueue
from ace_gui.paths import Sample

if TYPE_CHECKING:  # the workspace imports the plots, which the empty window does not need
    from ace_gui.gui.shell.workspace import Workspace

_SIZE: Final = (1440, 900)
_FRAME: Final = QSize(16, 48)  # px that a window manager may draw around it
_BEGUN: Final = (
    ActivityState.MERGING,
    ActivityState.SCORING,
    ActivityState.TUNING,
    ActivityState.COMPARING,
    ActivityState.REPORTING,
)
"""Work that a person starts."""


class MainWindow(Window):
    """The main window. ``closed`` is emitted when it closes, after all questions are answered."""

    closed = Signal()

    def __init__(self, worker: EngineThread, settings: Settings, stores: MergeStores) -> None:
        super().__init__(worker, settings, stores)
        self.project = Project(self)
        self.opener = Opener(self)
        self.long_work = LongWork(self)
        self.dialogs = Dialogs(self)
        self.actions_ = Actions(self, self.history.stack)
        self.header = WindowHeader(PrimaryArea(self.session, self.actions_))
        self.menus = Menus(self, self.header.menu_bar, self.actions_)
        self.notice = Notice(self, floats=True)
        self.questions = Questions(self)
        self.help = HelpDesk(self)
        self.merge_news = MergeNews(self)
        a = self.actions_
        starts = [
            Start(a.open_base, "open", "A folder or a file; add experts next"),
            Start(a.scan, "scan", "Find models that fit together"),
            Start(a.open_recipe, "file", "YAML, from this program or mergekit"),
            Start(a.reopen, "clock", "What the last session had open"),
        ]
        self.welcome = WelcomePanel(starts, a.sample, a.tutorial, a.clean_up)
        self._workspace: Workspace | None = None
        self._making = self._make_workspace()
        self._preparing, self._restyling, self._enlarging = (IdleQueue(self) for _ in range(3))
        self._closing = False
        self._begun: frozenset[ActivityState] = frozenset()
        self._plan: Plan | None = None  # the latest plan whose warnings were shown
        self._warnings: tuple[str, ...] = ()
        self._lay_out()
        self.recent_projects = RecentProjects(self)
        self._connect_session()
        self._connect_actions()
        self._restore()
        protect(lambda: self.session.draft.inputs.models)

    @property
    def workspace(self) -> Workspace:
        """The panels, created on first use."""
        for _panel in self._making:
            pass
        assert self._workspace is not None
        return self._workspace

    def prepare(self, _: object = None) -> None:
        """Create the panels in advance, one per turn of the event loop."""
        self._preparing.run(self._making)
        self.runs.list_all()

    def _make_workspace(self) -> Generator[None, None, None]:
        from ace_gui.gui.shell.workspace import Workspace

        workspace = Workspace(self)
        workspace.space_shown.connect(self.header.workspaces.choose)
        self.header.workspaces.chosen.connect(workspace.show_space)
        yield from workspace.build()
        workspace.restore_layout(self.settings)
        self._pages.addWidget(workspace)
        self._workspace = workspace

    # Layout

    def _lay_out(self) -> None:
        self.setWindowIcon(icon("app"))
        self.setAcceptDrops(True)
        self.setMinimumSize(900, 600)
        self._pages = QStackedWidget(self)
        self._pages.addWidget(self.welcome)
        self._central = central = pane(down((self._pages, 1), margins=(GAP, 0, 12, 0)))
        self.setCentralWidget(central)
        self.notice.setParent(central)
        # Questions are about the checks, so they do not cover the inspector, which shows these.
        subject = lambda: None if self._workspace is None else self._workspace.inspector  # noqa: E731
        self._toast = Toast(self.notice, central, subject)
        self.setMenuWidget(self.header)
        self._footer = Footer(self.session, self.menus.devices, self.actions_)
        self.setStatusBar(self._footer)

    def _restore(self) -> None:
        self.resize(*_SIZE)
        if not self.settings.geometry.isEmpty():
            self.restoreGeometry(self.settings.geometry)
        self.menus.devices.offer((), self.session.chosen_device)
        self.set_theme()
        self._refresh()

    def fit_to_screen(self) -> None:
        """Fill the screen before the first show if the window and its frame do not fit on it.

        Its normal size and position are also changed, so that they fit on the screen.
        """
        room = self.screen().availableGeometry()
        with_frame = self.size() + _FRAME
        if with_frame != with_frame.boundedTo(room.size()):
            self.resize(self.size().boundedTo(room.size() - _FRAME))
            self.move(room.topLeft())
            self.setWindowState(Qt.WindowState.WindowMaximized)

    def set_theme(self) -> None:
        """Restyle everything that does not follow the palette by itself."""
        self._show_preferences()
        if self._workspace is not None:
            self._restyling.run(self._restyle())

    def _restyle(self, percent: int | None = None) -> Generator[None, None, None]:
        """Apply the theme and, with ``percent``, a font size, one plot per turn of the event loop.

        Qt needs a whole turn to update every widget. The panels are not painted in this turn, so
        that all of them show the new look at the same time.
        """
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        self._central.setUpdatesEnabled(False)
        try:
            if percent is not None:
                yield from set_font_scale(app, percent)
            yield
            if self._workspace is not None:
                yield from self._workspace.restyle()
        finally:
            self._central.setUpdatesEnabled(True)

    # Connections

    def _connect_session(self) -> None:
        session = self.session
        for signal in (session.activity.changed, session.draft.changed, session.results.changed):
            signal.connect(self._refresh)
        session.engine_changed.connect(self._show_engine)
        self.preferences.changed.connect(self._show_preferences)
        self.preferences.enlarged.connect(lambda n: self._enlarging.run(self._restyle(n)))
        session.draft.changed.connect(self._show_plan)
        session.problem.connect(self.show_error)
        session.written.connect(lambda text, path: self.notice.offer(text, offers(path)))
        self.long_work.counted.connect(self._show_project)
        session.advice.connect(lambda sentence: self.notice.show_message(Level.INFO, sentence))
        self.menus.devices.explained.connect(session.advice)
        self.conductor.opened.connect(self.project.open)
        self.conductor.opened.connect(lambda *_: self.workspace.show_space(0))
        self.conductor.leaving.connect(self.project.leave)
        self.conductor.mixture_opened.connect(self.dialogs.open_mixture)
        self.project.changed.connect(self._show_project)
        self.history.wanted.connect(self.conductor.change)
        self.runs.listed.connect(
            lambda runs: self.welcome.recent.show_kept(sum(run.bytes for run in runs))
        )
        self.menus.devices.chosen.connect(self._choose_device)

    def _connect_actions(self) -> None:
        a = self.actions_
        opener = self.opener
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
            a.cancel: self._cancel,
            a.choose_method: self.dialogs.choose_method,
            a.compare: lambda: self.workspace.show_look(),
            a.export: self.dialogs.open_export,
            a.clean_up: self.dialogs.clean_up_runs,
            a.report: self.dialogs.show_report,
            a.reset_layout: self._reset_layout,
            a.preferences: self.dialogs.show_preferences,
            a.memory: self.dialogs.show_preferences,
        }
        for action, slot in slots.items():
            a.connect(action, slot)
        a.schemes.triggered.connect(lambda action: self.preferences.choose_scheme(action.data()))

    # Session signals

    def _refresh(self) -> None:
        self.actions_.update(self.session, self.merge)
        self._show_project()
        self._show_page()
        self._forget_error()
        if self._closing and not self.session.activity.is_writing:
            self.close()

    def _forget_error(self) -> None:
        """Hide an error as soon as the person starts other work, or the same work again."""
        running = frozenset(filter(self.session.activity.is_running, _BEGUN))
        if running - self._begun and self.notice.level is Level.ERROR:
            self.notice.hide()
        self._begun = running

    def menuBar(self) -> QMenuBar:
        """The menu bar, which is in the header."""
        return self.header.menu_bar

    def _show_project(self) -> None:
        """Update the title, with a mark if there are unsaved changes."""
        name = self.project.name
        if name:
            title = f"{name}[*] – ACE Workbench"
        else:
            title = "ACE Workbench"
        share = self.long_work.share
        self.setWindowTitle(title if share is None else f"{share} % – {title}")
        self.setWindowModified(self.project.is_unsaved)

    def _show_page(self) -> None:
        loaded = self.session.draft.inputs.base is not None
        activity = self.session.activity
        opening = activity.is_running(ActivityState.PLANNING)
        words = sentence_case(activity.words(ActivityState.PLANNING))
        self.welcome.show_opening(words if opening else "")
        self.header.workspaces.setVisible(loaded)
        opens = loaded and self._pages.currentWidget() is self.welcome
        self._pages.setCurrentWidget(self.workspace if loaded else self.welcome)
        if opens:
            self.workspace.setFocus()  # a button that a merge disables would give it to a table

    def _show_engine(self) -> None:
        engine = self.session.engine
        if engine is not None:
            self._show_preferences()
            if engine.problems:
                self.notice.show_message(
                    Level.WARNING, engine.problems[0], "\n".join(engine.problems[1:])
                )

    def _show_preferences(self) -> None:
        for action in self.actions_.schemes.actions():
            action.setChecked(action.data() == self.settings.scheme)
        engine = self.session.engine
        session = self.session
        if engine is not None:
            not_used = engine.devices_not_used
            threads = engine.threads
            self.menus.devices.offer(engine.devices, session.chosen_device, not_used, threads)

    def _show_plan(self) -> None:
        plan = self.session.draft.plan
        if plan is None or plan is self._plan:
            return
        self._plan = plan
        if self.notice.level is Level.ERROR:
            self.notice.hide()
        if plan.experts and plan.warnings != self._warnings:
            self._warnings = plan.warnings
            if plan.warnings:
                self.notice.show_message(Level.WARNING, " ".join(plan.warnings))

    def show_error(self, error: WorkbenchError) -> None:
        """Show an error in the window, unless the export dialog shows it."""
        export = self.dialogs.export
        exporting = export is not None and export.isVisible()
        if not self.questions.asks_about(error) and not exporting:
            self.notice.show_error(error)

    # User actions

    def _open_sample(self) -> None:
        """Open the sample, merge and evaluate it; the tutorial leaves that to the person."""
        from ace_gui.gui.shell.tours import DemoTour

        if self.help.is_touring:
            self.opener.open_paths([Sample.IMAGES.recipe])
        else:
            DemoTour(self, Sample.IMAGES.recipe)

    def _cancel(self) -> None:
        self.conductor.cancel()
        self.comparison.stop()

    def _choose_device(self, name: str) -> None:
        self.preferences.choose_device(name)
        if self.session.cluster:
            self.session.advice.emit(SAFETY)

    def _reset_layout(self) -> None:
        self.settings.store.remove("layout")
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

    def focusNextPrevChild(self, forward: bool) -> bool:
        return move_focus(self, forward=forward)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Escape ends the tutorial, or shows all panels again if one is maximised. Return presses
        the focused button, which Qt only does in dialogs."""
        space = self._workspace
        button = QApplication.focusWidget()
        is_return = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if event.key() == Qt.Key.Key_Escape and self.help.is_touring:
            self.help.end_tutorial()
        elif event.key() == Qt.Key.Key_Escape and space is not None and space.cards.is_maximised:
            space.cards.toggle_maximised()
        elif is_return and isinstance(button, QToolButton) and button.menu() is not None:
            button.showMenu()
        elif is_return and isinstance(button, QPushButton | QToolButton):
            button.click()
        else:
            super().keyPressEvent(event)

    def closeEvent(self, event: QCloseEvent) -> None:
        if not self._closing and self._asks_before_closing():
            event.ignore()
            return
        if self.session.activity.is_writing:
            event.ignore()  # the job is cancelled; the window closes when it has ended
            return
        self._restyling.stop()
        self._enlarging.stop()
        self.settings.geometry = self.saveGeometry()
        if self._workspace is not None:
            self._workspace.save_layout(self.settings)
            self._workspace.cards.put_back()
        self.project.leave()
        self.runs.finish()
        self.history.stack.blockSignals(True)  # the stack signals its own destruction
        event.accept()
        self.closed.emit()

    def _asks_before_closing(self) -> bool:
        """Ask before closing if something is unsaved or being written. Return whether it asks."""
        writing = self.session.activity.is_writing
        if writing:
            self.dialogs.ask_before_closing(self.close_unasked)
        elif self.project.is_unsaved:
            self.project.before_leaving(self.close_unasked)
        return writing or self.project.is_unsaved

    def close_unasked(self) -> None:
        """Close without asking as soon as the running work has stopped."""
        self._closing = True
        self._cancel()
        self.close()
