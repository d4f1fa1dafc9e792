"""The Scores page with its tabs, and the tab of the scores."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import isfinite
from typing import Final, TypeVar

from PySide6.QtCore import QEvent
from PySide6.QtGui import QFontMetrics, QResizeEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ace_gui.engine.contract.scored import BASE, EXPERTS, remarks
from ace_gui.formatting import counted
from ace_gui.gui.control.scoring import Scoring
from ace_gui.gui.models.list_models import expert_colour
from ace_gui.gui.panels.examples_tab import ExamplesStrip, ExamplesTab
from ace_gui.gui.panels.job_page import (
    EvaluateButton,
    JobPage,
    MergeChoice,
    Pages,
    merges_of,
)
from ace_gui.gui.panels.score_figures import FiguresCard, Mark, RoutesTable, ScoreLine
from ace_gui.gui.panels.tasks_tab import TasksTab
from ace_gui.gui.panels.tune_tab import TuneTab
from ace_gui.gui.plots.frame.base_plot import PlotWithTable
from ace_gui.gui.plots.merge_plots import ScoreBarsPlot, ScoreGroup
from ace_gui.gui.state.known_scores import ScoreFigure, TaskFigures, experts_are_better, figures_of
from ace_gui.gui.state.session import Session
from ace_gui.gui.theme import Face
from ace_gui.gui.widgets.controls import push_button
from ace_gui.gui.widgets.labels import EmptyState, plain_label, secondary_label
from ace_gui.gui.widgets.layout import (
    GAP,
    TWO_COLUMNS,
    TitleLine,
    card,
    down,
    on_font_change,
    on_visibility_change,
    pane,
    scroll_area,
    split,
)
from ace_gui.gui.widgets.lazy import LazyTabs
from ace_gui.recipe.task_kinds import Metric

_HEIGHTS: Final = (10, 8)  # in text lines: minimum heights of the bars and of the figures
_HIGH: Final = 36  # in text lines: below this height the row of examples is hidden
REFRESH: Final = 100  # ms between repaints while scores arrive
NO_TASKS: Final = "There are no tasks yet: add data to evaluate the models on."
NO_SCORES: Final = (
    "The models are not evaluated yet. Base, experts and every finished merge are evaluated one "
    "after another, in the background."
)
BEING_EVALUATED: Final = "The models are being evaluated"
_UNBOUNDED: Final = frozenset(
    ("score", *(metric.value for metric in Metric if not metric.traits.is_bounded))
)
"""Metrics whose values do not share an axis with others."""


class _LeastColumn(QVBoxLayout):
    """Has a least height for each width, but for a scroll area no preferred one."""

    _is_asked = False

    def hasHeightForWidth(self) -> bool:
        return self._is_asked and super().hasHeightForWidth()

    def least_height(self, width: int) -> int:
        self._is_asked = True
        height = self.minimumHeightForWidth(width)
        self._is_asked = False
        return max(0, height)


class _ScrolledPage(QWidget):
    """Cards below each other that scroll below their least height. As labels in them wrap, Qt would
    scroll them below the height that they prefer."""

    def __init__(self, head: QWidget, middle: QWidget, foot: QWidget) -> None:
        super().__init__()
        self._column = _LeastColumn(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(GAP)
        for part in (head, middle, foot):
            self._column.addWidget(part, int(part is middle))

    def event(self, event: QEvent) -> bool:
        kind = event.type()  # after a deferred deletion
        handled = super().event(event)
        if kind in (QEvent.Type.Resize, QEvent.Type.LayoutRequest):
            self.setMinimumHeight(self._column.least_height(self.width()))
        return handled


class ScoresTab(JobPage):
    """The tab of the scores. Its links open the tasks if there are none yet, and all examples."""

    delay = REFRESH

    def __init__(self, session: Session, scoring: Scoring, pages: Pages) -> None:
        super().__init__(session, scoring, pages)
        self.title = plain_label(role=Face.TITLE)
        self.note = secondary_label()
        self.merge = MergeChoice(session, "Merge to show")
        self.merge.chosen.connect(self.refresh)
        self.evaluate = EvaluateButton(session, scoring)
        self.line = ScoreLine()
        self.bars = ScoreBarsPlot()
        self.figures = FiguresCard(session)
        self.routes = RoutesTable(session, scoring.routing)
        self.examples = ExamplesStrip(session, scoring)
        self.examples.all_wanted.connect(lambda: pages.show_tab(ExamplesTab))
        add_data = push_button("Add data…", lambda: pages.show_tab(TasksTab).ask(), kind="tinted")
        self.no_tasks = EmptyState(NO_TASKS, add_data)
        self.no_scores = EmptyState(NO_SCORES, EvaluateButton(session, scoring))
        controls = TitleLine(self.title, self.merge, self.evaluate, lines=TWO_COLUMNS)
        parts = (controls, self.note, self.line)
        head = card(pane(down(*parts, margins=(8, 6, 8, 6), gap=6)))
        figures = scroll_area("Figures of the merge", pane(down(self.figures, self.routes, None)))
        cards = card(PlotWithTable(self.bars)), card(figures)
        on_font_change(self, lambda metrics: self._measure(cards, metrics))
        below = split(*cards, sizes=(520, 560), gap=GAP, lines=TWO_COLUMNS)
        below.setStretchFactor(0, 1)
        self._strip = card(self.examples)
        page = scroll_area("Scores", _ScrolledPage(head, below, self._strip), tabs=False)
        self.set_pages(card(self.no_tasks), card(self.no_scores), page)
        results = session.results
        self.follow(results.scores.changed, results.runs.changed, session.engine_changed)
        self.follow(session.draft.changed, scoring.changed, results.changed)
        self.follow(session.activity.changed)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Give the bars the whole height if it is small."""
        super().resizeEvent(event)
        self._strip.setVisible(event.size().height() >= _HIGH * self.fontMetrics().height())

    def _measure(self, cards: Sequence[QWidget], metrics: QFontMetrics) -> None:
        """Set the heights below which the page scrolls."""
        for part, lines in zip(cards, _HEIGHTS, strict=True):
            part.setMinimumHeight(lines * metrics.height())

    def refresh(self) -> None:
        scores = self.session.results.scores
        self.show_page(2 if scores.tasks and scores.models else bool(scores.tasks))
        if not (scores.tasks and scores.models):
            sentence = self.scoring.obstacle or NO_SCORES
            self.no_scores.say(BEING_EVALUATED if self.scoring.is_running else sentence)
            return
        self.merge.update_merges()
        rows = figures_of(scores, self.merge.current)
        self._show_head(rows)
        self._show_bars(rows)
        self.figures.show_figures(rows, self._other_models, str(self.merge.current))
        self.examples.show_merge(str(self.merge.current))
        self.routes.show_merge(str(self.merge.current))

    @property
    def _other_models(self) -> dict[str, str]:
        """The titles of all models with scores by their keys. The experts count as one model."""
        scored = self.session.results.scores.models
        titles = {BASE: "base", **merges_of(self.session), EXPERTS: "experts"}
        return {key: title for key, title in titles.items() if key in scored}

    def _show_head(self, rows: list[TaskFigures]) -> None:
        scores = self.session.results.scores
        model = self.merge.current
        share = scores.mean(model).normalised
        text = self.merge.currentText()
        if model not in scores.models:
            if model:
                text = "This merge is not evaluated yet"
            else:
                text = "No merge is evaluated yet"
            if self.scoring.is_running:
                text = BEING_EVALUATED
        elif not experts_are_better(rows):
            text = "The experts are no better than the base on these tasks"
        elif share is not None and scores.is_complete(model):
            text = f"{text} keeps {100 * share:.0f} % of what the experts reach"
        self.title.setText(text)
        lines = [scores.line(line).values() for line in (BASE, EXPERTS, model)]
        missing = remarks([score for line in lines for score in line])
        title = self.merge.currentText()
        named = [task.replace(model, title) if model else task for task in missing]
        self.note.setText(" ".join([_note(rows), *named]))
        marks = [
            Mark(title=title, value=mean, is_chosen=key == model)
            for key, title in self._other_models.items()
            if (mean := scores.mean(key).score) is not None
        ]
        self.line.show_marks(marks)
        self.line.setVisible(len(marks) > 1)

    def _show_bars(self, rows: list[TaskFigures]) -> None:
        if not rows:
            self.bars.clear()
            return
        shares = any(row.metric in _UNBOUNDED for row in rows) and len(rows) > 1
        metrics = {row.metric for row in rows}
        if len(metrics) == 1:
            quantity = metrics.pop()
        else:
            quantity = "score"
        if shares:
            quantity = "share of the expert's score"
        groups = [self._group(row, shares=shares) for row in rows]
        self.bars.show_scores(groups, self.merge.currentText() or "merged", quantity)

    def _group(self, row: TaskFigures, *, shares: bool) -> ScoreGroup:
        bars = (row.base, row.merge, row.expert)
        if shares:
            bars = (
                ScoreFigure(value=row.base_kept),
                ScoreFigure(value=row.kept),
                ScoreFigure(value=1.0),
            )
        return ScoreGroup(
            title=row.title,
            bars=bars,
            colour=expert_colour(self.session, row.owner),
            chance=float("nan") if shares else row.chance,
            is_mean=row.is_mean,
        )


def _note(rows: list[TaskFigures]) -> str:
    """A note on the amount of data and the precision of the mean."""
    tasks = [row for row in rows if not row.is_mean]
    if not tasks:
        return ""
    note = counted(sum(row.n for row in tasks), "example", "examples")
    if len(tasks) > 1:
        note = f"{len(tasks)} tasks, {note} in all"
    mean = next((row.merge.error for row in rows if row.is_mean), float("nan"))
    if isfinite(mean):
        return f"{note}; standard error of the mean: {mean:.2g}"
    return note


TABS: Final[tuple[tuple[type[JobPage], str, str], ...]] = (  # with title and tooltip
    (TasksTab, "Tasks", "The evaluation data, and how they are read"),
    (ScoresTab, "Scores", "Scores of base, experts and merges on the tasks"),
    (ExamplesTab, "Examples", "Which examples a merge lost and gained"),
    (TuneTab, "Tune", "Search parameter values on half of the data"),
)
_Part = TypeVar("_Part", bound=JobPage)


class ScoresPage(QWidget):
    """The page, with one tab for each part. With tasks, the scores come first."""

    def __init__(self, session: Session, scoring: Scoring) -> None:
        super().__init__()
        on_visibility_change(self, scoring.set_visible)
        self.tabs = LazyTabs("Parts of the Scores page", self)
        for kind, title, tip in TABS:
            self.tabs.add(title, tip, partial(kind, session, scoring, self))
        self.setLayout(down(self.tabs))
        if session.draft.inputs.tasks:
            self.show_tab(ScoresTab)

    def show_tab(self, kind: type[_Part]) -> _Part:
        self.tabs.setCurrentIndex([tab[0] for tab in TABS].index(kind))
        tab = self.tabs.current
        assert isinstance(tab, kind)
        return tab
