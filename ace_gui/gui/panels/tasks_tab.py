"""The Tasks tab: the data of each task, how they are read, their problems, and a form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QIcon, QKeySequence
from PySide6.QtWidgets import (
    QListWidget,
    QListWidgetItem,
    QMenu,
    QPushButton,
    QStyleOptionViewItem,
    QWidget,
)

from ace_gui.engine.contract.scored import ShownExample, TaskDescribed
from ace_gui.field_info import Option
from ace_gui.formatting import counted, path_text
from ace_gui.gui.control.scoring import Scoring
from ace_gui.gui.models.list_models import expert_colour
from ace_gui.gui.panels.job_page import (
    MARGINS,
    EvaluateButton,
    ExamplePicture,
    JobPage,
    Pages,
    problem_label,
    show_problem,
)
from ace_gui.gui.panels.layer_cells import Cell, Drawn, Index, line_height
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, quoted, sentence_case, tooltip
from ace_gui.gui.theme import Face, current_theme, face, icon
from ace_gui.gui.theme.painting import swatch, write
from ace_gui.gui.widgets.controls import mark_wrong, named, push_button, widget_action
from ace_gui.gui.widgets.file_dialogs import DATA, ask_paths
from ace_gui.gui.widgets.form import Form, OptionForm
from ace_gui.gui.widgets.labels import ElidedLabel, EmptyState, heading, muted_label, plain_label
from ace_gui.gui.widgets.layout import (
    GAP,
    TitleLine,
    across,
    card,
    clear_layout,
    down,
    pane,
    scroll_area,
    split,
)
from ace_gui.recipe.values import Chat, Task

NO_DATA: Final = (
    "A task is your own data for evaluating the models: a table, a text, or a folder of "
    "pictures by class. Drop it here, or add it."
)
_NOT_DATA: Final = frozenset((".yaml", ".yml", ".safetensors"))


class TasksTab(JobPage):
    """The list of tasks, with a form for the selected one."""

    def __init__(self, session: Session, scoring: Scoring, pages: Pages) -> None:
        super().__init__(session, scoring, pages)
        self.setAcceptDrops(True)
        self.list = named(QListWidget(), "Tasks")
        self.list.setIconSize(QSize(10, 10))
        self.list.setSpacing(1)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setItemDelegate(TwoLineCell(self.list))
        self.list.currentRowChanged.connect(lambda _: self._show_task())
        widget_action(self.list, "Remove task", self._remove, QKeySequence.StandardKey.Delete)
        self.editor = TaskEditor()
        self.editor.edited.connect(lambda task: scoring.change(self.list.currentRow(), task))
        self.editor.remove_wanted.connect(self._remove)
        self._rows: tuple[tuple[Task, TaskDescribed | None], ...] = ()
        self.empty = EmptyState(NO_DATA, self._add_button("Add data…", "tinted"))
        add = self._add_button("Add data…", "link")
        add.setIcon(icon("add", "accent"))
        head = across((heading("Tasks"), 1), add)
        note = muted_label("Tasks are saved with the recipe. Drop data here.")
        self.evaluate = EvaluateButton(session, scoring)
        list_card = card(pane(down(head, (self.list, 1), note, self.evaluate, margins=MARGINS)))
        right = card(scroll_area("The chosen task", self.editor))
        self.set_pages(card(self.empty), split(list_card, right, sizes=(360, 640), gap=GAP))
        self.follow(session.draft.changed, session.results.scores.changed)

    def _add_button(self, text: str, kind: str) -> QPushButton:
        tip = "Add a task: a file of data, or a folder"
        name = "Add data"
        return push_button(text, self.ask, kind=kind, tip=tip, name=name, role=Face.BUTTON)

    def refresh(self) -> None:
        scores = self.session.results.scores
        tasks = self.session.draft.inputs.tasks
        self.show_page(int(bool(tasks)))
        rows = tuple((task, scores.described(task)) for task in tasks)
        if rows == self._rows and self.list.count() == len(rows):
            return
        added = 0 < len(self._rows) < len(rows)
        if added:
            chosen = len(rows) - 1
        else:
            chosen = self.list.currentRow()
        self._rows = rows
        self.list.blockSignals(True)
        while self.list.count() > len(rows):
            self.list.takeItem(self.list.count() - 1)
        while self.list.count() < len(rows):
            self.list.addItem(QListWidgetItem())
        for index, (task, description) in enumerate(rows):
            self._fill_item(self.list.item(index), task, description)
        self.list.setCurrentRow(min(max(chosen, 0), len(rows) - 1))
        self.list.blockSignals(False)
        self._show_task()

    def _fill_item(
        self, item: QListWidgetItem, task: Task, description: TaskDescribed | None
    ) -> None:
        """Write two lines: the task's name, and its description or its problem."""
        line = _summary(task, description)
        item.setText(f"{plain(task.title)}\n{line}")
        item.setToolTip(
            tooltip(
                quoted(description.fault) if description is not None and description.fault else line
            )
        )
        item.setData(Qt.ItemDataRole.AccessibleTextRole, f"{plain(task.title)}, {line}")
        wrong = description is not None and bool(description.fault)
        item.setData(BAD, wrong)
        colour = expert_colour(self.session, self.session.results.scores.owner(task))
        if colour:
            square = swatch(colour)
        else:
            square = QIcon()
        item.setIcon(icon("error") if wrong else square)

    def _show_task(self) -> None:
        index = self.list.currentRow()
        if 0 <= index < len(self._rows):
            task, description = self._rows[index]
            owner = self.session.results.scores.owner(task)
            self.editor.show_task(task, description, owner, self.session.draft.inputs.names)

    def _remove(self) -> None:
        if 0 <= self.list.currentRow() < len(self._rows):
            self.scoring.remove(self.list.currentRow())

    def ask(self) -> None:
        """Ask for data, and add a task for each."""
        title = "Data: files, folders of pictures by class, or saved datasets"
        ask_paths(self, title, KINDS, DATA, self.scoring.add)

    def accepted(self, paths: list[Path]) -> list[Path]:
        models = [path for path in paths if (path / "config.json").exists()]
        return [p for p in paths if p.suffix.lower() not in _NOT_DATA and p not in models]

    def take(self, paths: list[Path]) -> None:
        self.scoring.add(paths)


def _summary(task: Task, described: TaskDescribed | None) -> str:
    if described is None:
        return "reading the data …"
    if described.fault:
        return quoted(described.fault.removeprefix(path_text(task.data)).lstrip(":, "))
    if described.kind is not None:
        kind = described.kind.value
    else:
        kind = ""
    return f"{kind} · {counted(described.count, 'example', 'examples')}"


_PADDING: Final = 7.0  # px above and below
_ICON: Final = 14  # px
_LEAST: Final = 120  # px: maximum width; longer lines are elided in the middle
BAD: Final = Qt.ItemDataRole.UserRole + 1
"""Whether the second line describes a problem."""


class TwoLineCell(Cell):
    """The first line of a text, the second line as a caption, and the item's icon at the left."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: ARG002
        height = line_height(Face.BUTTON) + line_height(Face.CAPTION) + 2 * _PADDING + 2
        return QSize(_LEAST, round(height))

    def draw(self, cell: Drawn) -> None:
        theme = current_theme()
        rect = cell.rect
        first, _, second = str(cell.index.data()).partition("\n")
        icon = cell.index.data(Qt.ItemDataRole.DecorationRole)
        if isinstance(icon, QIcon) and not icon.isNull():
            square = QRectF(rect.left(), rect.top() + _PADDING, _ICON, line_height(Face.BUTTON))
            icon.paint(cell.painter, square.toRect())
        rect = rect.adjusted(_ICON + 8, _PADDING, 0, -_PADDING)
        upper = QRectF(rect.left(), rect.top(), rect.width(), line_height(Face.BUTTON))
        lower = QRectF(rect.left(), upper.bottom() + 2, rect.width(), line_height(Face.CAPTION))
        write(cell.painter, upper, first, face(Face.BUTTON), theme.text)
        if cell.index.data(BAD):
            quiet = theme.bad
        else:
            quiet = cell.quiet
        write(cell.painter, lower, second, face(Face.CAPTION), quiet)


KINDS: Final = "Data (*.csv *.tsv *.json *.jsonl *.ndjson *.parquet *.txt *.npz);;All files (*)"
_NOTHING: Final = "none"
_MOST: Final = 10_000_000
_OFFERED: Final = 3  # experts whose labels fit the data
_PICTURE: Final = 64  # px
_MAX_CHARACTERS: Final = 280  # of a displayed text
_BESIDE: Final = 12
"""In text lines: below this width the button of the calibration inputs is below their path."""

_CALIBRATION: Final = (
    "Inputs for methods that learn or measure something. Do not use the data for scores. "
    "Only a few methods need labels."
)
_NAME: Final = Option(
    name="name",
    label="Name",
    empty="the name of the data",
    read=lambda text: text.strip() or None,
)
_LIMIT: Final = Option(
    name="limit",
    label="Examples",
    help="Maximum number of examples, chosen at random.",
    kind="int",
    default=0,
    low=0,
    high=_MOST,
    empty="all",
)
_LABELS: Final = Option(
    name="labels",
    label="Labels",
    help="The labels, in the order of the head.",
    empty="as in the head's config",
    read=lambda text: tuple(part for piece in text.split(",") if (part := piece.strip())),
    write=", ".join,
)
_PROMPT: Final = Option(
    name="prompt",
    label="Prompt",
    help="What the model is asked. {text}: the example's text; {choices}: its choices with "
    "letters; for CLIP, {} is the label.",
    kind="text",
    empty="the default for this kind of task",
)
_SYSTEM: Final = Option(
    name="system",
    label="System message",
    help="Precedes every prompt.",
    kind="text",
    empty=_NOTHING,
)
_CHAT: Final = Option(
    name="chat",
    label="Chat template",
    help="With “always”, a model without a template cannot be scored.",
    values={"if the model has one": Chat.AUTO, "always": Chat.ON, "never": Chat.OFF},
)


_BY_FIELD: Final = {option.name: option for option in (_LABELS, _PROMPT, _SYSTEM, _CHAT)}
"""The options of settings that only some kinds of tasks have."""


@dataclass(frozen=True, kw_only=True)
class _RoleColumn(Option):
    """The column of the data that has a ``role``. ``given``: the columns of every role."""

    role: str
    names_by_role: Mapping[str, Sequence[str]]

    def get(self, record: Task) -> object:
        return record.columns.get(self.role)

    def put(self, record: Task, value: Any) -> Task:
        """A copy with another column. Without one, the other roles are named: otherwise the column
        of this role would be guessed again."""
        columns = {**record.columns, self.role: value}
        if value is None:
            columns = {**{role: names[0] for role, names in self.names_by_role.items()}, **columns}
            del columns[self.role]
        return replace(record, columns=columns)


def _column(role: str, task: Task, described: TaskDescribed) -> _RoleColumn:
    column = task.columns.get(role, ())
    names = described.columns.get(role) or ((column,) if isinstance(column, str) else tuple(column))
    values: dict[str, Any] = {plain(name): name for name in described.table_columns}
    if len(names) > 1:
        values[", ".join(names)] = tuple(names)
    if role in described.optional or not names:
        values = {_NOTHING: None, **values}
    label = sentence_case(role)
    return _RoleColumn(
        name=_column_name(role),
        label=label,
        values=values,
        empty="guessed",
        role=role,
        names_by_role=described.columns,
    )


class TaskEditor(QWidget):
    """The form of a task. ``edited`` carries the changed Task; ``remove_wanted``: remove it."""

    edited = Signal(object)
    remove_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._task: Task | None = None
        self._description: TaskDescribed | None = None
        self.path = ElidedLabel()
        self.calibration = ElidedLabel()
        self.fault = problem_label()
        self._count = muted_label()
        name = "Remove this task"
        self.remove = push_button("Remove task", self.remove_wanted.emit, kind="ghost", name=name)
        self.data = Form()
        self.form = OptionForm(spoken="{} of the task")
        self.data.add_row("Data", self.path)
        self.data.add_row("Calibration", self._calibration_row(), _CALIBRATION)
        self.form.changed.connect(self.edited)
        self._examples = down(gap=10)
        head = across((heading("Task"), 1), self.remove)
        examples = heading("First examples"), self._count, self._examples
        self._fitting = down(gap=2)
        parts = (
            head,
            self.fault,
            self._fitting,
            down(self.data, self.form, gap=6),
            *examples,
            None,
        )
        self.setLayout(down(*parts, margins=(8, 6, 8, 8), gap=10))

    def _calibration_row(self) -> QWidget:
        """The row for calibration inputs: data for methods, apart from the evaluated data."""
        choose = named(QPushButton("Choose…"), "Choose calibration inputs", _CALIBRATION)
        choose.setProperty("kind", "link")
        menu = QMenu(choose)
        title = "Calibration inputs"
        take = self.calibrate
        ask = lambda: ask_paths(self, title, KINDS, DATA, take)  # noqa: E731
        menu.addAction("&File or folder…", ask)
        self.without = menu.addAction("&None", lambda: self.calibrate([None]))
        choose.setMenu(menu)
        return TitleLine(self.calibration, choose, lines=_BESIDE)

    def calibrate(self, paths: Sequence[Path | None]) -> None:
        """Use the first path as the task's calibration inputs."""
        if self._task is not None and self._task.calibration != paths[0]:
            self.edited.emit(replace(self._task, calibration=paths[0]))

    def show_task(
        self,
        task: Task,
        description: TaskDescribed | None,
        owner: str | None,
        experts: Sequence[str],
    ) -> None:
        waits = description is None and self._task is not None and task.data == self._task.data
        description = (
            self._description if waits else description
        )  # the layout stays while data are read again
        self._task = task
        self._description = description
        self.path.set_full_text(str(task.data))
        self.calibration.set_full_text(str(task.calibration or _NOTHING))
        self.without.setEnabled(task.calibration is not None)
        shown_task = description or TaskDescribed(task=task, kind=task.kind, metric=task.metric)
        columns = {
            role: names[0] if len(names) == 1 else names
            for role, names in shown_task.columns.items()
        }
        effective = replace(
            task,
            name=plain(task.title),
            expert=owner,
            kind=shown_task.kind,
            metric=shown_task.metric,
            columns={**task.columns, **columns},
        )
        defaults = Task(data=task.data)
        self.form.show_record(_options(task, shown_task, experts), task, defaults, effective)
        show_problem(self.fault, shown_task.fault)
        for name, control in self.form.fields.items():
            is_wrong = bool(shown_task.wrong) and name in _names_of(shown_task.wrong)
            mark_wrong(control.control, shown_task.fault if is_wrong else "", control.field.help)
        self._propose(shown_task.fitting)
        self._show_examples()

    def _propose(self, experts: Sequence[str]) -> None:
        """Offer the labels of the experts whose labels fit the data."""
        clear_layout(self._fitting)
        for name in experts[:_OFFERED]:
            use = partial(self._use_labels, name)
            button = push_button(f"Use the labels of {plain(name)}", use, kind="link")
            self._fitting.addWidget(pane(across(button, None)))

    def _use_labels(self, expert: str) -> None:
        if self._task is not None:
            self.edited.emit(replace(self._task, expert=expert, labels=()))

    def _show_examples(self) -> None:
        clear_layout(self._examples)
        description = self._description
        if description is None:
            self._count.setText("Reading the data …")
            return
        examples = counted(description.count, "example", "examples")
        self._count.setText(examples if description.count else "No example readable.")
        for example in description.examples:
            self._examples.addWidget(_example_row(example))


def _names_of(setting: str) -> tuple[str, str]:
    """The names that the form's field of a setting, or of a column's role, may have."""
    return setting, _column_name(setting)


def _column_name(role: str) -> str:
    return f"column of {role}"


def _options(task: Task, described: TaskDescribed, experts: Sequence[str]) -> Iterator[Option]:
    """The options of a task of this kind."""
    yield _NAME
    experts_by_name = {"no expert": None} | {name: name for name in experts}
    help = "The expert that was fine-tuned for this task."
    empty = "the expert with the task's name"
    yield Option(name="expert", label="Expert", help=help, values=experts_by_name, empty=empty)
    for name, label, values_known, chosen in (
        ("kind", "Kind", described.kinds, task.kind),
        ("metric", "Metric", described.metrics, task.metric),
    ):
        values = {value.value: value for value in (*values_known, chosen) if value is not None}
        if values:
            yield Option(name=name, label=label, values=values, empty="guessed")
    for role in (*described.roles, *described.optional):
        yield _column(role, task, described)
    yield _LIMIT
    if described.kind is not None:
        yield from (_BY_FIELD[name] for name in described.kind.traits.form_fields)


def _example_row(example: ShownExample) -> QWidget:
    row = across(gap=12)
    if example.picture is not None:
        picture = ExamplePicture(_PICTURE)
        picture.show_picture(example.picture, f"{example.row}: {example.label}")
        row.addWidget(picture)
    words = down(gap=2)
    for role, text in example.texts:
        if len(example.texts) > 1:
            line = f"{role}: {text}"
        else:
            line = text
        if len(line) < _MAX_CHARACTERS:
            short = line
        else:
            short = f"{line[:_MAX_CHARACTERS]}…"
        words.addWidget(plain_label(short))
    words.addWidget(plain_label(example.label, wrap=False, role=Face.STRONG))
    words.addWidget(muted_label(example.row))
    row.addLayout(words, 1)
    return pane(row)
