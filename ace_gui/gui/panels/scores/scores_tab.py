"""The Scores tab: a summary, a line of all models, bars by task, a table, a test."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from math import isfinite
from typing import Final

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QPushButton,
    QSplitter,
    QStackedLayout,
    QVBoxLayout,
    QWidget,
)

from ace_gui.engine.contract.scored.scores import BASE, EXPERTS, remarks
from ace_gui.formatting import counted
from ace_gui.gui.control.operations.scoring import Scoring
from ace_gui.gui.panels.scores.examples_strip import ExamplesStrip
from ace_gui.gui.panels.scores.figures_card import FiguresCard
from ace_gui.gui.panels.scores.merges import Model, merges_of
from ace_gui.gui.panels.scores.score_cells import expert_colour
from ace_gui.gui.panels.scores.score_line import Mark, ScoreLine
from ace_gui.gui.plots.frame.controls import Choice
from ace_gui.gui.plots.frame.plot_with_table import PlotWithTable
from ace_gui.gui.plots.score_bars_plot import ScoreBarsPlot, ScoreGroup
from ace_gui.gui.state.activity import State
from ace_gui.gui.state.found.score_figures import (
    Figure,
    TaskFigures,
    experts_are_better,
    figures_of,
)
from ace_gui.gui.state.session import Session
from ace_gui.gui.theme import Face, face
from ace_gui.gui.widgets.fields.buttons import ProgressButton
from ace_gui.gui.widgets.labels.empty_state import EmptyState
from ace_gui.gui.widgets.labels.plain_label import plain_label, secondary_label
from ace_gui.gui.widgets.layout.arrangement import scroll_area
from ace_gui.gui.widgets.layout.card import GAP, card

_HIGH: Final = 44  # in text lines: below this height the row of examples is hidden
REFRESH: Final = 100  # ms between repaints while scores arrive
NO_TASKS: Final = "There are no tasks yet: add data to evaluate the models on."
NO_SCORES: Final = (
    "The models have not been tried on the tasks yet. Base, experts and every finished merge are "
    "tried one after another, in the background."
)
_UNBOUNDED: Final = frozenset({"perplexity", "score"})
"""Metrics whose values do not share an axis with others."""


class ScoresTab(QWidget):
    """``add_data`` opens the tasks if there are none yet; ``show_examples`` opens all examples."""

    def __init__(
        self,
        session: Session,
        scoring: Scoring,
        add_data: Callable[[], object],
        show_examples: Callable[[], object],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._session, self._scoring = session, scoring
        self.title = plain_label("", self)
        self.title.setFont(face(Face.TITLE))
        self.note = secondary_label("", self)
        self.merge = Choice("Merge to show", {"": ("no merge yet", "")})
        self.merge.chosen.connect(self.refresh)
        self.evaluate = EvaluateButton(session, scoring)
        self.line = ScoreLine(self)
        self.bars = ScoreBarsPlot()
        self.figures = FiguresCard(session)
        self.examples = ExamplesStrip(session, scoring, show_examples)
        self.no_tasks = EmptyState(NO_TASKS, _button("Add data…", add_data))
        self.no_scores = EmptyState(NO_SCORES, EvaluateButton(session, scoring))
        self._stack = QStackedLayout(self)
        for page in (card(self.no_tasks), card(self.no_scores), self._make_page()):
            self._stack.addWidget(page)
        self._latest = ""
        self._stale = False
        self._timer = QTimer(self, singleShot=True, interval=REFRESH)
        self._timer.timeout.connect(self.refresh)
        results = session.results
        for changed in (results.scores.changed, results.runs.changed, session.engine_changed):
            changed.connect(self._plan_refresh)
        session.draft.changed.connect(self._plan_refresh)
        scoring.changed.connect(self._plan_refresh)
        results.changed.connect(self._plan_refresh)
        self.refresh()

    def _make_page(self) -> QWidget:
        head = QWidget()
        row = QHBoxLayout()
        row.setSpacing(12)
        row.addWidget(self.title, 1)
        row.addWidget(self.merge)
        row.addWidget(self.evaluate)
        column = QVBoxLayout(head)
        column.setContentsMargins(8, 6, 8, 6)
        column.setSpacing(6)
        column.addLayout(row)
        column.addWidget(self.note)
        column.addWidget(self.line)
        below = QSplitter(Qt.Orientation.Horizontal)
        below.setChildrenCollapsible(False)
        below.setHandleWidth(GAP)
        below.addWidget(card(PlotWithTable(self.bars, self.bars.columns)))
        scroll = scroll_area("Figures of the merge")
        scroll.setWidget(self.figures)
        below.addWidget(card(scroll))
        below.setSizes([520, 560])  # fits the table into a window of 1440 px
        below.setStretchFactor(0, 1)
        below.setStretchFactor(1, 1)
        page = QWidget()
        layout = QVBoxLayout(page)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(GAP)
        layout.addWidget(card(head))
        layout.addWidget(below, 1)
        self._strip = card(self.examples)
        layout.addWidget(self._strip)
        return page

    def resizeEvent(self, event: QResizeEvent) -> None:
        """If the height is small, the bars have all of it."""
        super().resizeEvent(event)
        self._strip.setVisible(event.size().height() >= _HIGH * self.fontMetrics().height())

    def _plan_refresh(self) -> None:
        """Refresh soon, or when the tab is shown again."""
        self._stale = True
        if self.isVisible() and not self._timer.isActive():
            self._timer.start()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._stale:
            self.refresh()

    # Display

    def recolour(self) -> None:
        """Update the experts' colours after a change of the scheme."""
        self._plan_refresh()

    def refresh(self) -> None:
        """Show the known scores."""
        self._stale = False
        self._timer.stop()
        known = self._session.results.scores
        if not known.tasks:
            self._stack.setCurrentIndex(0)
            return
        if not known.models:
            self._stack.setCurrentIndex(1)
            return
        self._stack.setCurrentIndex(2)
        self._offer_merges()
        rows = figures_of(known, self.merge.current)
        self._show_head(rows)
        self._show_bars(rows)
        self.figures.show_figures(rows, self._others)
        self.examples.show_merge(str(self.merge.current))

    @property
    def _others(self) -> list[Model]:
        """Every model with scores, the experts as one."""
        known = self._session.results.scores.models
        all_of = [Model(key=BASE, title="base"), *merges_of(self._session)]
        return [m for m in (*all_of, Model(key=EXPERTS, title="experts")) if m.key in known]

    def _offer_merges(self) -> None:
        """List the merges and select a new one; without merges, select base and experts."""
        merges = merges_of(self._session)
        options: dict[Hashable, tuple[str, str]]
        options = {each.key: (each.title, each.title) for each in reversed(merges)}
        self.merge.offer(options or {"": ("no merge yet", "Merge, and evaluate again")})
        self.merge.setEnabled(len(merges) > 1)
        run = self._session.results.merge
        current = str(run.store) if run is not None and run.finished is not None else ""
        if current != self._latest:
            self._latest = current
            if current in options:
                self.merge.blockSignals(True)
                self.merge.choose(current)
                self.merge.blockSignals(False)

    @property
    def merge_title(self) -> str:
        """The title of the selected merge."""
        return self.merge.currentText()

    def _show_head(self, rows: list[TaskFigures]) -> None:
        known, model = self._session.results.scores, self.merge.current
        share = known.mean(model).normalised
        if model not in known.models:
            self.title.setText(self._untried(model))
        elif not experts_are_better(rows):
            self.title.setText("The experts are no better than the base on these tasks")
        elif share is not None and known.is_complete(model):
            self.title.setText(
                f"{self.merge_title} keeps {100 * share:.0f} % of what the experts reach"
            )
        else:
            self.title.setText(self.merge_title)
        lines = [known.line(each).values() for each in (BASE, EXPERTS, model)]
        missing = remarks([score for line in lines for score in line])
        named = [said.replace(model, self.merge_title) if model else said for said in missing]
        self.note.setText(" ".join([_note(rows), *named]))
        marks = [
            Mark(title=each.title, value=mean, is_chosen=each.key == model)
            for each in self._others
            if (mean := known.mean(each.key).score) is not None
        ]
        self.line.show_marks(marks)
        self.line.setVisible(len(marks) > 1)

    def _untried(self, model: str) -> str:
        if self._scoring.is_running:
            return "The models are being evaluated"
        return "This merge is not evaluated yet" if model else "No merge is evaluated yet"

    def _show_bars(self, rows: list[TaskFigures]) -> None:
        if not rows:
            self.bars.clear()
            return
        shares = any(row.metric in _UNBOUNDED for row in rows) and len(rows) > 1
        metrics = {row.metric for row in rows}
        quantity = "share of the expert's score" if shares else _one_of(metrics)
        groups = [self._group(row, shares=shares) for row in rows]
        self.bars.show_scores(groups, self.merge_title or "merged", quantity)

    def _group(self, row: TaskFigures, *, shares: bool) -> ScoreGroup:
        bars = (row.base, row.merge, row.expert)
        if shares:
            bars = (Figure(), Figure(value=row.kept), Figure(value=1.0))
        return ScoreGroup(
            title=row.title,
            bars=bars,
            colour=expert_colour(self._session.draft.inputs, row.owner)[0],
            is_mean=row.is_mean,
        )


class EvaluateButton(ProgressButton):
    """Starts the evaluation; while it runs it shows the progress and stops it."""

    def __init__(self, session: Session, scoring: Scoring, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session, self._scoring = session, scoring
        self.setProperty("kind", "tinted")
        self.clicked.connect(lambda _=False: self._press())
        for changed in (
            session.activity.changed,
            session.activity.progressed,
            session.draft.changed,
            scoring.changed,
        ):
            changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Update from the session."""
        progress = self._session.activity.progress
        if self._scoring.is_running:
            known = progress is not None and progress.state is State.SCORING and progress.total
            share = progress.done / progress.total if progress is not None and known else 0.0
            self.show_progress(share, f"{100 * share:.0f} % · press to stop")
            self.setEnabled(True)
            self.setToolTip(progress.title if progress is not None and known else "")
            return
        why = self._scoring.obstacle
        self.show_action("Evaluate", why or "Evaluate base, experts and every finished merge")
        self.setEnabled(not why)

    def _press(self) -> None:
        (self._scoring.cancel if self._scoring.is_running else self._scoring.evaluate)()


def _button(text: str, slot: Callable[[], object]) -> QPushButton:
    button = QPushButton(text)
    button.setFont(face(Face.STRONG))
    button.setProperty("kind", "tinted")
    button.setAccessibleName(text.removesuffix("…"))
    button.clicked.connect(lambda _=False: slot())
    return button


def _note(rows: list[TaskFigures]) -> str:
    """The amount of data, and the precision of the mean."""
    tasks = [row for row in rows if not row.is_mean]
    if not tasks:
        return ""
    counts = {row.n for row in tasks}
    total = sum(row.n for row in tasks)
    if len(counts) > 1:
        note = f"{len(tasks)} tasks, {total} examples in all"
    else:
        note = counted(max(counts, default=0), "example", "examples")
        note = f"{len(tasks)} tasks × {note}" if len(tasks) > 1 else note
    mean = next((row.merge.error for row in rows if row.is_mean), float("nan"))
    return f"{note}; standard error ± {mean:.2g}" if isfinite(mean) else note


def _one_of(metrics: set[str]) -> str:
    return metrics.pop() if len(metrics) == 1 else "score"
