"""One task as a form: guessed values are shown and can be changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QComboBox,
    QFormLayout,
    QLabel,
    QLineEdit,
    QMenu,
    QPushButton,
    QSpinBox,
    QWidget,
)

from ace_gui.engine.contract.scored.shown_examples import ShownExample, TaskDescribed
from ace_gui.formatting import counted
from ace_gui.gui.panels.scores.example_cells import ExamplePicture
from ace_gui.gui.text import plain, sentence_case, tooltip
from ace_gui.gui.theme import Face, face
from ace_gui.gui.widgets.files.file_dialogs import DATA, ask_paths
from ace_gui.gui.widgets.labels.plain_label import ElidedLabel, heading, muted_label, plain_label
from ace_gui.gui.widgets.layout.arrangement import across, clear_layout, down
from ace_gui.recipe.tasks import Metric, Task, TaskKind

KINDS: Final = "Data (*.csv *.tsv *.json *.jsonl *.ndjson *.parquet *.txt *.npz);;All files (*)"
_NOTHING: Final = "none"
_MOST: Final = 10_000_000
_PICTURE: Final = 64  # px
_MAX_CHARACTERS: Final = 280  # of a displayed text
_LABELLED: Final = (TaskKind.IMAGE_CLASSIFICATION, TaskKind.TEXT_CLASSIFICATION)


class TaskEditor(QWidget):
    """``edited`` carries the changed Task; ``remove_wanted``: the user removes it."""

    edited = Signal(object)
    remove_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._task: Task | None = None
        self._found: TaskDescribed | None = None
        self.name = _line("Name of the task")
        self.path = ElidedLabel(self)
        self.calibration = ElidedLabel(self)
        self.choose = QPushButton("Choose…", self)
        self.choose.setProperty("kind", "link")
        self.choose.setAccessibleName("Choose calibration inputs")
        self.expert = _box("Expert of the task")
        self.kind = _box("Kind of task")
        self.measure = _box("Metric")
        self.limit = QSpinBox()
        self.limit.setRange(0, _MOST)
        self.limit.setSpecialValueText("all")
        self.limit.setAccessibleName("Maximum number of examples, chosen at random")
        self.limit.setKeyboardTracking(False)
        self.labels = _line("Labels, in the head's order")
        self.labels.setPlaceholderText("as in the head's config")
        self.fault = plain_label("", self)
        self.fault.setProperty("kind", "bad")
        self.remove = QPushButton("Remove task", self)
        self.remove.setProperty("kind", "ghost")
        self.remove.setAccessibleName("Remove this task")
        self.remove.clicked.connect(lambda _=False: self.remove_wanted.emit())
        self.columns: dict[str, QComboBox] = {}
        self._form = QFormLayout()
        self._count = muted_label("", self)
        self._lay_out()
        self._connect()

    def _lay_out(self) -> None:
        head = across((heading("Task", self), 1), self.remove)
        self._form.setHorizontalSpacing(16)
        policy = QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow
        self._form.setFieldGrowthPolicy(policy)
        for title, field in (
            ("&Name", self.name),
            ("Data", self.path),
            ("Calibration", self._calibration_row()),
            ("&Expert", self.expert),
            ("&Kind", self.kind),
            ("&Metric", self.measure),
            ("Exam&ples", self.limit),
            ("&Labels", self.labels),
        ):
            self._form.addRow(title, field)
        self._shown = down(gap=10)
        examples = heading("First examples", self)
        parts = (head, self.fault, self._form, examples, self._count, self._shown, None)
        self.setLayout(down(*parts, margins=(8, 6, 8, 8), gap=10))

    def _calibration_row(self) -> QWidget:
        """Inputs for methods that need data, separate from the evaluated ones."""
        tip = (
            "Inputs for methods that learn or measure something; never those that are scored. "
            "Labels are not needed, except for the few methods that say so."
        )
        self.choose.setToolTip(tooltip(tip))
        menu = QMenu(self.choose)
        menu.addAction("&File or folder…", self._ask_calibration)
        self.without = menu.addAction("&None", lambda: self._change("calibration", None))
        self.choose.setMenu(menu)
        row = QWidget()
        row.setLayout(across((self.calibration, 1), self.choose))
        return row

    def _ask_calibration(self) -> None:
        ask_paths(self, "Calibration inputs", KINDS, DATA, self.calibrate)

    def calibrate(self, chosen: list[Path]) -> None:
        """Take the first of these as the task's calibration inputs."""
        self._change("calibration", chosen[0])

    def _connect(self) -> None:
        self.name.editingFinished.connect(self._rename)
        self.labels.editingFinished.connect(self._relabel)
        self.expert.activated.connect(lambda _: self._change("expert", self.expert.currentData()))
        # Qt stores the values of such enumerations as plain text.
        self.kind.activated.connect(
            lambda _: self._change("kind", TaskKind(self.kind.currentData()))
        )
        self.measure.activated.connect(
            lambda _: self._change("metric", Metric(self.measure.currentData()))
        )
        self.limit.valueChanged.connect(lambda value: self._change("limit", value or None))

    # Display

    def show_task(
        self, task: Task, found: TaskDescribed | None, owner: str | None, experts: Sequence[str]
    ) -> None:
        """Show a task and its description, as far as known."""
        same = task == self._task and found == self._found
        waits = found is None and self._task is not None and task.data == self._task.data
        found = self._found if waits else found  # keeps the layout still while data are read again
        self._task, self._found = task, found
        if not self.name.hasFocus() or not same:
            self.name.setText(plain(task.title))
        self.path.set_full_text(str(task.data))
        self.calibration.set_full_text(str(task.calibration or _NOTHING))
        self.without.setEnabled(task.calibration is not None)
        names = {name: name for name in experts}
        _offer(self.expert, {"of no expert": None, **names}, owner)
        kinds = found.kinds if found is not None else ()
        chosen = found.kind if found is not None else task.kind
        _offer(self.kind, {kind.value: kind for kind in _with(kinds, task.kind)}, chosen)
        origin = "The kind of task; guessed." if task.kind is None else "The kind of task; as set."
        self.kind.setToolTip(tooltip(origin))
        metrics: tuple[Metric, ...] = found.metrics if found is not None else ()
        measured = found.metric if found is not None else task.metric
        _offer(self.measure, {each.value: each for each in _with(metrics, task.metric)}, measured)
        self.limit.blockSignals(True)
        self.limit.setValue(task.limit or 0)
        self.limit.blockSignals(False)
        self.labels.setText(", ".join(task.labels))
        self._form.setRowVisible(self.labels, chosen in _LABELLED)
        self.fault.setText(plain(found.fault) if found is not None else "")
        self.fault.setVisible(bool(found is not None and found.fault))
        self._show_columns()
        self._show_examples()

    def _show_columns(self) -> None:
        """One field per role. Existing fields stay, and keep their focus."""
        found = self._found
        roles = (*found.roles, *found.optional) if found is not None else ()
        if tuple(self.columns) != roles:
            for box in self.columns.values():
                self._form.removeRow(box)
            self.columns = {}
            for index, role in enumerate(roles):
                box = self.columns[role] = _box(f"Column: {role}")
                box.activated.connect(lambda _, r=role: self._change_column(r))
                self._form.insertRow(6 + index, sentence_case(role), box)
        if found is None:
            return
        for role, box in self.columns.items():
            own = found.columns.get(role) or _columns_of(self._task, role)
            options: dict[str, Any] = {plain(name): name for name in found.table_columns}
            if len(own) > 1:
                options[", ".join(own)] = tuple(own)
            if role in found.optional or not own:
                options = {_NOTHING: None, **options}
            _offer(box, options, tuple(own) if len(own) > 1 else own[0] if own else None)

    def _show_examples(self) -> None:
        clear_layout(self._shown)
        found = self._found
        if found is None:
            self._count.setText("Reading the data …")
            return
        self._count.setText(
            counted(found.count, "example", "examples") if found.count else "No example readable."
        )
        for example in found.examples:
            self._shown.addWidget(_example_row(example))

    # Edits

    def _change(self, field: str, value: Any) -> None:
        if self._task is not None and getattr(self._task, field) != value:
            self.edited.emit(replace(self._task, **{field: value}))

    def _rename(self) -> None:
        text = self.name.text().strip()
        if self._task is not None and text != plain(self._task.title):
            self._change("name", text or None)

    def _relabel(self) -> None:
        parts = (part.strip() for part in self.labels.text().split(","))
        self._change("labels", tuple(part for part in parts if part))

    def _change_column(self, role: str) -> None:
        """Without a second text, name the first one, or else the second would be guessed again."""
        if self._task is None or self._found is None:
            return
        chosen = self.columns[role].currentData()
        columns = {**self._task.columns, role: chosen}
        if chosen is None:
            known = {name: given[0] for name, given in self._found.columns.items()}
            columns = {**known, **self._task.columns}
            columns.pop(role, None)
        self._change("columns", columns)


def _columns_of(task: Task | None, role: str) -> tuple[str, ...]:
    given = () if task is None else task.columns.get(role, ())
    return (given,) if isinstance(given, str) else tuple(given)


def _with(known: Sequence[Any], own: Any) -> Sequence[Any]:
    return known if own is None or own in known else (*known, own)


def _line(name: str) -> QLineEdit:
    line = QLineEdit()
    line.setAccessibleName(name)
    return line


def _box(name: str) -> QComboBox:
    box = QComboBox()
    box.setAccessibleName(name)
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    box.setMinimumContentsLength(10)
    return box


def _offer(box: QComboBox, options: Mapping[str, Any], chosen: Any) -> None:
    """Fill a box without a signal, unless it shows just that."""
    now = {box.itemText(n): box.itemData(n) for n in range(box.count())}
    if now != options:
        box.clear()
        for text, value in options.items():
            box.addItem(text, value)
    values = list(options.values())
    box.setCurrentIndex(values.index(chosen) if chosen in values else -1)
    box.setEnabled(bool(options))


def _example_row(example: ShownExample) -> QWidget:
    made, row = QWidget(), across(gap=12)
    made.setLayout(row)
    if example.picture is not None:
        picture = ExamplePicture(_PICTURE)
        picture.show_picture(example.picture, f"{example.row}: {example.label}")
        row.addWidget(picture)
    words = down(gap=2)
    for role, text in example.texts:
        line = f"{role}: {text}" if len(example.texts) > 1 else text
        words.addWidget(
            plain_label(line if len(line) < _MAX_CHARACTERS else f"{line[:_MAX_CHARACTERS]}…")
        )
    label = QLabel(plain(example.label))
    label.setFont(face(Face.STRONG))
    words.addWidget(label)
    words.addWidget(muted_label(example.row))
    row.addLayout(words, 1)
    return made
