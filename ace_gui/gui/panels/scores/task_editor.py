"""One task as a form: guessed values are shown and can be changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import QLabel, QLineEdit, QMenu, QPlainTextEdit, QPushButton, QWidget

from ace_gui.engine.contract.scored import ShownExample, TaskDescribed
from ace_gui.formatting import counted
from ace_gui.gui.panels.job_page import problem_label, show_problem
from ace_gui.gui.panels.scores.example_cells import ExamplePicture
from ace_gui.gui.text import plain, sentence_case
from ace_gui.gui.theme import Face, face
from ace_gui.gui.widgets.controls import Choice, count_field, named, push_button
from ace_gui.gui.widgets.file_dialogs import DATA, ask_paths
from ace_gui.gui.widgets.form import Form
from ace_gui.gui.widgets.labels import ElidedLabel, heading, muted_label, plain_label
from ace_gui.gui.widgets.layout import across, clear_layout, down, on_font_change, pane
from ace_gui.recipe.values import Chat, Task, TaskKind

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
        self._middle, self._examples = down(Form(())), down(gap=10)
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
            form, self.columns = Form(()), {}
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
    form = Form(())
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
    label = QLabel(plain(example.label))
    label.setFont(face(Face.STRONG))
    words.addWidget(label)
    words.addWidget(muted_label(example.row))
    row.addLayout(words, 1)
    return pane(row)
