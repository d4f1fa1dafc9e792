"""The Tune tab: parameters, the curve on one half of the data, results on the other."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from math import isfinite

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QFormLayout,
    QPushButton,
    QSizePolicy,
    QSpinBox,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from ace_gui.engine.contract.scored.scores import MeanScore, TaskScore, means
from ace_gui.engine.contract.scored.tuned import TunePoint, how_chosen, values_of
from ace_gui.field_info import FieldInfo
from ace_gui.formatting import duration
from ace_gui.gui.control.operations.tune_operation import REPORTED, TuneOperation
from ace_gui.gui.models.task_figures_model import score_text
from ace_gui.gui.panels.scores.range_rows import RangeRows
from ace_gui.gui.plots.frame.controls import Choice
from ace_gui.gui.plots.frame.plot_with_table import PlotWithTable
from ace_gui.gui.plots.tune_curve_plot import EMPTY, TuneCurvePlot
from ace_gui.gui.state.found.results import ChosenByTrying
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain
from ace_gui.gui.theme import Face, face
from ace_gui.gui.widgets.labels.plain_label import (
    heading,
    muted_label,
    plain_label,
    secondary_label,
)
from ace_gui.gui.widgets.layout.arrangement import Column, scroll_area
from ace_gui.gui.widgets.layout.card import GAP, card
from ace_gui.gui.widgets.layout.font_metrics import on_font_change
from ace_gui.gui.widgets.tables.figure_sheet import FigureRow, FigureSheet
from ace_gui.recipe.values import ParameterValue

_PLOT = 9  # in text lines: minimum height of the curve
GRID, PROPOSED = 9, 25
"""Number of merges for one parameter, and for several."""


class TuneTab(QWidget):
    """``use`` is called with the name and the value of each parameter that the user applies."""

    def __init__(
        self,
        session: Session,
        tuning: TuneOperation,
        use: Callable[[str, ParameterValue], object],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._session, self._tuning, self._use = session, tuning, use
        self.ranges = RangeRows()
        self.merges = _spin("Merges to try", "default")
        self.limit = _spin("Maximum number of examples per task", "all")
        self.cost = muted_label("", self)
        self.button = QPushButton("Start")
        self.button.setProperty("kind", "tinted")
        self.button.setFont(face(Face.STRONG))
        self.problem = plain_label("", self)
        self.problem.setProperty("kind", "bad")
        self.axis = Choice("Parameter along the curve", {"": ("–", "")})
        self.curve = TuneCurvePlot()
        self.curve.add_choice(self.axis)
        self.said = plain_label("", self)
        self.said.setFont(face(Face.HEADING))
        self.note = secondary_label("", self)
        self.figures = FigureSheet("Scores on the other half of the data", self, kind="recipe")
        self.take = QPushButton("Use these values")
        self.take.setProperty("kind", "tinted")
        self.take.setAccessibleName("Use these values in the recipe")
        self._lay_out()
        self._connect()
        self.refresh()

    def _lay_out(self) -> None:
        columns = QSplitter(Qt.Orientation.Horizontal)
        columns.setChildrenCollapsible(False)
        columns.setHandleWidth(GAP)
        scroll = scroll_area("Parameters to tune")
        scroll.setWidget(self._make_left())
        columns.addWidget(card(scroll))
        right = Column()
        column = QVBoxLayout(right)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GAP)
        view = PlotWithTable(self.curve, self.curve.columns)
        view.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)
        column.addWidget(card(view), 1)
        on_font_change(self, lambda metrics: view.setMinimumHeight(_PLOT * metrics.height()))
        self._result = card(self._make_result())
        column.addWidget(self._result)
        results = scroll_area("Results")
        results.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        results.setWidget(right)
        columns.addWidget(results)
        columns.setSizes([380, 640])
        columns.setStretchFactor(1, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(columns)

    def _make_left(self) -> QWidget:
        left = QWidget()
        form = QFormLayout()
        form.addRow("&Merges", self.merges)
        form.addRow("Exam&ples", self.limit)
        what = (
            "Merges with other values, each scored on one half of every task's data. What is "
            "reported is measured on the other half, which the search does not use."
        )
        column = QVBoxLayout(left)
        column.setContentsMargins(8, 6, 8, 8)
        column.setSpacing(10)
        column.addWidget(heading("Tune", left))
        column.addWidget(secondary_label(what, left))
        column.addWidget(self.ranges)
        column.addLayout(form)
        column.addWidget(self.cost)
        column.addWidget(self.problem)
        column.addWidget(self.button, 0, Qt.AlignmentFlag.AlignLeft)
        column.addStretch(1)
        return left

    def _make_result(self) -> QWidget:
        made = QWidget()
        column = QVBoxLayout(made)
        column.setContentsMargins(8, 6, 8, 8)
        column.setSpacing(8)
        column.addWidget(self.said)
        column.addWidget(self.figures)
        column.addWidget(self.note)
        column.addWidget(self.take, 0, Qt.AlignmentFlag.AlignLeft)
        self.figures.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Maximum)
        return made

    def _connect(self) -> None:
        self.button.clicked.connect(lambda _=False: self._press())
        self.take.clicked.connect(lambda _=False: self._take())
        self.axis.chosen.connect(self._show_curve)
        self.ranges.changed.connect(self._show_state)
        self.merges.valueChanged.connect(lambda _: self._show_state())
        self._tuning.changed.connect(self.refresh)
        for changed in (self._session.draft.changed, self._session.activity.changed):
            changed.connect(self.refresh)

    # Actions

    def _press(self) -> None:
        if self._tuning.is_running:
            self._tuning.stop()
            return
        merges, limit = self.merges.value() or None, self.limit.value() or None
        self._tuning.start(self.ranges.ranges, merges, limit)

    def _take(self) -> None:
        tuned = self._tuning.tuned
        if tuned is None:
            return
        for name, value in tuned.best.parameters.items():
            self._use(name, value)
        note = how_chosen(tuned)
        self._session.results.chosen = ChosenByTrying(
            method=self._session.draft.inputs.method,
            parameters=dict(tuned.best.parameters),
            note=note,
        )
        self._session.advice.emit(f"The recipe has {values_of(tuned.best)}. {note}.")
        self.refresh()

    # Display

    def recolour(self) -> None:
        """Update the experts' colours after a change of the scheme."""
        self.refresh()

    def refresh(self) -> None:
        """Show what can be tuned, and the results."""
        draft = self._session.draft
        fields = draft.method.fields if draft.method is not None else ()
        self.ranges.offer([f for f in fields if f.applies(draft.parameter)], draft.parameter)
        self._show_state()
        self._show_curve()
        self._show_result()

    def _show_state(self) -> None:
        tuning = self._tuning
        why = tuning.obstacle or self.ranges.fault
        self.button.setText("Stop" if tuning.is_running else "Start")
        self.button.setAccessibleName("Stop tuning" if tuning.is_running else "Start tuning")
        self.button.setEnabled(tuning.is_running or not why)
        self.button.setToolTip("" if tuning.is_running else why)
        count = self.merges.value() or (GRID if len(self.ranges.ranges) < 2 else PROPOSED)
        self.cost.setText(f"{count} merges for the search, and {REPORTED} for the other half.")
        if tuning.is_running and tuning.points:
            self.cost.setText(_time_left(tuning.points))
        self.problem.setText(plain(tuning.error or (tuning.obstacle if not self._busy else "")))
        self.problem.setVisible(bool(self.problem.text()))

    @property
    def _busy(self) -> bool:
        return self._tuning.is_running

    def _show_curve(self) -> None:
        tuning = self._tuning
        if not tuning.ranges:
            self.curve.clear(EMPTY)
            return
        labels = {each.name: self._field(each.name) for each in tuning.ranges}
        options: dict[Hashable, tuple[str, str]]
        options = {name: (f.label if f else name, "") for name, f in labels.items()}
        self.axis.offer(options)
        chosen = str(self.axis.current)
        field, each = labels[chosen], next(r for r in tuning.ranges if r.name == chosen)
        wide = each.low > 0 and each.high >= 100 * each.low
        log = each.low > 0 and (wide or (field is not None and field.logarithmic))
        best = None if tuning.tuned is None else tuning.tuned.best
        known = next((p for p in tuning.points if p == best), None)
        label = field.label if field is not None else chosen
        self.curve.show_points(tuning.points, chosen, label, logarithmic=log, best=known)
        self.axis.setVisible(len(options) > 1 and self.curve.message() is None)

    def _field(self, name: str) -> FieldInfo | None:
        method = self._session.draft.method
        fields = method.fields if method is not None else ()
        return next((field for field in fields if field.name == name), None)

    def _show_result(self) -> None:
        tuned = self._tuning.tuned
        self._result.setVisible(tuned is not None)
        if tuned is None:
            return
        before, after = _mean(tuned.before), _mean(tuned.scores)
        self.said.setText(plain(f"{values_of(tuned.best)}: {_change(before, after)}"))
        tasks = [score.task for score in tuned.scores]
        rows = [
            _row("before", tuned.before, before, tasks),
            _row("after", tuned.scores, after, tasks),
        ]
        self.figures.show_figures(["mean", *tasks], rows)
        n = sum(score.n for score in tuned.scores)
        self.note.setText(
            f"On the half of the data that the search did not use, {n} examples. "
            f"{len(tuned.points) + REPORTED} merges took {duration(tuned.seconds)}."
        )
        now = self._session.draft.inputs.touched
        used = all(now.get(name) == value for name, value in tuned.best.parameters.items())
        recipe = self._tuning.recipe
        same = recipe is not None and recipe.merge_method == self._session.draft.inputs.method
        self.take.setEnabled(same and not used)
        self.take.setText("These values are in the recipe" if used else "Use these values")


def _spin(name: str, special: str) -> QSpinBox:
    box = QSpinBox()
    box.setRange(0, 100_000)
    box.setAccessibleName(name)
    box.setSpecialValueText(special)
    return box


def _mean(scores: tuple[TaskScore, ...]) -> MeanScore:
    return means([replace(score, own=False) for score in scores])[0]


def _row(title: str, scores: tuple[TaskScore, ...], mean: MeanScore, tasks: list[str]) -> FigureRow:
    by_task = {score.task: score.score for score in scores}
    overall = float("nan") if mean.score is None else mean.score
    values = [overall, *(by_task.get(task, float("nan")) for task in tasks)]
    errors = ", ".join(f"{each.task} ± {score_text(each.standard_error)}" for each in scores)
    return FigureRow(title=title, tip=f"Standard errors: {errors}", values=values)


def _change(before: MeanScore, after: MeanScore) -> str:
    """``87.1 % of the experts become 89.0 %``, or else the mean scores."""
    then, now = before.normalised, after.normalised
    if then is not None and now is not None:
        if now == then:
            return f"{100 * now:.1f} % of the experts' scores, as before"
        worse = "{before:.1f} % of the experts' scores become {now:.1f} %, which is worse"
        better = "{before:.1f} % of the experts' scores become {now:.1f} %"
        return (worse if now < then else better).format(before=100 * then, now=100 * now)
    if before.score is not None and after.score is not None:
        return f"a mean score of {score_text(before.score)} becomes {score_text(after.score)}"
    return "scored on the other half"


def _time_left(points: tuple[TunePoint, ...]) -> str:
    each = sum(point.seconds for point in points) / len(points)
    left = each * (points[-1].of - len(points) + REPORTED)
    return (
        "{count} of {of} merges done, about {left} left."
        if isfinite(left)
        else "{count} of {of} merges done."
    ).format(count=len(points), of=points[-1].of, left=duration(left) if isfinite(left) else "")
