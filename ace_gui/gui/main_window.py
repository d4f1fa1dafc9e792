"""The window: puts the panels together and passes wishes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Signal
from PySide6.QtGui import QAction, QCloseEvent, QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QMainWindow, QMessageBox, QStackedWidget, QVBoxLayout, QWidget

from ace_gui.engine.checks import count_of
from ace_gui.errors import PickleConsentError, WorkbenchError
from ace_gui.gui.actions import Actions
from ace_gui.gui.conductor import Conductor, Worker
from ace_gui.gui.drops import local_paths
from ace_gui.gui.menus import Menus
from ace_gui.gui.opener import Opener
from ace_gui.gui.panels.choose_base import ChooseBasePanel
from ace_gui.gui.panels.notice import Notice, Severity
from ace_gui.gui.panels.progress import ProgressBar
from ace_gui.gui.panels.welcome import WelcomePanel
from ace_gui.gui.session import Session
from ace_gui.gui.settings import Settings
from ace_gui.gui.state import State
from ace_gui.gui.stores import MergeStores
from ace_gui.gui.theme import Scheme, Theme, current_theme, icon, set_scheme

if TYPE_CHECKING:  # the workspace brings the plots along, which the empty window does not need
    from ace_gui.gui.dialogs.export import ExportDialog
    from ace_gui.gui.workspace import Workspace

_SIZE: Final = (1440, 900)
_WORTH_KEEPING: Final = 30.0  # seconds of merging that are not thrown away without asking
_BUSY: Final = (State.MERGING, State.EXPORTING)


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
        self.conductor = Conductor(self.session, worker, stores, self)
        self.opener = Opener(self.session, self.conductor, self)
        self.actions_ = Actions(self)
        self.menus = Menus(self, self.actions_)
        self.notice = Notice(self)
        self.welcome = WelcomePanel(self._first_actions(), self)
        self.choose_base = ChooseBasePanel(self)
        self.export_dialog: ExportDialog | None = None
        self._workspace: Workspace | None = None
        self._question: QMessageBox | None = None
        self._closing = False
        self._warnings: tuple[str, ...] = ()
        self._lay_out()
        self._connect_session()
        self._connect_actions()
        self._restore()

    @property
    def workspace(self) -> Workspace:
        """The panels; made when they are first needed."""
        if self._workspace is None:
            from ace_gui.gui.workspace import Workspace

            made = Workspace(self.session, self.opener.change_base, self.actions_.add_experts)
            made.restore_layout(self.settings)
            made.set_theme(current_theme())
            made.experts.remove_wanted.connect(self.conductor.remove_experts)
            made.experts.model.expert_edited.connect(self.conductor.change_expert)
            made.method.parameter_edited.connect(self.conductor.set_parameter)
            made.method.inputs_edited.connect(self.conductor.change)
            made.heterogeneity.tau_committed.connect(
                lambda tau: self.conductor.set_parameter("tau", tau)
            )
            self.conductor.spectrum_awaited.connect(made.inspector.set_busy)
            self._pages.addWidget(made)
            self._workspace = made
        return self._workspace

    def prepare(self) -> None:
        """Make the panels before they are needed."""
        assert self.workspace

    # Layout

    def _lay_out(self) -> None:
        self.setWindowIcon(icon("app"))
        self.setAcceptDrops(True)
        self.setMinimumSize(900, 600)
        self._pages = QStackedWidget(self)
        self._pages.addWidget(self.welcome)
        self._pages.addWidget(self.choose_base)
        central = QWidget(self)
        layout = QVBoxLayout(central)
        layout.setContentsMargins(6, 6, 6, 0)
        layout.addWidget(self.notice)
        layout.addWidget(self._pages, 1)
        self.setCentralWidget(central)
        self.setStatusBar(ProgressBar(self.session, self))

    def _first_actions(self) -> list[QAction]:
        a = self.actions_
        return [a.open_base, a.open_recipe, a.sample]

    def _restore(self) -> None:
        self.resize(*_SIZE)
        if not self.settings.geometry.isEmpty():
            self.restoreGeometry(self.settings.geometry)
        self._show_recent()
        self.menus.set_methods((), self.session.inputs.method)
        self.menus.set_devices((), self.session.device)
        self.set_theme(current_theme())
        self._refresh()

    def set_theme(self, theme: Theme) -> None:
        """Restyle what does not follow the palette by itself."""
        self.actions_.recolour()
        self.menus.recolour()
        self.notice.set_theme(theme)
        self.welcome.set_theme(theme)
        for action in self.actions_.schemes.actions():
            action.setChecked(action.data() == self.settings.scheme)
        if self._workspace is not None:
            self._workspace.set_theme(theme)

    # Connections

    def _connect_session(self) -> None:
        session = self.session
        for signal in (session.state_changed, session.inputs_changed, session.merge_changed):
            signal.connect(self._refresh)
        session.engine_changed.connect(self._show_engine)
        session.plan_changed.connect(self._show_plan)
        session.problem.connect(self.show_error)
        session.advice.connect(lambda sentence: self.notice.show_message(Severity.INFO, sentence))
        self.opener.base_unclear.connect(self._ask_for_base)
        self.choose_base.chosen.connect(self._take_base)
        self.choose_base.dismissed.connect(self._refresh)
        self.conductor.opened.connect(self._remember)
        for recent in (self.menus.recent_chosen, self.welcome.recent_chosen):
            recent.connect(lambda path: self.opener.open_paths([path]))
        self.menus.methods.chosen.connect(self._choose_method)
        self.menus.devices.chosen.connect(self._choose_device)

    def _connect_actions(self) -> None:
        a, opener = self.actions_, self.opener
        slots: dict[QAction, Callable[[], object]] = {
            a.open_base: opener.open_base,
            a.open_base_file: opener.open_base_file,
            a.add_experts: opener.add_experts,
            a.add_expert_files: opener.add_expert_files,
            a.open_recipe: opener.open_recipe,
            a.save_recipe: opener.save_recipe,
            a.sample: opener.open_sample,
            a.close_models: self.conductor.close,
            a.quit: self.close,
            a.merge: self._merge,
            a.cancel: self.conductor.cancel,
            a.export: self.open_export,
            a.find: lambda: self.workspace.layers.focus_filter(),
            a.next_layer: lambda: self.workspace.layers.step(1),
            a.previous_layer: lambda: self.workspace.layers.step(-1),
            a.top_layer: lambda: self.session.select(self.session.most_heterogeneous),
            a.reset_layout: self._reset_layout,
            a.about: self._show_about,
        }
        for action, slot in slots.items():
            a.connect(action, slot)
        a.schemes.triggered.connect(lambda action: self._choose_scheme(action.data()))

    # What the session says

    def _refresh(self) -> None:
        session, a = self.session, self.actions_
        busy = any(session.is_running(state) for state in _BUSY)
        loaded = session.inputs.base is not None
        for action in (a.open_base, a.open_base_file, a.open_recipe, a.sample, a.close_models):
            action.setEnabled(not busy)
        for action in (a.add_experts, a.add_expert_files):
            action.setEnabled(loaded and not busy)
        for action in (a.find, a.next_layer, a.previous_layer, a.top_layer, a.reset_layout):
            action.setEnabled(loaded)
        a.close_models.setEnabled(loaded and not busy)
        a.save_recipe.setEnabled(loaded and bool(session.inputs.experts))
        a.merge.setEnabled(session.can_merge)
        a.merge.setText("Continue &merge" if session.can_resume and not busy else "&Merge")
        a.cancel.setEnabled(busy or session.is_running(State.ANALYSING))
        a.export.setEnabled(session.can_export)
        self.menus.show_method(session.inputs.method)
        self.setWindowTitle(self._title())
        self._show_page()
        if self._closing and not busy:
            self.close()

    def _title(self) -> str:
        base = self.session.inputs.base
        return f"{base.name} – ACE Workbench" if base is not None else "ACE Workbench"

    def _show_page(self) -> None:
        loaded = self.session.inputs.base is not None
        self._pages.setCurrentWidget(self.workspace if loaded else self.welcome)

    def _show_engine(self) -> None:
        engine = self.session.engine
        if engine is not None:
            self.menus.set_methods(engine.methods, self.session.inputs.method)
            self.menus.set_devices(engine.devices, self.session.device)

    def _show_plan(self) -> None:
        plan = self.session.plan
        if plan is None:
            return
        if self.notice.severity is Severity.ERROR:
            self.notice.hide()
        if plan.experts and plan.warnings != self._warnings:
            self._warnings = plan.warnings
            if plan.warnings:
                self.notice.show_message(Severity.WARNING, " ".join(plan.warnings))

    def show_error(self, error: WorkbenchError) -> None:
        """Show an error in the window, unless the export dialog shows it."""
        if isinstance(error, PickleConsentError) and error.path is not None:
            convert = partial(self.conductor.convert, error.path)
            self.notice.ask(error.sentence, error.details, "Convert and open", convert)
        elif self.export_dialog is None or not self.export_dialog.isVisible():
            self.notice.show_error(error)

    # What the person wants

    def _merge(self) -> None:
        """Merge, after asking once about what the checks warn of."""
        worries = self.session.worries
        if worries:
            details = "\n".join(f"{c.title}, {c.subject}: {c.sentence}" for c in worries)
            first = f"{worries[0].title}, {worries[0].subject}: {worries[0].sentence}"
            sentence = f"{count_of(worries)}. {first}"
            self.notice.ask(sentence, details, "Merge anyway", self._merge_anyway)
            self.workspace.inspector.show_checks()
            return
        self.notice.hide()
        self.conductor.merge()

    def _merge_anyway(self) -> None:
        self.session.accept_checks()
        self._merge()

    def open_export(self) -> None:
        """Show the export dialog."""
        from ace_gui.gui.dialogs.export import ExportDialog

        if self.session.can_export:
            self.export_dialog = ExportDialog(self.session, self.conductor, self)
            self.export_dialog.finished.connect(self._forget_export)
            self.export_dialog.open()

    def _forget_export(self) -> None:
        if self.export_dialog is not None:
            self.export_dialog.deleteLater()
            self.export_dialog = None

    def _show_about(self) -> None:
        from ace_gui.gui.dialogs.about import AboutDialog

        dialog = AboutDialog(self)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def _ask_for_base(self, paths: Sequence[Path]) -> None:
        self.choose_base.ask(paths)
        self._pages.setCurrentWidget(self.choose_base)

    def _take_base(self, paths: Sequence[Path]) -> None:
        self._show_page()
        self.opener.open_paths(paths)

    def _choose_method(self, name: str) -> None:
        self.conductor.choose_method(name)

    def _choose_device(self, name: str) -> None:
        self.session.device = self.settings.device = name
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
        question = self._worry()
        if question and not self._closing:
            event.ignore()
            self._ask_to_close(question)
            return
        if any(self.session.is_running(state) for state in _BUSY):
            event.ignore()  # cancelled; the end of the job closes
            return
        self.settings.geometry = self.saveGeometry()
        if self._workspace is not None:
            self._workspace.save_layout(self.settings)
        event.accept()
        self.closed.emit()

    def _worry(self) -> str:
        """Why the person should be asked before the window closes; empty if nothing is lost."""
        session = self.session
        if session.is_running(State.EXPORTING):
            return "An export is running. Cancel it and close the window?"
        if session.is_running(State.MERGING):
            return "A merge is running. Cancel it and close the window?"
        run = session.merge
        if run is None or run.finished is None or run.exported:
            return ""
        if run.finished.seconds < _WORTH_KEEPING:
            return ""
        return "The merged model has not been exported and will be lost. Close the window?"

    def _ask_to_close(self, question: str) -> None:
        if self._question is not None:
            return
        buttons = QMessageBox.StandardButton
        box = QMessageBox(QMessageBox.Icon.Question, "ACE Workbench", question, parent=self)
        box.setStandardButtons(buttons.Close | buttons.Cancel)
        box.setDefaultButton(buttons.Cancel)
        box.finished.connect(self._answer_to_close)
        self._question = box
        box.open()

    def _answer_to_close(self, answer: int) -> None:
        if self._question is not None:
            self._question.deleteLater()
            self._question = None
        if answer == QMessageBox.StandardButton.Close:
            self._closing = True
            self.conductor.cancel()
            self.close()
