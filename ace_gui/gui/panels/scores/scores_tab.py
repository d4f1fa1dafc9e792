"""The Scores tab: a summary, a line of all models, bars by task, a table, a test."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from statistics import fmean
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from ace_gui.engine.contract.scored import BASE, EXPERTS, remarks
from ace_gui.formatting import counted
from ace_gui.gui.control.scoring import Scoring
from ace_gui.gui.models.experts_model import expert_colour
from ace_gui.gui.models.task_figures_model import score_text
from ace_gui.gui.panels.job_page import JobPage, MergeChoice, Pages, RunButton, merges_of
from ace_gui.gui.panels.scores.examples_tab import ExamplesStrip, ExamplesTab
from ace_gui.gui.panels.scores.figures_card import FiguresCard
from ace_gui.gui.panels.scores.routes_table import RoutesTable
from ace_gui.gui.panels.scores.tasks_tab import TasksTab
from ace_gui.gui.plots.frame.plot_with_table import PlotWithTable
from ace_gui.gui.plots.merge_plots import ScoreBarsPlot, ScoreGroup
from ace_gui.gui.state.activity import State
from ace_gui.gui.state.found.known_scores import Figure, TaskFigures, experts_are_better, figures_of
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import tooltip
from ace_gui.gui.theme import Face, current_theme, face
from ace_gui.gui.theme.painting import write
from ace_gui.gui.widgets.controls import push_button
from ace_gui.gui.widgets.labels import EmptyState, plain_label, secondary_label
from ace_gui.gui.widgets.layout import (
    GAP,
    across,
    card,
    down,
    on_font_change,
    pane,
    scroll_area,
    split,
)

_HIGH: Final = 36  # in text lines: below this height the row of examples is hidden
REFRESH: Final = 100  # ms between repaints while scores arrive
NO_TASKS: Final = "There are no tasks yet: add data to evaluate the models on."
NO_SCORES: Final = (
    "The models are not evaluated yet. Base, experts and every finished merge are evaluated one "
    "after another, in the background."
)
BEING_EVALUATED: Final = "The models are being evaluated"
_UNBOUNDED: Final = frozenset({"perplexity", "score"})
"""Metrics whose values do not share an axis with others."""


class ScoresTab(JobPage):
    """Opens the tasks if there are none yet, and all examples."""

    delay = REFRESH

    def __init__(self, session: Session, scoring: Scoring, pages: Pages) -> None:
        super().__init__(session, scoring, pages)
        self.title, self.note = plain_label(), secondary_label()
        self.title.setFont(face(Face.TITLE))
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
        controls = across((self.title, 1), self.merge, self.evaluate, gap=12)
        parts = (controls, self.note, self.line)
        head = card(pane(down(*parts, margins=(8, 6, 8, 6), gap=6)))
        figures = scroll_area("Figures of the merge", pane(down(self.figures, self.routes, None)))
        below = split(card(PlotWithTable(self.bars)), card(figures), sizes=(520, 560), gap=GAP)
        below.setStretchFactor(0, 1)
        self._strip = card(self.examples)
        shown = pane(down(head, (below, 1), self._strip, gap=GAP))
        self.set_pages(card(self.no_tasks), card(self.no_scores), shown)
        results = session.results
        self.follow(results.scores.changed, results.runs.changed, session.engine_changed)
        self.follow(session.draft.changed, scoring.changed, results.changed)
        self.follow(session.activity.changed)
        self.refresh()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """If the height is small, the bars have all of it."""
        super().resizeEvent(event)
        self._strip.setVisible(event.size().height() >= _HIGH * self.fontMetrics().height())

    def refresh(self) -> None:
        known = self.session.results.scores
        self.show_page(2 if known.tasks and known.models else bool(known.tasks))
        if not (known.tasks and known.models):
            sentence = self.scoring.obstacle or NO_SCORES
            self.no_scores.say(BEING_EVALUATED if self.scoring.is_running else sentence)
            return
        self.merge.update_merges()
        rows = figures_of(known, self.merge.current)
        self._show_head(rows)
        self._show_bars(rows)
        self.figures.show_figures(rows, self._others)
        self.examples.show_merge(str(self.merge.current))
        self.routes.show_merge(str(self.merge.current))

    @property
    def _others(self) -> dict[str, str]:
        """The titles of all models with scores by their keys; the experts are one."""
        known = self.session.results.scores.models
        titles = {BASE: "base", **merges_of(self.session), EXPERTS: "experts"}
        return {key: title for key, title in titles.items() if key in known}

    def _show_head(self, rows: list[TaskFigures]) -> None:
        known, model = self.session.results.scores, self.merge.current
        share, text = known.mean(model).normalised, self.merge.currentText()
        if model not in known.models:
            text = "This merge is not evaluated yet" if model else "No merge is evaluated yet"
            text = BEING_EVALUATED if self.scoring.is_running else text
        elif not experts_are_better(rows):
            text = "The experts are no better than the base on these tasks"
        elif share is not None and known.is_complete(model):
            text = f"{text} keeps {100 * share:.0f} % of what the experts reach"
        self.title.setText(text)
        lines = [known.line(each).values() for each in (BASE, EXPERTS, model)]
        missing = remarks([score for line in lines for score in line])
        title = self.merge.currentText()
        named = [each.replace(model, title) if model else each for each in missing]
        self.note.setText(" ".join([_note(rows), *named]))
        marks = [
            Mark(title=title, value=mean, is_chosen=key == model)
            for key, title in self._others.items()
            if (mean := known.mean(key).score) is not None
        ]
        self.line.show_marks(marks)
        self.line.setVisible(len(marks) > 1)

    def _show_bars(self, rows: list[TaskFigures]) -> None:
        if not rows:
            self.bars.clear()
            return
        shares = any(row.metric in _UNBOUNDED for row in rows) and len(rows) > 1
        metrics = {row.metric for row in rows}
        quantity = metrics.pop() if len(metrics) == 1 else "score"
        quantity = "share of the expert's score" if shares else quantity
        groups = [self._group(row, shares=shares) for row in rows]
        self.bars.show_scores(groups, self.merge.currentText() or "merged", quantity)

    def _group(self, row: TaskFigures, *, shares: bool) -> ScoreGroup:
        bars = (row.base, row.merge, row.expert)
        if shares:
            bars = (Figure(value=row.base_kept), Figure(value=row.kept), Figure(value=1.0))
        return ScoreGroup(
            title=row.title,
            bars=bars,
            colour=expert_colour(self.session, row.owner)[0],
            is_mean=row.is_mean,
        )


class EvaluateButton(RunButton):
    """Evaluates base, experts and merges."""

    def __init__(self, session: Session, scoring: Scoring) -> None:
        super().__init__("Evaluate", scoring.evaluate, scoring.cancel)
        self._session, self._scoring = session, scoring
        activity = session.activity
        for changed in (activity.changed, activity.progressed, session.draft.changed):
            changed.connect(self.refresh)
        scoring.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        running, progress = self._scoring.is_running, self._session.activity.progress
        share, tip = 0.0, "Evaluate base, experts and every finished merge"
        if running and progress is not None and progress.state is State.SCORING and progress.total:
            share, tip = progress.done / progress.total, progress.title
        self.show_job(running, self._scoring.obstacle, tip=tip, share=share)


def _note(rows: list[TaskFigures]) -> str:
    """The amount of data, and the precision of the mean."""
    tasks = [row for row in rows if not row.is_mean]
    if not tasks:
        return ""
    note = counted(sum(row.n for row in tasks), "example", "examples")
    note = f"{len(tasks)} tasks, {note} in all" if len(tasks) > 1 else note
    mean = next((row.merge.error for row in rows if row.is_mean), float("nan"))
    return f"{note}; standard error of the mean: {mean:.2g}" if isfinite(mean) else note


_MIDDLE: Final = Qt.AlignmentFlag.AlignCenter
_WIDEST: Final = 150.0  # px of a name
_GAP: Final = 12.0  # px between two names
_RADIUS: Final = 5.0
_SIDE: Final = 80.0  # px left free at both ends
_ABOVE: Final = 13.0  # px between the line and its labels
_FAR: Final = 170.0  # px between a name and its mark


class Mark(NamedTuple):
    """A model and its mean score. ``is_chosen``: the model is selected."""

    title: str
    value: float
    is_chosen: bool = False


class ScoreLine(QWidget):
    """The value above each mark, the name below. Labels that would overlap are moved apart, with a
    line from each to its mark, as many as stay near; the tooltip has all."""

    def __init__(self) -> None:
        super().__init__()
        self._marks: tuple[Mark, ...] = ()
        self.setAccessibleName("Mean scores")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        on_font_change(self, lambda _: self.updateGeometry())

    def show_marks(self, marks: Sequence[Mark]) -> None:
        self._marks = tuple(sorted(marks, key=lambda mark: mark.value))
        texts = [f"{mark.title} {score_text(mark.value)}" for mark in self._marks]
        self.setAccessibleDescription(", ".join(texts))
        self.setToolTip(tooltip("\n".join(texts)))
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(400, round(2.2 * self._line + 2 * _ABOVE + 4))

    @property
    def _line(self) -> float:
        return QFontMetricsF(face(Face.BODY)).height()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  (Qt's signature)
        if not self._marks:
            return
        theme, painter = current_theme(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        middle = 1.1 * self._line + _ABOVE
        positions = self.positions()
        painter.setPen(QPen(QColor(theme.edge), 1.5))
        painter.drawLine(QPointF(8, middle), QPointF(self.width() - 8, middle))
        chosen = next((n for n, mark in enumerate(self._marks) if mark.is_chosen), None)
        if chosen is not None:
            painter.setPen(QPen(QColor(theme.text), 1.8))
            painter.drawLine(QPointF(positions[0], middle), QPointF(positions[chosen], middle))
        labels = self.labels()
        for index, rect in labels.items():
            self._paint_label(painter, self._marks[index], positions[index], rect, middle)
        for mark, at in sorted(
            zip(self._marks, positions, strict=True), key=lambda each: each[0].is_chosen
        ):
            radius = _RADIUS + 2 * mark.is_chosen
            painter.setPen(QPen(QColor(theme.text if mark.is_chosen else theme.text2), 1.6))
            painter.setBrush(QColor(theme.text if mark.is_chosen else theme.card))
            painter.drawEllipse(QPointF(at, middle), radius, radius)

    def _paint_label(
        self, painter: QPainter, mark: Mark, at: float, below: QRectF, middle: float
    ) -> None:
        """Write the value and the name; lines lead to the mark from where they are moved."""
        theme, centre = current_theme(), below.center().x()
        ink = theme.text if mark.is_chosen else theme.text2
        if abs(centre - at) > _RADIUS:
            painter.setPen(QPen(QColor(theme.control), 1))
            for away in (-_ABOVE, _ABOVE):
                painter.drawLine(QPointF(at, middle), QPointF(centre, middle + away))
        faces = (Face.STRONG, Face.CAPTION_STRONG) if mark.is_chosen else (Face.BODY, Face.CAPTION)
        above = below.translated(0, -below.top())
        write(painter, above, score_text(mark.value), face(faces[0]), ink, align=_MIDDLE)
        write(painter, below, mark.title, face(faces[1]), ink, align=_MIDDLE)

    def positions(self) -> NDArray[np.float64]:
        """Of the marks, in pixels."""
        values = np.array([mark.value for mark in self._marks])
        span, room = np.ptp(values), self.width() - 2 * _SIDE
        if not span:
            return np.full(len(values), self.width() / 2)
        return _SIDE + room * (values - values[0]) / span

    def labels(self) -> dict[int, QRectF]:
        """Where the names of marks are, by their indices: of the chosen one, of both ends, and of
        the best others that stay near their marks."""
        last = len(self._marks) - 1
        first = (n for n, mark in enumerate(self._marks) if mark.is_chosen)
        metrics, positions = QFontMetricsF(face(Face.CAPTION_STRONG)), self.positions()
        widths = np.array([metrics.horizontalAdvance(mark.title) + 4 for mark in self._marks])
        widths = np.clip(widths, 3.5 * self._line, _WIDEST)
        shown: list[int] = []
        centres = positions[:0]
        for index in dict.fromkeys((*first, last, 0, *range(last, 0, -1))):
            tried = sorted([*shown, index])
            found = _apart(positions[tried], widths[tried], self.width())
            if not shown or np.abs(found - positions[tried]).max() <= _FAR:
                shown, centres = tried, found
        top, height = 1.1 * self._line + 2 * _ABOVE, 1.1 * self._line
        return {
            n: QRectF(at - widths[n] / 2, top, widths[n], height)
            for n, at in zip(shown, centres, strict=True)
        }


def _apart(
    centres: NDArray[np.float64], widths: NDArray[np.float64], room: float
) -> NDArray[np.float64]:
    """Move labels, in ascending order, by as little as possible until none overlap."""
    steps = np.cumsum((widths[1:] + widths[:-1]) / 2 + _GAP)
    steps = np.concatenate([[0.0], steps])
    groups: list[list[float]] = []
    for free in centres - steps:  # those that touch share their middle
        groups.append([free])
        while len(groups) > 1 and fmean(groups[-2]) > fmean(groups[-1]):
            groups[-2:] = [groups[-2] + groups[-1]]
    placed = np.array([fmean(group) for group in groups for _ in group])
    low, high = widths[0] / 2, room - widths[-1] / 2 - steps[-1]
    return np.clip(placed, low, max(low, high)) + steps
