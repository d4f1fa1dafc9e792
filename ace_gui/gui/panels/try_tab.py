"""The Try it tab with a text or a picture, and the answers of base, expert and merge."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from PySide6.QtCore import QSignalBlocker, Qt, QTimer
from PySide6.QtGui import QImage, QImageReader
from PySide6.QtWidgets import QLabel, QLineEdit, QPlainTextEdit, QWidget

from ace_gui.engine.contract.jobs import TryJob
from ace_gui.engine.contract.scored import BASE, ShownExample
from ace_gui.gui.control.operations import ModelAnswer
from ace_gui.gui.control.scoring import Scoring
from ace_gui.gui.models.list_models import expert_colour
from ace_gui.gui.panels.job_page import (
    MARGINS,
    ExamplePicture,
    JobPage,
    MergeChoice,
    Pages,
    RunButton,
    image_of,
    problem_label,
    show_problem,
)
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, sentence_case
from ace_gui.gui.widgets.controls import (
    Choice,
    amount_field,
    count_field,
    named,
    push_button,
    read_only,
)
from ace_gui.gui.widgets.file_dialogs import DATA, ask_files
from ace_gui.gui.widgets.labels import Bar, ElidedLabel, NamedBars, Swatch, heading, muted_label
from ace_gui.gui.widgets.layout import GAP, across, card, down, on_font_change, pane
from ace_gui.recipe.task_kinds import TaskKind
from ace_gui.recipe.values import Task

REFRESH: Final = 40  # ms between updates of generated text
KINDS: Final = "Pictures (*.png *.jpg *.jpeg *.webp *.bmp *.gif *.tif *.tiff *.ppm *.pgm)"
_SIDE: Final = 128  # px
LENGTH: Final = 120  # tokens


class _Given(NamedTuple):
    """An input that is not typed: an example of a task, or a picture file."""

    row: str = ""
    picture: Path | None = None


class TryTab(JobPage):
    """The tab that tries an input with the head of one task or one expert."""

    def __init__(self, session: Session, scoring: Scoring, pages: Pages) -> None:
        super().__init__(session, scoring, pages)
        self._trying = scoring.trying
        self._given = _Given()
        self.setAcceptDrops(True)
        self.task = Choice("Task", {"": ("–", "")})
        self.merge = MergeChoice(session, "Merge to try")
        text = QPlainTextEdit(placeholderText="Type a text", tabChangesFocus=True)
        self.text = named(text, "Text to try")
        pair = QLineEdit(placeholderText="Second text")
        self.pair = named(pair, "Second text, if the task has two")
        self.picture = ExamplePicture(_SIDE)
        self.hint = muted_label("Drop a picture here.")
        self.choose = push_button("Choose picture…", self._ask_picture, name="Choose a picture")
        self.seed = count_field("Random seed, the same for every model", 2**31 - 1)
        name = "Temperature; 0: always the likeliest token"
        self.temperature = amount_field(name, 0.0, 2.0, 0.0, decimals=2)
        self.temperature.setSingleStep(0.1)
        name = "Maximum length of the answer, in tokens"
        self.length = count_field(name, 4096, least=1, value=LENGTH)
        self.button = RunButton("Try", self._start, self._trying.stop, name="Try it on the models")
        tip = "Forget this conversation; the next text begins another"
        self.new_chat = push_button("New chat", self._trying.forget, kind="link", tip=tip)
        self.problem = problem_label()
        self.cards = [AnswerCard(role) for role in ("base", "expert", "merge")]
        self._settings: list[QWidget] = []
        titles = {"&Temperature": self.temperature, "&Seed": self.seed, "&Length": self.length}
        for title, box in titles.items():
            label = QLabel(title)
            label.setBuddy(box)
            self._settings += [label, box]
        self._lay_out()
        self._connect()

    def _lay_out(self) -> None:
        chosen = muted_label("As"), self.task, self.merge
        head = across(*chosen, None, *self._settings, self.new_chat, self.button)
        pictures = down(self.hint, across(self.choose, None), None)
        texts = down((self.text, 1), self.pair)
        given = across(self.picture, pictures, (texts, 1), gap=12)
        top = pane(down(head, given, self.problem, margins=MARGINS))
        on_font_change(self, lambda metrics: top.setMaximumHeight(15 * metrics.height()))
        answers = across(*((card(each), 1) for each in self.cards), gap=GAP)
        self.set_pages(pane(down(card(top), (answers, 1), gap=GAP)))

    def _connect(self) -> None:
        results, answers = self.session.results, QTimer(self, singleShot=True, interval=REFRESH)
        answers.timeout.connect(self.show_answers)
        self._trying.changed.connect(lambda: answers.isActive() or answers.start())
        self.follow(self.session.draft.changed, results.changed)
        self.follow(results.runs.changed, results.scores.changed, self.session.activity.changed)
        self.merge.chosen.connect(self.show_answers)
        for changed in (self.task.chosen, self.text.textChanged):
            changed.connect(lambda: self._give(_Given()))

    @property
    def _tasks(self) -> dict[str, Task]:
        """The recipe's tasks, and the experts without a task."""
        inputs, known = self.session.draft.inputs, self.session.results.scores
        tasks = {task.title: task for task in inputs.tasks}
        owned = {known.owner(task) for task in inputs.tasks}
        for name in inputs.names:
            if name not in owned and name not in tasks:
                tasks[name] = Task(data=Path(name), name=name, expert=name)
        return tasks

    @property
    def chosen(self) -> Task | None:
        """The task whose head answers."""
        return self._tasks.get(self.task.current)

    @property
    def kind(self) -> TaskKind | None:
        """The kind of the chosen task, from the expert's class until its data are read; None if
        unknown."""
        if self.chosen is None:
            return None
        description = self.session.results.scores.described(self.chosen)
        known = description.kind if description is not None else self.chosen.kind
        plan = self.session.draft.plan
        if known is not None or plan is None:
            return known
        owner = self.session.results.scores.owner(self.chosen)
        experts = (each.architecture for each in plan.experts if each.name == owner)
        name = next(experts, plan.base.architecture)
        return next((kind for kind in TaskKind if kind.does(name)), None)

    def try_example(self, example: ShownExample, task: str) -> None:
        self.refresh()
        with QSignalBlocker(self.task):
            self.task.choose(task)
        self.refresh()
        texts = dict(example.texts)
        with QSignalBlocker(self.text):
            self.text.setPlainText(plain(next(iter(texts.values()), "")))
        self.pair.setText(plain(texts.get("pair", "")))
        picture = None if example.picture is None else image_of(example.picture)
        self._give(_Given(row=example.row), picture, f"{task}, {example.row}")
        self._start()

    def _give(self, given: _Given, picture: QImage | None = None, words: str = "") -> None:
        """Use an example or a picture until the user types text or chooses another task."""
        self._given = given
        self.picture.show_image(picture, words)
        self.refresh()

    def take_picture(self, path: Path) -> None:
        reader = QImageReader(str(path))
        reader.setAutoTransform(True)
        size = reader.size()
        if size.isValid():
            reader.setScaledSize(size.scaled(_SIDE, _SIDE, Qt.AspectRatioMode.KeepAspectRatio))
        self._give(_Given(picture=path), reader.read(), path.name)
        self._start()

    def _ask_picture(self) -> None:
        ask_files(self, "Picture", KINDS, DATA, lambda chosen: self.take_picture(chosen[0]))

    @property
    def _obstacle(self) -> str:
        if self._trying.obstacle:
            return self._trying.obstacle
        if self.chosen is None:
            return "Add an expert first."
        needs_text = self.kind is None or not self.kind.has_pictures
        if self._given != _Given() or (needs_text and self.text.toPlainText().strip()):
            return ""
        return "Type a text first." if needs_text else "Drop or choose a picture first."

    def _start(self) -> None:
        task = self.chosen
        if task is None or self._obstacle:
            return
        job = TryJob(
            recipe=self.session.draft.inputs.recipe(),
            stores=(Path(self.merge.current),) if self.merge.current else (),
            device=self.session.device,
            task=task,
            row=self._given.row,
            picture=self._given.picture,
            text=self.text.toPlainText(),
            pair=self.pair.text() if self.pair.isVisibleTo(self) else "",
            seed=self.seed.value(),
            temperature=self.temperature.value(),
            most_tokens=self.length.value(),
        )
        self._trying.start(job)

    def refresh(self) -> None:
        tasks = {title: (plain(title), "") for title in self._tasks}
        self.task.offer(tasks or {"": ("–", "")})
        self.merge.update_merges()
        kind = self.kind
        self.text.setVisible(kind is None or not kind.has_pictures)
        self.hint.setVisible(kind is None or kind.has_pictures)
        self.choose.setVisible(kind is None or kind.has_pictures)
        found = None if self.chosen is None else self.session.results.scores.described(self.chosen)
        self.pair.setVisible(found is not None and "pair" in found.columns)
        for widget in self._settings:
            widget.setVisible(kind is None or kind.traits.writes)
        self.show_answers()

    def show_answers(self) -> None:
        trying = self._trying
        known, task = self.session.results.scores, self.chosen
        owner = known.owner(task) if task is not None else None
        colour = expert_colour(self.session, owner)
        models = (
            (BASE, "", "base"),
            (owner or "", owner or "", colour),
            (self.merge.current, self.merge.currentText(), "merged"),
        )
        for each, (key, name, hue) in zip(self.cards, models, strict=True):
            answer: ModelAnswer | None = trying.by_model.get(key) if key else None
            each.show_answer(answer, name, hue)
        show_problem(self.problem, trying.error)
        running = trying.is_running
        self.new_chat.setVisible(bool(trying.questions) and not running)
        self.button.show_job(running, self._obstacle, tip="Text so far stays" if running else "")

    def wanted(self, paths: list[Path]) -> list[Path]:
        return [path for path in paths if path.suffix and f"*{path.suffix.lower()}" in KINDS][:1]

    def take(self, paths: list[Path]) -> None:
        self.take_picture(paths[0])


MOST: Final = 6
"""Maximum number of displayed labels."""


class AnswerCard(QWidget):
    """The answer of one model. ``role``: base, expert or merge."""

    def __init__(self, role: str) -> None:
        super().__init__()
        self.swatch, self.title, self.bars = Swatch(), ElidedLabel(), NamedBars()
        self.text = read_only(f"Answer of the model: {role}")
        self.state, self.error = muted_label(), problem_label()
        head = across(self.swatch, heading(sentence_case(role)), (self.title, 1))
        parts = (head, self.state, self.error, self.bars, (self.text, 1), None)
        self.setLayout(down(*parts, margins=(8, 6, 8, 8)))
        self.show_answer(None, "", "")

    def show_answer(self, answer: ModelAnswer | None, name: str, colour: str) -> None:
        """Show the answer of the model ``name``, None if there is none yet."""
        self.title.set_full_text(name)
        self.swatch.show_colour(colour)
        shares = () if answer is None else answer.shares
        text = "" if answer is None else answer.earlier + answer.text
        self.bars.setVisible(bool(shares))
        likeliest = enumerate(shares[:MOST])
        bars = [Bar(s[0], s[1], f"{100 * s[1]:.1f} %", strong=n == 0) for n, s in likeliest]
        self.bars.show_bars(bars, colour)
        self.text.setVisible(bool(text))
        self._write(plain(text))
        show_problem(self.error, "" if answer is None else answer.error)
        writes = answer is not None and bool(answer.text)
        self.state.setText("writing …" if writes else "loading the model …")
        self.state.setVisible(answer is not None and not answer.is_done)

    def _write(self, text: str) -> None:
        """Append only new text, so that selection and scroll position stay."""
        shown = self.text.toPlainText()
        if shown and text.startswith(shown):
            self.text.moveCursor(self.text.textCursor().MoveOperation.End)
            self.text.insertPlainText(text[len(shown) :])
        elif text != shown:
            self.text.setPlainText(text)
