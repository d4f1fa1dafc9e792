"""Lets the user choose methods or values, merges with each in turn, and compares the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from PySide6.QtCore import QItemSelectionModel, Qt, QTimer, Signal
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QAbstractItemView, QSplitter, QStackedWidget, QWidget

from ace_gui.engine.contract.events import CompareProgress, MethodCompared
from ace_gui.gui.control.method_comparison import MethodComparison
from ace_gui.gui.models.scores_models import ComparedModel
from ace_gui.gui.panels.job_page import RunButton, merges_of
from ace_gui.gui.panels.merge_choices import MergeChoices
from ace_gui.gui.plots.merge_plots import MergeBars, MergePoint, MergeScatter
from ace_gui.gui.state.activity import start_once
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import tooltip
from ace_gui.gui.widgets.controls import push_button
from ace_gui.gui.widgets.labels import heading, muted_label, secondary_label
from ace_gui.gui.widgets.layout import (
    GAP,
    TWO_COLUMNS,
    BesideOrBelow,
    FlowLayout,
    down,
    on_font_change,
    on_visibility_change,
    pane,
    scroll_area,
    split,
)
from ace_gui.gui.widgets.tables import FittedTable, save_table

_TABLE = 6  # in text lines: minimum height of the table
_PLOT = 12  # in text lines: minimum height of each plot
_RESULTS = 16  # in text lines: minimum height of the results, in which table and plots scroll
_ONE_ROW = 34  # in text lines: below this width the plots are stacked
_PAIR = "Compare the two selected merges layer by layer"
_NOTHING = (
    "Select methods on the left and press Compare. Each method merges the models, and "
    "norms, distances and scores appear here. The current merge is kept, and is in the table, too."
)


class CompareMethodsPanel(QWidget):
    """``pair_wanted`` carries the runs of two rows that the user wants to compare by layer."""

    pair_wanted = Signal(object, object)

    def __init__(
        self, session: Session, comparison: MethodComparison, choices: MergeChoices
    ) -> None:
        super().__init__()
        self._session = session
        self._comparison = comparison
        self._compared: tuple[MethodCompared, ...] = ()
        self._titles: Mapping[str, str] = {}
        """Of the session's runs, by their stores."""
        self._shown: tuple[object, ...] = ()
        """What the plots have drawn."""
        self._barred: list[MethodCompared] = []
        self._spotted: list[MethodCompared] = []
        self.choices = choices
        self.start = RunButton("Compare", self._begin, comparison.stop)
        self.status = muted_label()
        self.model = ComparedModel(self)
        self.table = self._make_table()
        self.bars = MergeBars()
        self.scatter = MergeScatter()
        tip = "Make the selected merge the current one"
        self.use = push_button("&Use this", lambda: comparison.use(self.selected()[0]), tip=tip)
        emit = self.pair_wanted.emit
        self.pair = push_button("Compare &layers", lambda: emit(*self._pair()), tip=_PAIR)
        tip = "Write the table to a file"
        save = partial(save_table, self, "comparison")
        self.save = push_button("Save as CS&V…", lambda: save(self.model.exported()), tip=tip)
        self._refreshing = QTimer(self, singleShot=True, interval=0)
        self._refreshing.timeout.connect(self.refresh)
        self._lay_out()
        self._connect()
        self.refresh()

    def selected(self) -> list[MethodCompared]:
        rows = self.table.selectionModel().selectedRows()
        return [self.model.row_at(position) for position in sorted(index.row() for index in rows)]

    def _begin(self) -> None:
        self._comparison.start(self.choices.recipes(), self.choices.runs())

    def compare(self, names: Sequence[str]) -> None:
        """Merge with the defaults of each of these methods that fits the models."""
        self.choices.tick(names)
        if self.start.isEnabled():
            self.start.click()

    def refresh(self) -> None:
        chosen = self.selected()
        rows = self._comparison.all_rows
        titles = merges_of(self._session)
        if (self._compared, self._titles) != (rows, titles):
            self._compared = rows
            self._titles = titles
            self.model.show_rows(self._compared, titles)
            self.table.fit_columns()
            self._select(chosen)
        self._results.setCurrentIndex(int(bool(self._compared)))
        self._draw()
        progress = self._comparison.progress(CompareProgress)
        if progress is not None:
            text = f"Merging {progress.index + 1} of {progress.of}: {progress.title}"
            text += f", {progress.done} of {progress.total} tensors …" if progress.total else " …"
        else:
            errors = [f"{row.title}: {row.error}" for row in self._compared if row.error]
            text = self._comparison.obstacle or " ".join(errors)
        waiting = progress is not None and not self._compared
        self.status.setText(text)
        self.status.setVisible(not waiting and bool(text))
        self._nothing.setText(text if waiting else _NOTHING)
        self._allow()

    def _draw(self) -> None:
        """Draw the sorted column as bars, and the main figure against the norm."""
        model = self.model
        current = self._session.results.merge
        good = [row for row in model.rows if not row.error]

        def point(row: MethodCompared, x: float, y: float = 0.0) -> MergePoint:
            is_current = current is not None and self._comparison.run_of(row) is current
            return MergePoint(model.title_of(row), x, y, is_current)

        sorted_figure = model.sorted_figure
        main = model.main_figure
        self._barred = [row for row in good if sorted_figure.value_of(row) is not None]
        barred = [point(row, sorted_figure.value_of(row) or 0.0) for row in self._barred]
        self._spotted = [row for row in good if main.value_of(row) is not None]
        name = swept(self._spotted)
        fields = self._session.draft.fields
        spotted = [
            point(
                row,
                float(row.parameters[name]) if name else row.relative_norm,
                main.value_of(row) or 0.0,
            )
            for row in self._spotted
        ]
        label = next((field.label for field in fields if field.name == name), name)
        shown = (sorted_figure.title, barred, main.title, spotted, label)
        if shown != self._shown:  # most progress changes nothing here
            self._shown = shown
            self.bars.show_merges(sorted_figure.title, barred)
            self.scatter.show_merges(main.title, spotted, label)

    def _make_table(self) -> FittedTable:
        table = FittedTable("Compared merges", self.model, padding=8)
        table.setObjectName("compared")
        table.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        return table

    def _lay_out(self) -> None:
        choices_pane = pane(down(heading("Merges and methods"), (self.choices, 1), self.start))
        actions = FlowLayout(spacing=8)
        for button in (self.use, self.pair, self.save):
            actions.addWidget(button)
        plots = BesideOrBelow(_ONE_ROW, self)
        plots.addWidget(self.bars)
        plots.addWidget(self.scatter)
        splitter = QSplitter(Qt.Orientation.Vertical)
        splitter.addWidget(self.table)
        splitter.addWidget(plots)
        splitter.setChildrenCollapsible(False)
        splitter.setSizes([300, 320])
        splitter.setStretchFactor(1, 1)
        area = scroll_area("Results", splitter, tabs=False)
        self._nothing = secondary_label(_NOTHING)
        self._nothing.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._nothing.setMargin(48)
        self._results = QStackedWidget(self)
        self._results.addWidget(self._nothing)
        self._results.addWidget(area)
        self._right = pane(down(heading("Results"), (self._results, 1), self.status, actions))
        parts = choices_pane, self._right
        columns = split(*parts, sizes=(250, 900), gap=2 * GAP, lines=TWO_COLUMNS)
        page = scroll_area("Comparison of methods", columns, tabs=False)
        self.setLayout(down(page, margins=(8, 8, 8, 8)))
        on_font_change(self, self._measure)

    def _measure(self, metrics: QFontMetrics) -> None:
        parts = (self.table, self.bars, self.scatter, self._right)
        for part, lines in zip(parts, (_TABLE, _PLOT, _PLOT, _RESULTS), strict=True):
            part.setMinimumHeight(lines * metrics.height())

    def _connect(self) -> None:
        self.choices.changed.connect(self._allow)
        self.table.selectionModel().selectionChanged.connect(lambda *_: self._allow())
        results = self._session.results
        for signal in (self._comparison.changed, self._session.checks.changed):
            signal.connect(self.refresh)
        for signal in (
            results.changed,
            results.runs.changed,
            results.scores.changed,
            self._session.layers.learnt,
        ):
            signal.connect(self._plan_refresh)
        on_visibility_change(self, self._comparison.set_visible)
        self.model.layoutChanged.connect(self._draw)
        select = self.table.selectRow
        position_of = self.model.position_of
        self.bars.point_chosen.connect(lambda n: select(position_of(self._barred[n])))
        self.scatter.point_chosen.connect(lambda n: select(position_of(self._spotted[n])))
        for changed in (self._session.activity.changed, self._session.results.runs.changed):
            changed.connect(self._allow)

    def _plan_refresh(self, *_: object) -> None:
        start_once(self._refreshing)

    def _select(self, rows: list[MethodCompared]) -> None:
        flags = QItemSelectionModel.SelectionFlag
        for row in rows:
            position = self.model.position_of(row)
            if position >= 0:
                index = self.model.index(position, 0)
                self.table.selectionModel().select(index, flags.Select | flags.Rows)

    def _allow_pair(self, chosen: Sequence[MethodCompared]) -> None:
        """Allow to compare two merges by layer, or say which of them is no longer there."""
        gone = [row for row in chosen if not row.error and self._comparison.run_of(row) is None]
        self.pair.setEnabled(len(chosen) == 2 and all(self._pair()))
        tip = _PAIR
        if gone:
            names = ", ".join(self.model.title_of(row) for row in gone)
            tip += f"\nNo longer on this disk: {names}. Compare that again to have it here."
        self.pair.setToolTip(tooltip(tip))

    def _pair(self) -> list[object]:
        return [self._comparison.run_of(row) for row in self.selected()[:2]]

    def _allow(self) -> None:
        comparison = self._comparison
        progress = comparison.progress(CompareProgress)
        running = comparison.is_running
        chosen = self.selected()
        count = self.choices.count
        share = 0.0 if running else None
        if running and progress is not None:
            done = progress.index + progress.done / max(progress.total, 1)
            share = done / max(progress.of, 1)
        if count:
            self.start.action = f"Compare {count}"
        else:
            self.start.action = "Compare"
        if count:
            why = ""
        else:
            why = "Select a method, or values of one parameter."
        why = comparison.obstacle or self._session.merge_obstacle or why
        self.start.show_job(running, why, share=share)
        self.use.setEnabled(len(chosen) == 1 and not chosen[0].error and not running)
        self._allow_pair(chosen)
        for button in (self.use, self.pair, self.save):
            button.setVisible(self.model.rowCount() > 0)


def swept(rows: Sequence[MethodCompared]) -> str:
    """The one parameter by which merges of one method differ, or ""."""
    methods = {row.variant.recipe.merge_method for row in rows}
    names = {name for row in rows for name in row.parameters}
    differ = [name for name in names if len({row.parameters.get(name) for row in rows}) > 1]
    if len(methods) != 1 or len(differ) != 1:
        return ""
    kinds = {type(row.parameters.get(differ[0])) for row in rows}
    if kinds <= {int, float}:
        return differ[0]
    return ""
