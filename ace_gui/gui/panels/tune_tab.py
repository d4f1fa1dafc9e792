"""The Tune tab: parameters, the curve on one half of the data, and results on the other half."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import isfinite

from PySide6.QtCore import Signal
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QCheckBox, QGridLayout, QSizePolicy, QWidget

from ace_gui.engine.contract.jobs import TuneJob
from ace_gui.engine.contract.noise import mean_score, why_nothing_chosen
from ace_gui.engine.contract.scored import (
    MeanScore,
    ParameterRange,
    TaskScore,
    Tuned,
    TunePoint,
    how_chosen,
    usual_merges,
    values_of,
)
from ace_gui.field_info import FieldInfo
from ace_gui.formatting import duration
from ace_gui.gui.control.operations import REPORTED
from ace_gui.gui.control.scoring import Scoring
from ace_gui.gui.models.scores_models import score_text
from ace_gui.gui.panels.job_page import (
    MARGINS,
    JobPage,
    Pages,
    RunButton,
    problem_label,
    show_problem,
)
from ace_gui.gui.plots.frame.base_plot import PlotWithTable
from ace_gui.gui.plots.merge_plots import NOT_TUNED, TuneCurvePlot
from ace_gui.gui.state.results import ChosenByTrying
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain
from ace_gui.gui.widgets.controls import Choice, count_field, named, push_button
from ace_gui.gui.widgets.form import Form, ScientificSpinBox
from ace_gui.gui.widgets.labels import heading, muted_label, secondary_label
from ace_gui.gui.widgets.layout import (
    GAP,
    TWO_COLUMNS,
    WrappedColumn,
    across,
    card,
    clear_layout,
    down,
    on_font_change,
    pane,
    scroll_area,
    split,
)
from ace_gui.gui.widgets.tables import FigureRow, FigureSheet
from ace_gui.recipe.values import ParameterValue

_WHAT = (
    "Each merge with other values is scored on one half of every task's data. The reported "
    "scores are of the other half, which the search does not use."
)
_PLOT = 9  # in text lines: minimum height of the curve


class TuneTab(JobPage):
    """The tab that searches parameters and offers the best values."""

    def __init__(self, session: Session, scoring: Scoring, pages: Pages) -> None:
        super().__init__(session, scoring, pages)
        self._tuning = scoring.tuning
        self.ranges = RangeRows()
        self.merges = count_field("Merges to try", 100_000, special="default")
        name = "Maximum number of examples per task"
        self.limit = count_field(name, 100_000, special="all")
        self.cost = muted_label()
        self.problem = problem_label()
        self.button = RunButton("Start", self._start, self._tuning.stop, name="Start tuning")
        self.axis = Choice("Parameter along the curve", {"": ("–", "")})
        self.curve = TuneCurvePlot()
        self.curve.add_control(self.axis, first=True)
        self.result = heading("")
        self.note = secondary_label()
        self.result.setWordWrap(True)
        self.figures = FigureSheet("Scores on the other half of the data", kind="recipe")
        fixed = QSizePolicy.Policy.Fixed
        expanding = QSizePolicy.Policy.Expanding
        self.figures.setSizePolicy(expanding, fixed)  # both rows are always visible
        name = "Use these values in the recipe"
        self.use = push_button("Use these values", self._use, kind="tinted", name=name)
        self._lay_out()
        self.axis.chosen.connect(self._show_curve)
        self.ranges.changed.connect(self._show_state)
        self.merges.valueChanged.connect(lambda _: self._show_state())
        self.follow(self._tuning.changed, session.draft.changed, session.activity.changed)

    def _lay_out(self) -> None:
        form = Form()
        form.add_row("Merges", self.merges)
        form.add_row("Examples", self.limit)
        inputs = (self.ranges, form, self.cost, self.problem, across(self.button, None), None)
        column = down(heading("Tune"), secondary_label(_WHAT), *inputs, margins=MARGINS, gap=10)
        view = PlotWithTable(self.curve)
        view.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)
        on_font_change(self, lambda metrics: view.setMinimumHeight(_PLOT * metrics.height()))
        outcome = (self.result, self.figures, self.note, across(self.use, None))
        self._result = card(pane(down(*outcome, margins=MARGINS)))
        right = WrappedColumn()
        right.setLayout(down((card(view), 1), self._result, gap=GAP))
        scroll = scroll_area("Parameters to tune", pane(column))
        results = scroll_area("Results", right, tabs=False)
        parts = card(scroll), results
        self.set_pages(split(*parts, sizes=(380, 640), gap=GAP, lines=TWO_COLUMNS))

    def _start(self) -> None:
        merges = self.merges.value() or None
        limit = self.limit.value() or None
        self._tuning.start(self.ranges.ranges, merges, limit)

    def _use(self) -> None:
        tuned = self._tuning.last(Tuned)
        if tuned is None:
            return
        for name, value in tuned.best.parameters.items():
            self.session.parameter_wanted.emit(name, value)
        note = how_chosen(tuned)
        values = dict(tuned.best.parameters)
        method = self.session.draft.inputs.method
        self.session.results.chosen = ChosenByTrying(method=method, parameters=values, note=note)
        self.session.advice.emit(f"The recipe has {values_of(tuned.best)}. {note}.")
        self.refresh()

    def refresh(self) -> None:
        draft = self.session.draft
        fields = [field for field in draft.fields if field.applies(draft.parameter)]
        self.ranges.offer(fields, draft.parameter)
        self._show_state()
        self._show_curve()
        self._show_result()

    def _show_state(self) -> None:
        tuning = self._tuning
        why = tuning.obstacle or self.ranges.fault
        self.button.show_job(tuning.is_running, why)
        count = self.merges.value() or usual_merges(len(self.ranges.ranges))
        cost = f"{count} merges for the search, and {REPORTED} for the other half."
        if not tuning.is_running:
            cost = tuning.obstacle or cost
        elif points := tuning.all(TunePoint):
            cost = _time_left(points)
        self.cost.setText(cost)
        show_problem(self.problem, tuning.error)

    def _show_curve(self) -> None:
        job: TuneJob | None = self._tuning.job
        points = self._tuning.all(TunePoint)
        tuned = self._tuning.last(Tuned)
        if job is None:
            self.curve.clear(NOT_TUNED)
            return
        fields = {field.name: field for field in self.session.draft.fields}
        names = [parameter_range.name for parameter_range in job.ranges]
        labels = {name: fields[name].label if name in fields else name for name in names}
        self.axis.offer({name: (label, "") for name, label in labels.items()})
        chosen = str(self.axis.current)
        field = fields.get(chosen)
        parameter_range = next(r for r in job.ranges if r.name == chosen)
        log = parameter_range.is_logarithmic(declared=field is not None and field.logarithmic)
        if tuned is None:
            best = None
        else:
            best = tuned.best
        best_point = next((p for p in points if p == best), None)
        label = labels[chosen]
        self.curve.show_points(points, chosen, label, logarithmic=log, best=best_point)
        self.axis.setVisible(len(labels) > 1 and self.curve.message() is None)

    def _show_result(self) -> None:
        tuned = self._tuning.last(Tuned)
        self._result.setVisible(tuned is not None)
        if tuned is None:
            return
        before = mean_score(tuned.before)
        after = mean_score(tuned.scores)
        text = f"{values_of(tuned.best)}: {_change(before, after)}"
        self.result.setText(plain(f"{why_nothing_chosen(tuned)} {text}".strip()))
        tasks = [score.task for score in tuned.scores]
        halves = ("before", tuned.before, before), ("after", tuned.scores, after)
        self.figures.show_figures(["mean", *tasks], [_row(*half, tasks) for half in halves])
        n = sum(score.n for score in tuned.scores)
        self.note.setText(
            f"On the half of the data that the search did not use, {n} examples. "
            f"{len(tuned.points) + REPORTED} merges took {duration(tuned.seconds)}."
        )
        parameter = self.session.draft.parameter
        used = all(parameter(name) == value for name, value in tuned.best.parameters.items())
        same_method = self._tuning.job.recipe.merge_method == self.session.draft.inputs.method
        self.use.setEnabled(same_method and not used)
        self.use.setText("These values are in the recipe" if used else "Use these values")


def _row(title: str, scores: tuple[TaskScore, ...], mean: MeanScore, tasks: list[str]) -> FigureRow:
    by_task = {score.task: score.score for score in scores}
    if mean.score is None:
        overall = float("nan")
    else:
        overall = mean.score
    values = [overall, *(by_task.get(task, float("nan")) for task in tasks)]
    errors = ", ".join(f"{score.task} ± {score_text(score.standard_error)}" for score in scores)
    return FigureRow(title, f"Standard errors: {errors}", values)


def _change(before: MeanScore, after: MeanScore) -> str:
    """``from 87.1 % to 89.0 % of the experts' scores``, or a text with the mean scores."""
    old_share = before.normalised
    new_share = after.normalised
    if old_share is not None and new_share is not None:
        old = f"{100 * old_share:.1f} %"
        new = f"{100 * new_share:.1f} %"
        if new_share < old_share:
            worse = ", which is worse"
        else:
            worse = ""
        if old == new:
            change = f"still {old}"
        else:
            change = f"from {old} to {new}"
        return f"{change} of the experts' scores{worse}"
    if before.score is not None and after.score is not None:
        return f"a mean score of {score_text(before.score)} becomes {score_text(after.score)}"
    return "scored on the other half"


def _time_left(points: tuple[TunePoint, ...]) -> str:
    seconds_each = sum(point.seconds for point in points) / len(points)
    seconds = seconds_each * (points[-1].of - len(points) + REPORTED)
    progress = f"{len(points)} of {points[-1].of} merges done"
    if isfinite(seconds):
        return f"{progress}, about {duration(seconds)} left."
    return f"{progress}."


class RangeRows(QWidget):
    """A row for each number; checked ones are searched. ``changed``: the user has edited a row."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._fields: tuple[FieldInfo, ...] = ()
        self.rows: dict[str, tuple[QCheckBox, ScientificSpinBox, ScientificSpinBox]] = {}
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(8)
        self._grid.setColumnStretch(0, 2)
        self._grid.setColumnStretch(1, 1)
        self._grid.setColumnStretch(3, 1)

    def offer(
        self, fields: Sequence[FieldInfo], value_of: Callable[[str], ParameterValue | None]
    ) -> None:
        """Offer the numbers among these fields. Rows that exist already stay as they are."""
        numbers = tuple(field for field in fields if field.kind in ("float", "int"))
        if numbers == self._fields:
            return
        self._fields = numbers
        clear_layout(self._grid)
        self.rows = {}
        for index, field in enumerate(numbers):
            self._add(index, field, value_of(field.name))
        if numbers:
            preferred = next((f.name for f in numbers if f.name == "scaling"), numbers[0].name)
            self.rows[preferred][0].setChecked(True)

    def _add(self, index: int, field: FieldInfo, value: ParameterValue | None) -> None:
        tick = named(QCheckBox(field.label), f"Search {field.label}", field.help)
        low, high = _usual_range(field, field.default if value is None else value)
        boxes = []
        for end, number in (("from", low), ("to", high)):
            box = ScientificSpinBox(field.low, field.high, low_open=field.low_open, parent=self)
            named(box, f"{field.label}, {end}").setValue(number)
            on_font_change(box, partial(_give_room, box))
            box.setEnabled(False)
            box.valueChanged.connect(lambda _: self.changed.emit())
            tick.toggled.connect(box.setEnabled)
            boxes.append(box)
        tick.toggled.connect(lambda _: self.changed.emit())
        for column, widget in enumerate((tick, boxes[0], muted_label("to"), boxes[1])):
            self._grid.addWidget(widget, index, column)
        self.rows[field.name] = tick, boxes[0], boxes[1]

    @property
    def ranges(self) -> tuple[ParameterRange, ...]:
        return tuple(
            ParameterRange(name=name, low=low.value(), high=high.value())
            for name, (tick, low, high) in self.rows.items()
            if tick.isChecked()
        )

    @property
    def fault(self) -> str:
        """The problem with the ranges; empty if they can be searched."""
        if not self.ranges:
            return "Select a parameter."
        wrong = [
            parameter_range.name
            for parameter_range in self.ranges
            if not parameter_range.low < parameter_range.high
        ]
        if wrong:
            return f"The range of {wrong[0]} is empty."
        return ""


def _usual_range(field: FieldInfo, value: ParameterValue) -> tuple[float, float]:
    """A range around the current value, within the method's limits."""
    current = float(value)
    if field.logarithmic and current > 0:
        low = current / 100
        high = current * 100
    else:
        low = min(0.0, 2 * current)
        high = max(2 * current, 1.0)
    if field.low is not None:
        low = max(low, field.low)
    if field.high is not None:
        high = min(high, field.high)
    if field.low_open and field.low is not None and low <= field.low:
        low = field.low + (high - field.low) / 20
    if field.kind == "int":
        return (float(round(low)), float(round(high)))
    return (low, high)


def _give_room(box: QWidget, metrics: QFontMetrics) -> None:
    box.setMinimumWidth(metrics.horizontalAdvance("0.00000") + 24)
