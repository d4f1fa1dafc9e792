"""Lets the user choose methods or values, merges with each in turn, and compares the results."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from PySide6.QtCore import QItemSelectionModel, Qt, Signal
from PySide6.QtGui import QFocusEvent, QFontMetrics, QKeyEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QButtonGroup,
    QCheckBox,
    QLineEdit,
    QSplitter,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from ace_gui.engine.contract.events import CompareProgress, MethodCompared, MethodInfo
from ace_gui.field_info import FieldInfo
from ace_gui.gui.control.operations import MethodComparison
from ace_gui.gui.models.scores_models import ComparedModel
from ace_gui.gui.panels.job_page import RunButton
from ace_gui.gui.plots.merge_plots import MergeBars, MergePoint, MergeScatter
from ace_gui.gui.state.draft import Inputs, by_family
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import tooltip
from ace_gui.gui.widgets.controls import Choice, named, push_button
from ace_gui.gui.widgets.labels import heading, muted_label, secondary_label
from ace_gui.gui.widgets.layout import (
    GAP,
    BesideOrBelow,
    FlowLayout,
    WrappedColumn,
    across,
    down,
    on_font_change,
    pane,
    scroll_area,
    split,
)
from ace_gui.gui.widgets.tables import FittedTable, misfit, save_table
from ace_gui.recipe import Recipe, recommended
from ace_gui.recipe.values import ParameterValue

# in text lines: minimum height of the plots
_TABLE = 6
_PLOT = 12
_ONE_ROW = 34  # in text lines: below this width the plots are stacked
_NOTHING = (
    "Select methods on the left and press Compare. Each method merges the models, and "
    "norms, distances and scores appear here. The current merge is kept, and is in the table, too."
)


class CompareMethodsPanel(QWidget):
    """``pair_wanted`` carries the runs of two rows that the user wants to compare by layer."""

    pair_wanted = Signal(object, object)

    def __init__(self, session: Session, comparison: MethodComparison) -> None:
        super().__init__()
        self._session = session
        self._comparison = comparison
        self._compared: tuple[MethodCompared, ...] = ()
        self._barred: list[MethodCompared] = []
        self._spotted: list[MethodCompared] = []
        self.choices = MergeChoices(session)
        start = comparison.start
        self.start = RunButton("Compare", lambda: start(self.choices.recipes()), comparison.stop)
        self.status = muted_label()
        self.model = ComparedModel(self)
        self.table = self._make_table()
        self.bars = MergeBars()
        self.scatter = MergeScatter()
        tip = "Make the selected merge the current one"
        self.use = push_button("&Use this", lambda: comparison.use(self.selected()[0]), tip=tip)
        tip = "Compare the two selected merges layer by layer"
        emit = self.pair_wanted.emit
        self.pair = push_button("Compare &layers", lambda: emit(*self._pair()), tip=tip)
        tip = "Write the table to a file"
        save = partial(save_table, self, "comparison")
        self.save = push_button("Save as CS&V…", lambda: save(self.model.exported()), tip=tip)
        self._lay_out()
        self._connect()
        self.refresh()

    def selected(self) -> list[MethodCompared]:
        rows = self.table.selectionModel().selectedRows()
        return [self.model.row_at(position) for position in sorted(index.row() for index in rows)]

    def compare(self, names: Sequence[str]) -> None:
        """Merge with the defaults of each of these methods that fits the models."""
        self.choices.tick(names)
        if self.start.isEnabled():
            self.start.click()

    def refresh(self) -> None:
        chosen = self.selected()
        if tuple(self._compared) != self._comparison.rows:
            self._compared = self._comparison.rows
            self.model.show_rows(self._compared)
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
            return MergePoint(row.title, x, y, is_current)

        sorted_figure = model.sorted_figure
        main = model.main_figure
        self._barred = [row for row in good if sorted_figure.value_of(row) is not None]
        points = [point(row, sorted_figure.value_of(row) or 0.0) for row in self._barred]
        self.bars.show_merges(sorted_figure.title, points)
        self._spotted = [row for row in good if main.value_of(row) is not None]
        name = swept(self._spotted)
        fields = self._session.draft.fields
        points = [
            point(
                row,
                float(row.parameters[name]) if name else row.relative_norm,
                main.value_of(row) or 0.0,
            )
            for row in self._spotted
        ]
        label = next((field.label for field in fields if field.name == name), name)
        self.scatter.show_merges(main.title, points, label)

    def _make_table(self) -> FittedTable:
        table = FittedTable("Compared merges", self.model, padding=8)
        table.setObjectName("compared")
        table.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        return table

    def _lay_out(self) -> None:
        choices_pane = pane(down(heading("Methods"), (self.choices, 1), self.start))
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
        on_font_change(self, self._measure)
        area = scroll_area("Results", splitter, tabs=False)
        self._nothing = secondary_label(_NOTHING)
        self._nothing.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._nothing.setMargin(48)
        self._results = QStackedWidget(self)
        self._results.addWidget(self._nothing)
        self._results.addWidget(area)
        right = pane(down(heading("Results"), (self._results, 1), self.status, actions))
        columns = split(choices_pane, right, sizes=(250, 900), gap=2 * GAP)
        self.setLayout(down(columns, margins=(8, 8, 8, 8)))

    def _measure(self, metrics: QFontMetrics) -> None:
        for part, lines in ((self.table, _TABLE), (self.bars, _PLOT), (self.scatter, _PLOT)):
            part.setMinimumHeight(lines * metrics.height())

    def _connect(self) -> None:
        self.choices.changed.connect(self._allow)
        self.table.selectionModel().selectionChanged.connect(lambda *_: self._allow())
        for signal in (self._comparison.changed, self._session.checks.changed):
            signal.connect(self.refresh)
        self._session.results.changed.connect(self._draw)
        self.model.layoutChanged.connect(self._draw)
        select = self.table.selectRow
        position_of = self.model.position_of
        self.bars.point_chosen.connect(lambda n: select(position_of(self._barred[n])))
        self.scatter.point_chosen.connect(lambda n: select(position_of(self._spotted[n])))
        for changed in (self._session.activity.changed, self._session.results.runs.changed):
            changed.connect(self._allow)

    def _select(self, rows: list[MethodCompared]) -> None:
        flags = QItemSelectionModel.SelectionFlag
        for row in rows:
            position = self.model.position_of(row)
            if position >= 0:
                index = self.model.index(position, 0)
                self.table.selectionModel().select(index, flags.Select | flags.Rows)

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
        self.pair.setEnabled(len(chosen) == 2 and all(self._pair()))
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


class _Box(QCheckBox):
    """Up and down move the focus to the next box. ``entered`` carries the box with the focus."""

    entered = Signal(QWidget)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.entered.emit(self)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}.get(Qt.Key(event.key()), 0)
        if not step:
            super().keyPressEvent(event)
            return
        boxes = [box for box in self.group().buttons() if not box.isHidden()]
        index = min(max(boxes.index(self) + step, 0), len(boxes) - 1)
        boxes[index].setFocus(Qt.FocusReason.TabFocusReason)  # with a ring


class MergeChoices(QWidget):
    """The methods or values to merge with. ``changed``: the user has chosen others."""

    changed = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._numbers: dict[str, FieldInfo] = {}
        self._is_chosen = False
        """Whether the ticks are the user's, and not proposed."""
        self.boxes: dict[tuple[str, str | None], _Box] = {}
        """The boxes by method and variant, None for the default or only variant."""
        self.methods = scroll_area("Methods to compare", tabs=False)
        self.parameter = Choice("Parameter to vary", {None: ("no parameter", "")})
        self.values = named(QLineEdit(placeholderText="0.1, 0.2, 0.5"), "Values to try")
        tick = self._tick
        self.all = push_button("Select a&ll", lambda: tick(True), tip="Select every method")
        self.none = push_button("&None", lambda: tick(False), tip="Deselect every method")
        note = muted_label("or values of one parameter")
        ticks = across(self.all, self.none)
        self.setLayout(down((self.methods, 1), ticks, note, self.parameter, self.values))
        self._fill_methods()
        self._fill_parameters()
        self._allow()
        self.parameter.chosen.connect(self._allow)
        self.values.textChanged.connect(lambda _: self._allow())
        session.draft.changed.connect(self._fill_parameters)
        session.draft.changed.connect(self._offer_what_fits)
        session.engine_changed.connect(self._fill_methods)

    @property
    def count(self) -> int:
        if self._varies:
            return len(self._written_values())
        return len(self._ticked())

    @property
    def _varies(self) -> bool:
        return self.parameter.current is not None

    @property
    def _offered(self) -> tuple[MethodInfo, ...]:
        draft = self._session.draft
        return (*draft.recommended, *draft.methods)

    def recipes(self) -> list[Recipe]:
        """The recipes to merge: one per checked method, or one per value."""
        inputs = self._session.draft.inputs
        if self._varies:
            name = self.parameter.current
            return [inputs.with_parameter(name, value).recipe() for value in self._written_values()]
        return [_under(inputs, *chosen).recipe() for chosen in self._ticked()]

    def _allow(self) -> None:
        self.values.setVisible(self._varies)
        self.methods.setEnabled(not self._varies)
        self.changed.emit()

    def _fill_methods(self) -> None:
        """Add a box for each variant of each method, and propose some."""
        column = WrappedColumn()
        layout = QVBoxLayout(column)
        layout.setSpacing(3)
        group = QButtonGroup(column, exclusive=False)
        self.boxes.clear()
        for family, members in by_family(self._offered):
            layout.addWidget(muted_label(family))
            for method in members:
                variants = () if method.name == recommended.NAME else method.variants
                for variant in variants or (None,):
                    title = method.title if variant is None else f"{method.title}, {variant}"
                    box = _Box(title, column)
                    group.addButton(box)
                    box.setToolTip(tooltip(method.summary))
                    box.toggled.connect(lambda _: self._allow())
                    box.clicked.connect(self._note_choice)
                    box.entered.connect(self._make_entry)
                    layout.addWidget(box)
                    default = variant is None or variant == method.variants[0]
                    self.boxes[method.name, None if default else variant] = box
        layout.addStretch(1)
        self.methods.setWidget(column)
        self._is_chosen = False
        self._offer_what_fits()

    def _note_choice(self) -> None:
        self._is_chosen = True

    def _propose(self) -> None:
        """Tick the window's method and what to compare it with first."""
        methods = {method.name: method for method in self._offered}
        current = [
            key for key in self.boxes if self._is_current(methods[key[0]], self._variant(key))
        ]
        first_compared = [(name, None) for name in recommended.COMPARED_FIRST]
        fitting = [key for key in (*current, *first_compared) if not self._is_hidden(key)]
        proposed = list(dict.fromkeys(fitting))[: recommended.COMPARED_COUNT]
        for key, box in self.boxes.items():
            box.setChecked(key in proposed)

    def _is_hidden(self, key: tuple[str, str | None]) -> bool:
        return key not in self.boxes or self.boxes[key].isHidden()

    def _variant(self, key: tuple[str, str | None]) -> str | None:
        """The variant of a box by name, also the default one; None for a method without variants
        and for the recommended merge."""
        name, variant = key
        method = next(method for method in self._offered if method.name == name)
        if variant is not None or name == recommended.NAME or not method.variants:
            return variant
        return method.variants[0]

    def _offer_what_fits(self) -> None:
        """Enable only methods that support this number of experts."""
        count = len(self._session.draft.inputs.experts)
        methods = {method.name: method for method in self._offered}
        for (name, _), box in self.boxes.items():
            fits = count > 0 and not misfit(methods[name], count)
            box.setVisible(fits)
            box.setChecked(fits and box.isChecked())
        if not self._is_chosen:
            self._propose()
        visible = [box for box in self.boxes.values() if not box.isHidden()]
        self._make_entry(next((box for box in visible if box.hasFocus()), (*visible, None)[0]))

    def _make_entry(self, entry: QWidget | None) -> None:
        """Bring this box into view; the Tab key reaches no other."""
        for box in self.boxes.values():
            if box is entry:
                policy = Qt.FocusPolicy.StrongFocus
            else:
                policy = Qt.FocusPolicy.ClickFocus
            box.setFocusPolicy(policy)
        if entry is not None and entry.hasFocus():
            self.methods.ensureWidgetVisible(entry)

    def _is_current(self, method: MethodInfo, variant: str | None) -> bool:
        draft = self._session.draft
        if draft.inputs.is_recommended:
            return method.name == recommended.NAME
        in_force = variant in (None, draft.parameter("variant"))
        return method.name == draft.inputs.method and in_force

    def _fill_parameters(self) -> None:
        """Offer the numeric parameters of the window's method, to vary one of them."""
        draft = self._session.draft
        method = self._session.draft.method
        self._numbers = {
            field.name: field for field in draft.fields if field.kind in ("float", "int")
        }
        title = method.title if method is not None else "the method"
        tip = f"Values of one parameter of {title}, separated by commas, instead of other methods"
        labels = {name: (number.label, tip) for name, number in self._numbers.items()}
        self.parameter.offer({None: ("no parameter", tip), **labels})
        self.values.setToolTip(tip)

    def _written_values(self) -> list[ParameterValue]:
        """The values in the field that are numbers in range."""
        item = self._numbers[self.parameter.current]
        values = []
        for text in self.values.text().replace(";", ",").split(","):
            try:
                value = int(text) if item.kind == "int" else float(text)
            except ValueError:
                continue
            low = item.low is None or (value > item.low if item.low_open else value >= item.low)
            if low and (item.high is None or value <= item.high):
                values.append(value)
        return list(dict.fromkeys(values))

    def _ticked(self) -> list[tuple[str, str | None]]:
        return [chosen for chosen, box in self.boxes.items() if box.isChecked()]

    def tick(self, names: Collection[str]) -> None:
        """Select these methods alone, each in its default variant."""
        self._is_chosen = True
        self.parameter.choose(None)
        for (name, variant), box in self.boxes.items():
            box.setChecked(name in names and variant is None and not box.isHidden())

    def _tick(self, ticked: bool) -> None:
        self._is_chosen = True
        for box in self.boxes.values():
            box.setChecked(ticked and not box.isHidden())


def _under(inputs: Inputs, method: str, variant: str | None) -> Inputs:
    """The inputs with this method and variant. Another method drops the overrides."""
    changed = inputs.with_method(method)
    if changed.method == inputs.method:
        rules = inputs.overrides
    else:
        rules = ()
    changed = replace(changed, overrides=rules)
    if method == recommended.NAME:
        return changed
    return changed.with_parameter("variant", variant)
