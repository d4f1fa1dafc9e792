"""The Tasks tab: data dropped or added, how they are read, their problems, and a form for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from PySide6.QtCore import QRectF, QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QFocusEvent, QIcon, QKeySequence
from PySide6.QtWidgets import (
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QMenu,
    QPlainTextEdit,
    QPushButton,
    QStyleOptionViewItem,
    QWidget,
)

from ace_gui.engine.contract.scored import ShownExample, TaskDescribed
from ace_gui.formatting import counted, path_text
from ace_gui.gui.control.scoring import Scoring
from ace_gui.gui.models.list_models import expert_colour
from ace_gui.gui.panels.job_page import (
    MARGINS,
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
from ace_gui.gui.widgets.controls import Choice, count_field, named, push_button, widget_action
from ace_gui.gui.widgets.file_dialogs import DATA, ask_paths
from ace_gui.gui.widgets.form import Form
from ace_gui.gui.widgets.labels import ElidedLabel, EmptyState, heading, muted_label, plain_label
from ace_gui.gui.widgets.layout import (
    GAP,
    across,
    card,
    clear_layout,
    down,
    on_font_change,
    pane,
    scroll_area,
    split,
)
from ace_gui.recipe.values import Chat, Task, TaskKind

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
        left = card(pane(down(head, (self.list, 1), note, margins=MARGINS)))
        right = card(scroll_area("The chosen task", self.editor))
        self.set_pages(card(self.empty), split(left, right, sizes=(360, 640), gap=GAP))
        self.follow(session.draft.changed, session.results.scores.changed)
        self.refresh()

    def _add_button(self, text: str, kind: str) -> QPushButton:
        tip, name = "Add a task: a file of data, or a folder", "Add data"
        return push_button(text, self.ask, kind=kind, tip=tip, name=name, role=Face.BUTTON)

    def refresh(self) -> None:
        scores, tasks = self.session.results.scores, self.session.draft.inputs.tasks
        self.show_page(int(bool(tasks)))
        rows = tuple((task, scores.described(task)) for task in tasks)
        if rows == self._rows and self.list.count() == len(rows):
            return
        added = 0 < len(self._rows) < len(rows)
        chosen = len(rows) - 1 if added else self.list.currentRow()
        self._rows = rows
        self.list.blockSignals(True)
        while self.list.count() > len(rows):
            self.list.takeItem(self.list.count() - 1)
        while self.list.count() < len(rows):
            self.list.addItem(QListWidgetItem())
        for index, (task, found) in enumerate(rows):
            self._fill_item(self.list.item(index), task, found)
        self.list.setCurrentRow(min(max(chosen, 0), len(rows) - 1))
        self.list.blockSignals(False)
        self._show_task()

    def _fill_item(self, item: QListWidgetItem, task: Task, found: TaskDescribed | None) -> None:
        """Two lines: the name, and the description or the problem."""
        line = _summary(task, found)
        item.setText(f"{plain(task.title)}\n{line}")
        item.setToolTip(tooltip(quoted(found.fault) if found is not None and found.fault else line))
        item.setData(Qt.ItemDataRole.AccessibleTextRole, f"{plain(task.title)}, {line}")
        wrong = found is not None and bool(found.fault)
        item.setData(BAD, wrong)
        colour = expert_colour(self.session, self.session.results.scores.owner(task))
        square = swatch(colour) if colour else QIcon()
        item.setIcon(icon("error") if wrong else square)

    def _show_task(self) -> None:
        index = self.list.currentRow()
        if 0 <= index < len(self._rows):
            task, found = self._rows[index]
            owner = self.session.results.scores.owner(task)
            self.editor.show_task(task, found, owner, self.session.draft.inputs.names)

    def _remove(self) -> None:
        if 0 <= self.list.currentRow() < len(self._rows):
            self.scoring.remove(self.list.currentRow())

    def ask(self) -> None:
        """Ask for data, and add a task for each."""
        title = "Data: files, folders of pictures by class, or saved datasets"
        ask_paths(self, title, KINDS, DATA, self.scoring.add)

    def wanted(self, paths: list[Path]) -> list[Path]:
        models = [path for path in paths if (path / "config.json").exists()]
        return [p for p in paths if p.suffix.lower() not in _NOT_DATA and p not in models]

    def take(self, paths: list[Path]) -> None:
        self.scoring.add(paths)


def _summary(task: Task, found: TaskDescribed | None) -> str:
    if found is None:
        return "reading the data …"
    if found.fault:
        return quoted(found.fault.removeprefix(path_text(task.data)).lstrip(":, "))
    kind = found.kind.value if found.kind is not None else ""
    return f"{kind} · {counted(found.count, 'example', 'examples')}"


_PADDING: Final = 7.0  # px above and below
_ICON: Final = 14  # px
_LEAST: Final = 120  # px: maximum width; longer lines are elided in the middle
BAD: Final = Qt.ItemDataRole.UserRole + 1
"""Whether the second line describes a problem."""


class TwoLineCell(Cell):
    """The text's first line, and the second as a caption; the item's icon at the left."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: ARG002
        height = line_height(Face.BUTTON) + line_height(Face.CAPTION) + 2 * _PADDING + 2
        return QSize(_LEAST, round(height))

    def draw(self, cell: Drawn) -> None:
        theme, rect = current_theme(), cell.rect
        first, _, second = str(cell.index.data()).partition("\n")
        icon = cell.index.data(Qt.ItemDataRole.DecorationRole)
        if isinstance(icon, QIcon) and not icon.isNull():
            square = QRectF(rect.left(), rect.top() + _PADDING, _ICON, line_height(Face.BUTTON))
            icon.paint(cell.painter, square.toRect())
        rect = rect.adjusted(_ICON + 8, _PADDING, 0, -_PADDING)
        upper = QRectF(rect.left(), rect.top(), rect.width(), line_height(Face.BUTTON))
        lower = QRectF(rect.left(), upper.bottom() + 2, rect.width(), line_height(Face.CAPTION))
        write(cell.painter, upper, first, face(Face.BUTTON), theme.text)
        quiet = theme.bad if cell.index.data(BAD) else cell.quiet
        write(cell.painter, lower, second, face(Face.CAPTION), quiet)


KINDS: Final = "Data (*.csv *.tsv *.json *.jsonl *.ndjson *.parquet *.txt *.npz);;All files (*)"
_NOTHING: Final = "none"
_MOST: Final = 10_000_000
_PICTURE: Final = 64  # px
_MAX_CHARACTERS: Final = 280  # of a displayed text
_LABELLED: Final = (TaskKind.IMAGE_CLASSIFICATION, TaskKind.TEXT_CLASSIFICATION)
_LANGUAGE: Final = (TaskKind.CAUSAL_LM, TaskKind.MULTIPLE_CHOICE, TaskKind.TEXT_TO_TEXT)
_CHATS: Final = {
    Chat.AUTO: ("if the model has a template", ""),
    Chat.ON: ("always", "A model without a template cannot be scored"),
    Chat.OFF: ("never", ""),
}
_CALIBRATION: Final = (
    "Inputs for methods that learn or measure something. Do not use the scored data. Only "
    "a few methods need labels."
)
_PROMPT: Final = (
    "What the model is asked: {text} is the example's text, {choices} its lettered choices; for "
    "CLIP, {} is the label. Empty: the usual prompt of the kind."
)


class TaskEditor(QWidget):
    """``edited`` carries the changed Task; ``remove_wanted``: the user removes it."""

    edited = Signal(object)
    remove_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._task: Task | None = None
        self._found: TaskDescribed | None = None
        self.name = named(QLineEdit(), "Name of the task")
        self.path, self.calibration = ElidedLabel(), ElidedLabel()
        self.expert = self._choice("Expert of the task", "expert")
        self.kind = self._choice("Kind of task", "kind")
        self.measure = self._choice("Metric", "metric")
        name = "Maximum number of examples, chosen at random"
        self.limit = count_field(name, _MOST, special="all")
        self.limit.setKeyboardTracking(False)
        labels = QLineEdit(placeholderText="as in the head's config")
        self.labels = named(labels, "Labels, in the head's order")
        self.prompt = named(_Lines("as usual for this kind of task"), "Prompt", _PROMPT)
        self.system = named(_Lines(_NOTHING), "System message", "Precedes every prompt.")
        self.chat = self._choice("Chat template", "chat")
        self.chat.offer(_CHATS)
        self.fault, self._count = problem_label(), muted_label()
        name = "Remove this task"
        self.remove = push_button("Remove task", self.remove_wanted.emit, kind="ghost", name=name)
        self.columns: dict[str, Choice] = {}
        self._middle, self._examples = down(Form()), down(gap=10)
        self._lay_out()
        self.name.editingFinished.connect(self._rename)
        self.labels.editingFinished.connect(self._relabel)
        self.limit.valueChanged.connect(lambda value: self._change("limit", value or None))
        self.prompt.edited.connect(lambda text: self._change("prompt", text or None))
        self.system.edited.connect(lambda text: self._change("system", text or None))

    def _choice(self, name: str, field: str) -> Choice:
        """A choice of one of the task's fields."""
        box = Choice(name, {})
        box.setSizeAdjustPolicy(Choice.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        box.setMinimumContentsLength(10)
        if field:
            box.chosen.connect(lambda: self._change(field, box.current))
        return box

    def _lay_out(self) -> None:
        above = _form(
            {
                "Name": self.name,
                "Data": self.path,
                "Calibration": self._calibration_row(),
                "Expert": self.expert,
                "Kind": self.kind,
                "Metric": self.measure,
            }
        )
        self._below = _form(
            {
                "Examples": self.limit,
                "Labels": self.labels,
                "Prompt": self.prompt,
                "System message": self.system,
                "Chat template": self.chat,
            }
        )
        head = across((heading("Task"), 1), self.remove)
        forms = down(above, self._middle, self._below, gap=6)
        examples = heading("First examples")
        parts = (head, self.fault, forms, examples, self._count, self._examples, None)
        self.setLayout(down(*parts, margins=(8, 6, 8, 8), gap=10))

    def _calibration_row(self) -> QWidget:
        """Inputs for methods that need data, separate from the evaluated ones."""
        choose = named(QPushButton("Choose…"), "Choose calibration inputs", _CALIBRATION)
        choose.setProperty("kind", "link")
        menu = QMenu(choose)
        title, take = "Calibration inputs", self.calibrate
        ask = lambda: ask_paths(self, title, KINDS, DATA, take)  # noqa: E731
        menu.addAction("&File or folder…", ask)
        self.without = menu.addAction("&None", lambda: self._change("calibration", None))
        choose.setMenu(menu)
        return pane(across((self.calibration, 1), choose))

    def calibrate(self, chosen: list[Path]) -> None:
        """Take the first of these as the task's calibration inputs."""
        self._change("calibration", chosen[0])

    def show_task(
        self, task: Task, found: TaskDescribed | None, owner: str | None, experts: Sequence[str]
    ) -> None:
        same = task == self._task and found == self._found
        waits = found is None and self._task is not None and task.data == self._task.data
        found = self._found if waits else found  # keeps the layout still while data are read again
        self._task, self._found = task, found
        if not self.name.hasFocus() or not same:
            self.name.setText(plain(task.title))
        self.path.set_full_text(str(task.data))
        self.calibration.set_full_text(str(task.calibration or _NOTHING))
        self.without.setEnabled(task.calibration is not None)
        _offer(self.expert, {None: "of no expert"} | {name: name for name in experts}, owner)
        kind, metric = (found.kind, found.metric) if found else (task.kind, task.metric)
        kinds, metrics = (found.kinds, found.metrics) if found else ((), ())
        _offer(self.kind, _titles(kinds, task.kind), kind)
        self.kind.setToolTip(f"The kind of task; {'guessed' if task.kind is None else 'as set'}.")
        _offer(self.measure, _titles(metrics, task.metric), metric)
        with QSignalBlocker(self.limit), QSignalBlocker(self.chat):
            self.limit.setValue(task.limit or 0)
            self.chat.choose(task.chat)
        self.labels.setText(", ".join(task.labels))
        self.prompt.show_text(task.prompt or "")
        self.system.show_text(task.system or "")
        self._below.show_row(self.labels, kind in _LABELLED)
        self._below.show_row(self.prompt, kind in (*_LANGUAGE, TaskKind.CLIP_ZERO_SHOT))
        for widget in (self.system, self.chat):
            self._below.show_row(widget, kind in _LANGUAGE)
        show_problem(self.fault, found.fault if found is not None else "")
        self._show_columns()
        self._show_examples()

    def _show_columns(self) -> None:
        """One field per role. Existing fields stay, and keep their focus."""
        found = self._found
        roles = (*found.roles, *found.optional) if found is not None else ()
        if tuple(self.columns) != roles:
            clear_layout(self._middle)
            form, self.columns = Form(), {}
            for role in roles:
                box = self.columns[role] = self._choice(f"Column: {role}", "")
                box.chosen.connect(lambda r=role: self._change_column(r))
                form.add_row(sentence_case(role), box)
            self._middle.addWidget(form)
        if found is None:
            return
        for role, box in self.columns.items():
            given = () if self._task is None else self._task.columns.get(role, ())
            own = found.columns.get(role) or ((given,) if isinstance(given, str) else tuple(given))
            options: dict[Any, str] = {name: plain(name) for name in found.table_columns}
            if len(own) > 1:
                options[tuple(own)] = ", ".join(own)
            if role in found.optional or not own:
                options = {None: _NOTHING, **options}
            _offer(box, options, tuple(own) if len(own) > 1 else own[0] if own else None)

    def _show_examples(self) -> None:
        clear_layout(self._examples)
        found = self._found
        if found is None:
            self._count.setText("Reading the data …")
            return
        examples = counted(found.count, "example", "examples")
        self._count.setText(examples if found.count else "No example readable.")
        for example in found.examples:
            self._examples.addWidget(_example_row(example))

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
        chosen = self.columns[role].current
        columns = {**self._task.columns, role: chosen}
        if chosen is None:
            known = {name: given[0] for name, given in self._found.columns.items()}
            columns = {**known, **self._task.columns}
            columns.pop(role, None)
        self._change("columns", columns)


class _Lines(QPlainTextEdit):
    """A few lines of text. ``edited`` carries them when the user leaves the field."""

    edited = Signal(str)

    def __init__(self, hint: str) -> None:
        super().__init__(placeholderText=hint, tabChangesFocus=True)
        on_font_change(self, lambda metrics: self.setFixedHeight(3 * metrics.lineSpacing() + 12))

    def show_text(self, text: str) -> None:
        """Show another text, unless the user is typing."""
        if not (self.hasFocus() and self.document().isModified()) and text != self.toPlainText():
            self.setPlainText(text)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        if self.document().isModified():
            self.document().setModified(False)
            self.edited.emit(self.toPlainText().strip())


def _form(rows: Mapping[str, QWidget]) -> Form:
    form = Form()
    for title, field in rows.items():
        form.add_row(title, field, field.toolTip())
    return form


def _titles(known: Sequence[Any], own: Any) -> dict[Any, str]:
    """What can be chosen, with what is set."""
    return {each: each.value for each in (*known, own) if each is not None}


def _offer(box: Choice, options: Mapping[Any, str], chosen: Any) -> None:
    """Offer these titles by their values, and choose one, without a signal."""
    known = dict(options) if chosen in options else {chosen: "", **options}
    with QSignalBlocker(box):
        box.offer({value: (title, "") for value, title in known.items()})
        box.choose(chosen)
    box.setEnabled(bool(options))


def _example_row(example: ShownExample) -> QWidget:
    row = across(gap=12)
    if example.picture is not None:
        picture = ExamplePicture(_PICTURE)
        picture.show_picture(example.picture, f"{example.row}: {example.label}")
        row.addWidget(picture)
    words = down(gap=2)
    for role, text in example.texts:
        line = f"{role}: {text}" if len(example.texts) > 1 else text
        short = line if len(line) < _MAX_CHARACTERS else f"{line[:_MAX_CHARACTERS]}…"
        words.addWidget(plain_label(short))
    words.addWidget(plain_label(example.label, wrap=False, role=Face.STRONG))
    words.addWidget(muted_label(example.row))
    row.addLayout(words, 1)
    return pane(row)
