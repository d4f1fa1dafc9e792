"""The panels of the window and their layout."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import cached_property, partial
from typing import TypeVar

from PySide6.QtCore import QByteArray, Qt, QTimer, Signal
from PySide6.QtGui import QFontMetrics, QIcon, QResizeEvent
from PySide6.QtWidgets import QStackedWidget, QWidget

from ace_gui.engine.contract.merge_summary import NextStep
from ace_gui.engine.contract.scored import ShownExample
from ace_gui.gui.control.layer_queries import Kind
from ace_gui.gui.models.layer_figures import Healths
from ace_gui.gui.panels.all_layers import HeterogeneityPanel, LearningView, WhatIfPanel
from ace_gui.gui.panels.checks_and_health import HealthPanel
from ace_gui.gui.panels.compare_page import METHODS, ComparePage
from ace_gui.gui.panels.figures_page import FiguresPage
from ace_gui.gui.panels.inspector import InspectorPanel
from ace_gui.gui.panels.job_page import JobPage
from ace_gui.gui.panels.layer_panels import LayerPanel
from ace_gui.gui.panels.layers_panel import LayersPanel
from ace_gui.gui.panels.method_panel import MethodPanel
from ace_gui.gui.panels.models_and_runs import ExpertsPanel, RunsPanel
from ace_gui.gui.panels.project_name import ProjectHead
from ace_gui.gui.panels.scores_page import ScoresPage
from ace_gui.gui.panels.summary_strip import SummaryStrip
from ace_gui.gui.panels.tasks_tab import TasksTab
from ace_gui.gui.panels.try_page import TryPage
from ace_gui.gui.plots.frame.base_plot import restyle_plots
from ace_gui.gui.shell.base_window import Window
from ace_gui.gui.shell.window_frame import Space
from ace_gui.gui.shell.window_layout import (
    INSPECTOR,
    LAYERS,
    VIEWS,
    WIDTH,
    Cards,
    LeftColumn,
    splitter,
)
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.session import Session
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.theme import icon
from ace_gui.gui.widgets.layout import (
    GAP,
    down,
    on_font_change,
    on_visibility_change,
    pane,
)
from ace_gui.gui.widgets.lazy import IdleQueue, LazyTabs

Tab = TypeVar("Tab", bound=JobPage)


class Workspace(QWidget):
    """The inputs on the left, and one page of results at a time on the right.

    The pages are those of the header's ``WORKSPACES``: the layers and the inspector over the views
    of all layers; what models answer; the scores; the comparison of merges; figures for print.
    ``space_shown`` carries the index of the page. ``build`` creates the panels.
    """

    space_shown = Signal(int)
    left: LeftColumn
    _health: int  # the index of its tab

    def __init__(self, window: Window) -> None:
        super().__init__()
        self._window = window
        self._fitting = QTimer(self, singleShot=True, interval=1)
        self._fitting.timeout.connect(lambda: self.left.fit(self.width()))
        self._settling = IdleQueue(self)

    def build(self) -> Generator[None, None, None]:
        """Create the panels one by one, so that the window keeps responding."""
        window = self._window
        session = self._window.session
        actions = window.actions_
        self.project_head = ProjectHead()
        self.project_name = self.project_head.name
        self.experts = ExpertsPanel(session, window.opener.change_base, actions.add_experts)
        self.method = MethodPanel(session, actions.choose_method)
        self.runs = RunsPanel(session, window.runs, actions.clean_up)
        yield
        self.healths = Healths(session, self)
        self.layers = LayersPanel(session, self.healths)
        self.summary = SummaryStrip(session, self.healths)
        yield
        self.inspector = InspectorPanel(session, self.healths, window.scoring.covariances)
        yield
        self.heterogeneity = HeterogeneityPanel(session)
        yield
        self._add_lower_tabs(session)
        self._lay_out(session)
        self._connect()

    def _connect(self) -> None:
        window = self._window
        method = self.method
        actions = window.actions_
        dialogs = window.dialogs
        self.experts.checks_wanted.connect(self.show_checks)
        on_visibility_change(method, window.forecasting.set_visible)
        window.forecasting.changed.connect(method.show_forecast)
        method.overrides.rule_wanted.connect(dialogs.edit_override)
        self.layers.rule_wanted.connect(dialogs.complete_override)
        self.runs.export_wanted.connect(dialogs.export_run)
        self.runs.delete_wanted.connect(dialogs.delete_runs)
        self.runs.pair_wanted.connect(self.compare)
        window.session.data_wanted.connect(partial(self.show_scores, TasksTab))
        window.session.try_wanted.connect(self.try_example)
        window.queries.awaited.connect(self.set_awaited)
        actions.inputs.toggled.connect(lambda visible: self.left.fold(not visible))
        self.project_name.renamed.connect(window.project.rename)
        self.project_head.noted.connect(window.project.write_notes)
        for changed in (window.project.changed, window.session.draft.changed):
            changed.connect(self._show_project)
        self._show_project()
        self.summary.chosen.connect(self._choose_layers)
        self.summary.step_wanted.connect(self._take_step)
        self.summary.needs_fit.connect(self._fit_summary)
        self.cards.views_folded.connect(self._fit_summary)
        self.left.folded_changed.connect(lambda folded: actions.inputs.setChecked(not folded))
        session = window.session
        cards = self.cards
        layers = self.layers
        for action, act in (
            (actions.find, self._find_layer),
            (actions.next_layer, partial(layers.step, 1)),
            (actions.previous_layer, partial(layers.step, -1)),
            (actions.top_layer, lambda: session.select(session.layers.most_heterogeneous)),
            (actions.maximise, cards.toggle_maximised),
            (actions.detach, cards.toggle_detached),
        ):
            actions.connect(action, partial(self._show_layers_and, act))

    def _lay_out(self, session: Session) -> None:
        panels = (self.layers, self.inspector, self.heterogeneity)
        self.cards = Cards(panels, (None, self.inspector.tabs, self.heterogeneity.tabs))
        self.left = LeftColumn(session, self.project_head, self.experts, self.method, self.runs)
        self._spaces = QStackedWidget()
        self._layers_page = pane(down(self.summary, (self.cards, 1), gap=GAP))
        self._spaces.addWidget(self._layers_page)
        self._columns = splitter("columns", Qt.Orientation.Horizontal, self.left, self._spaces)
        self._columns.setStretchFactor(1, 1)
        self.left.folded_changed.connect(lambda _: self._share_width())
        self.setLayout(down(self._columns))
        on_font_change(self, self._measure)
        self.reset_layout()

    def _measure(self, metrics: QFontMetrics) -> None:
        line = metrics.height()
        self.cards.set_least(inspector_width=26 * line, views_height=13 * line)  # titles of tabs
        if self.isVisible():
            self._settling.run(self._settle())

    def _settle(self) -> Generator[None, None, None]:
        """Lay out again after a change of the font size, one step per turn of the event loop."""
        yield
        self.left.fit(self.width())
        yield
        self._share_width()
        yield
        self.cards.arrange()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fit the column in a turn of its own, because that may repeat the layout."""
        super().resizeEvent(event)
        self._fit_summary()
        if self.isVisible():
            self._fitting.start()
        else:
            self.left.fit(event.size().width())

    def _share_width(self) -> None:
        """Set the columns' widths, because a hidden splitter does not apply new size limits."""
        line = self.fontMetrics().height()
        side = self.left
        if side.is_folded:
            width = side.minimumWidth()
        else:
            width = round(WIDTH * line)
        self._columns.setSizes([width, max(self.width() - width, line)])

    def show_space(self, index: int) -> None:
        """Show a page, which is created on first use."""
        space = self._space(index)
        if self._spaces.indexOf(space) < 0:
            self._spaces.addWidget(space)
        self._spaces.setCurrentWidget(space)
        self.space_shown.emit(index)

    def _space(self, index: int) -> QWidget:
        pages: dict[int, Callable[[], QWidget]] = {
            Space.LAYERS: lambda: self._layers_page,
            Space.TRY: lambda: self.trying,
            Space.SCORES: lambda: self.scores,
            Space.COMPARE: lambda: self.comparison,
            Space.FIGURES: lambda: self.figures,
        }
        return pages[index]()

    @cached_property
    def trying(self) -> TryPage:
        return TryPage(self._window.session, self._window.scoring, self)

    @cached_property
    def scores(self) -> ScoresPage:
        return ScoresPage(self._window.session, self._window.scoring)

    @cached_property
    def comparison(self) -> ComparePage:
        window = self._window
        return ComparePage(
            window.session,
            window.comparison,
            window.two_models,
            window.contents,
            window.merge_times,
        )

    @cached_property
    def figures(self) -> FiguresPage:
        window = self._window
        return FiguresPage(window.session, window.figure, lambda: self.layers.selected)

    def panels_with_tabs(self) -> dict[str, LazyTabs]:
        """The panels of the layers page that have tabs, by their titles."""
        return {"One layer": self.inspector.tabs, "All layers": self.heterogeneity.tabs}

    def _find_layer(self) -> None:
        self.cards.bring(LAYERS)
        self.layers.focus_filter()

    def _show_layers_and(self, act: Callable[[], object]) -> None:
        """Before an action on the layers page, show that page."""
        self.show_space(Space.LAYERS)
        act()

    def bring(self, tabs: LazyTabs, index: int) -> None:
        """Bring a tab of a panel of the layers page to the front."""
        self.show_space(Space.LAYERS)
        self.cards.bring(INSPECTOR if tabs is self.inspector.tabs else VIEWS)
        tabs.setCurrentIndex(index)
        tabs.bar.setFocus()

    def _fit_summary(self, *_: object) -> None:
        """Fold the summary if there is little room, more so if the user wants the views, too."""
        self.summary.fit(self.height(), beside_views=self.cards.views_are_wanted)

    def _show_project(self) -> None:
        project = self._window.project
        editable = project.can_be_renamed
        self.project_head.show_project(project.name, project.notes, is_editable=editable)

    def _choose_layers(self, names: Sequence[str]) -> None:
        """Select the tensors of a link of the summary."""
        self.cards.bring(LAYERS)
        self.layers.choose(names)

    def _take_step(self, step: NextStep) -> None:
        """Go on from a finished merge."""
        if step is NextStep.TRY:
            self.show_space(Space.TRY)
        elif step is NextStep.HEALTH:
            self.show_health()
        elif step is NextStep.ADD_DATA:
            self.show_scores(TasksTab)
        else:
            self.show_scores()
            self._window.scoring.evaluate()

    def show_checks(self) -> None:
        self.show_space(Space.LAYERS)
        self.cards.bring(INSPECTOR)
        self.inspector.show_checks()

    def show_health(self) -> None:
        self.bring(self.heterogeneity.tabs, self._health)

    def _add_lower_tabs(self, session: Session) -> None:
        window = self._window
        tabs = self.heterogeneity.tabs
        learning = session.results.learning

        def show_warnings(count: int) -> None:
            tabs.setTabText(self._health, f"Health ({count})" if count else "Health")
            tabs.setTabIcon(self._health, icon("warning") if count else QIcon())

        tip = "Unusual layers, and what to do about them"
        self._health = tabs.add("Health", tip, lambda: HealthPanel(session, self.healths))
        tip = "Try other values on the selected layer before you apply them"
        tabs.add("What if", tip, lambda: WhatIfPanel(session, window.what_if))
        tip = "Progress of a method that learns from data: loss by task, coefficients by expert"
        learnt = tabs.add("Learning", tip, lambda: LearningView(session))
        show_learning = lambda: tabs.setTabVisible(learnt, not learning.is_empty)  # noqa: E731
        self.healths.warned.connect(show_warnings)
        learning.changed.connect(show_learning)
        show_learning()

    def show_tab(self, kind: type[Tab]) -> Tab:
        """Show and return a tab of the scores."""
        self.show_space(Space.SCORES)
        return self.scores.show_tab(kind)

    def try_example(self, example: ShownExample, task: str) -> None:
        """Let the models answer an example of a task."""
        self.show_space(Space.TRY)
        self.trying.try_example(example, task)

    def show_scores(self, tab: type[JobPage] | None = None) -> ScoresPage:
        self.show_space(Space.SCORES)
        if tab is not None:
            self.scores.show_tab(tab)
        return self.scores

    def show_look(self, index: int = METHODS) -> None:
        """Show the comparison of methods, or of two merges."""
        self.show_space(Space.COMPARE)
        self.comparison.show_look(index)

    def compare_methods(self, names: Sequence[str]) -> None:
        """Merge with each of these methods, and show how they compare."""
        self.show_look(METHODS)
        self.comparison.methods.compare(names)

    def compare(self, first: MergeRun, second: MergeRun) -> None:
        self.show_space(Space.COMPARE)
        self.comparison.compare(first, second)

    def restyle(self) -> Generator[None, None, None]:
        """Restyle the visible plots, over several turns."""
        return restyle_plots(self)

    def set_awaited(self, kind: Kind, awaited: bool) -> None:
        for panel in self.findChildren(LayerPanel):
            if panel.finding is kind:
                panel.set_busy(awaited)

    def reset_layout(self) -> None:
        self.left.fold(self.left.is_narrow)
        self._share_width()
        self.cards.reset()
        self.summary.set_folded(None)

    def restore_layout(self, settings: Settings) -> None:
        state = settings.layout("columns")
        if not state.isEmpty():
            self._columns.restoreState(state)
        if not settings.layout("folded").isEmpty():
            self.left.fold(True)
        folded = settings.layout("summary")
        self.summary.set_folded(None if folded.isEmpty() else folded.data() == b"1")
        self.cards.restore(settings)

    def save_layout(self, settings: Settings) -> None:
        if not self.left.is_folded:
            settings.save_layout("columns", self._columns.saveState())
        folded = self.left.is_folded and not self.left.is_narrow  # only if the user has chosen it
        settings.save_layout("folded", QByteArray(b"1" if folded else b""))
        wanted = self.summary.wants_folded
        if wanted is None:
            state = b""
        else:
            state = str(int(wanted)).encode()
        settings.save_layout("summary", QByteArray(state))
        self.cards.save(settings)
