"""The page on which base, experts and merges answer the same question."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final, NamedTuple

from PySide6.QtCore import QEvent, QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QImage, QImageReader, QKeyEvent, QShowEvent
from PySide6.QtWidgets import QCheckBox, QLabel, QLineEdit, QPlainTextEdit, QWidget

from ace_gui.engine.contract.jobs import TryJob
from ace_gui.engine.contract.plan import Plan
from ace_gui.engine.contract.scored import BASE, ShownExample
from ace_gui.gui.control.operations import ModelAnswer
from ace_gui.gui.control.scoring import Scoring
from ace_gui.gui.models.list_models import expert_colour
from ace_gui.gui.panels.answer_cards import (
    NOT_ASKED,
    AnswerCard,
    AskedModel,
    ModelChoices,
    experts_at_first,
)
from ace_gui.gui.panels.job_page import (
    MARGINS,
    ExamplePicture,
    JobPage,
    Pages,
    RunButton,
    image_of,
    merges_of,
    problem_label,
    show_problem,
)
from ace_gui.gui.state.blind_choices import BlindChoices
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain
from ace_gui.gui.widgets.controls import Choice, amount_field, count_field, named, push_button
from ace_gui.gui.widgets.file_dialogs import DATA, ask_files
from ace_gui.gui.widgets.labels import muted_label, plain_label
from ace_gui.gui.widgets.layout import GAP, across, card, clear_layout, down, on_font_change, pane
from ace_gui.recipe.task_kinds import TaskKind, kind_of_class
from ace_gui.recipe.values import Task

REFRESH: Final = 40  # ms between updates of generated text
KINDS: Final = "Pictures (*.png *.jpg *.jpeg *.webp *.bmp *.gif *.tif *.tiff *.ppm *.pgm)"
_SIDE: Final = 128  # px
LENGTH: Final = 120  # tokens
_TEXT: Final = "Type a text"
_QUESTION: Final = "Type a question: every ticked model answers it, beside the others"
_LOCAL: Final = "Nothing leaves this computer. Ctrl+Return sends."
_TURN: Final = "Waits for its turn."
_UNTIL_ALL: Final = "Comes with the others."
_BLIND: Final = (
    "Hides the names and mixes the order until you choose the best answer; the choices are counted."
)


class _Given(NamedTuple):
    """An input that is not typed: an example of a task, or a picture file."""

    row: str = ""
    picture: Path | None = None


class QuestionField(QPlainTextEdit):
    """Several lines of text. ``sent``: Ctrl+Return was pressed, whatever it does elsewhere."""

    sent = Signal()

    def __init__(self, hint: str) -> None:
        super().__init__(placeholderText=hint, tabChangesFocus=True)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ShortcutOverride and _sends(event):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if _sends(event):
            self.sent.emit()
        else:
            super().keyPressEvent(event)


def _sends(event: QEvent) -> bool:
    if not isinstance(event, QKeyEvent):
        return False
    is_return = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
    return is_return and bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)


class TryPage(JobPage):
    """Asks the chosen models, with the head of one task or one expert."""

    def __init__(self, session: Session, scoring: Scoring, pages: Pages) -> None:
        super().__init__(session, scoring, pages)
        self._trying = scoring.trying
        self._input = _Given()
        self._choices = BlindChoices()
        self._order: list[str] = []
        """The keys of the models of a blind comparison, as their answers are shown."""

        self.cards: list[AnswerCard] = []
        self.setAcceptDrops(True)
        self.task = Choice("Task", {"": ("–", "")})
        self.models = ModelChoices()
        self.why_not_all = muted_label()
        self.text = named(QuestionField(_TEXT), "Text to try")
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
        self.button = RunButton("Send", self._start, self._trying.stop, name="Ask the models")
        tip = "Forget this conversation; the next text begins another"
        self.new_chat = push_button("New conversation", self._forget, kind="link", tip=tip)
        tip = "Ask the latest question once more"
        self.again = push_button("Again", self._trying.again, kind="link", tip=tip)
        self.blind = QCheckBox("Blind: hide the names")
        self.blind.setToolTip(_BLIND)
        self.verdict = plain_label(kind="secondary")
        self.problem = problem_label()
        self._settings: list[QWidget] = []
        titles = {"&Temperature": self.temperature, "&Seed": self.seed, "&Length": self.length}
        for title, box in titles.items():
            label = QLabel(title)
            label.setBuddy(box)
            self._settings += [label, box]
        self._lay_out()
        self._connect()

    def _lay_out(self) -> None:
        self._as = muted_label("As")
        choices = across(muted_label("Same question to"), (self.models, 1), gap=12)
        settings = across(self._as, self.task, None, *self._settings)
        top = pane(down(choices, self.why_not_all, settings, margins=MARGINS))
        self._row = across(gap=GAP)
        answers = pane(self._row)
        pictures = down(self.hint, across(self.choose, None), None)
        texts = down((self.text, 1), self.pair)
        inputs = across(self.picture, pictures, (texts, 1), gap=12)
        actions = across(
            (muted_label(_LOCAL), 1), self.new_chat, self.again, self.blind, self.button, gap=12
        )
        bottom = pane(down(inputs, self.problem, self.verdict, actions, margins=MARGINS))
        on_font_change(self, lambda metrics: bottom.setMaximumHeight(13 * metrics.height()))
        self.set_pages(pane(down(card(top), (answers, 1), card(bottom), gap=GAP)))

    def _connect(self) -> None:
        results = self.session.results
        answers = QTimer(self, singleShot=True, interval=REFRESH)
        answers.timeout.connect(self.show_answers)
        self._trying.changed.connect(lambda: answers.isActive() or answers.start())
        self.follow(self.session.draft.changed, results.changed)
        self.follow(results.runs.changed, results.scores.changed, self.session.activity.changed)
        self.models.changed.connect(self._show_models)
        self.blind.toggled.connect(self._set_blind)
        for changed in (self.task.chosen, self.text.textChanged):
            changed.connect(lambda: self._give(_Given()))
        self.text.sent.connect(self._start)

    @property
    def _tasks(self) -> dict[str, Task]:
        """The recipe's tasks, and the experts without a task."""
        inputs = self.session.draft.inputs
        scores = self.session.results.scores
        tasks = {task.title: task for task in inputs.tasks}
        owned = {scores.owner(task) for task in inputs.tasks}
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
        if description is not None:
            task_kind = description.kind
        else:
            task_kind = self.chosen.kind
        plan = self.session.draft.plan
        if task_kind is not None or plan is None:
            return task_kind
        owner = self.session.results.scores.owner(self.chosen)
        names = [expert.architecture for expert in plan.experts if expert.name == owner]
        for name in (*names, plan.base.architecture):  # an adapter has the class of the base
            kind = kind_of_class(name)
            if kind is not None:
                return kind
        return None

    def try_example(self, example: ShownExample, task: str) -> None:
        self.refresh()
        with QSignalBlocker(self.task):
            self.task.choose(task)
        self.refresh()
        texts = dict(example.texts)
        with QSignalBlocker(self.text):
            self.text.setPlainText(plain(next(iter(texts.values()), "")))
        self.pair.setText(plain(texts.get("pair", "")))
        if example.picture is None:
            picture = None
        else:
            picture = image_of(example.picture)
        self._give(_Given(row=example.row), picture, f"{task}, {example.row}")
        self._start()

    def _give(self, inputs: _Given, picture: QImage | None = None, words: str = "") -> None:
        """Use an example or a picture until the user types text or chooses another task."""
        self._input = inputs
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
        if not self.models.chosen:
            return "Tick a model first."
        needs_text = self.kind is None or not self.kind.has_pictures
        if self._input != _Given() or (needs_text and self.text.toPlainText().strip()):
            return ""
        if needs_text:
            return "Type a text first."
        return "Drop or choose a picture first."

    def _start(self) -> None:
        task = self.chosen
        if task is None or self._obstacle or self._trying.is_running:
            return
        if self.blind.isChecked():
            self._trying.forget()  # earlier answers would tell the models apart
            self._order = random.sample([model.key for model in self._asked], len(self._asked))
        self._trying.start(self._job(task))
        self.text.selectAll()  # what is typed next replaces it
        self._show_models()

    def _job(self, task: Task) -> TryJob:
        """What is asked of whom; the window's merge first."""
        keys = {model.key for model in self._asked}
        stores = sorted(self._merges, key=lambda store: store != self._current)
        return TryJob(
            recipe=self.session.draft.inputs.recipe(),
            stores=tuple(Path(key) for key in stores if key in keys),
            device=self.session.device,
            task=task,
            row=self._input.row,
            picture=self._input.picture,
            text=self.text.toPlainText(),
            pair=self.pair.text() if self.pair.isVisibleTo(self) else "",
            seed=self.seed.value(),
            temperature=self.temperature.value(),
            most_tokens=self.length.value(),
            experts=tuple(name for name in self.session.draft.inputs.names if name in keys),
            with_base=BASE in keys,
        )

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._make_ready()

    def _make_ready(self) -> None:
        """Load models that write while the question is typed."""
        task = self.chosen
        if task is not None and self._writes and self.models.chosen and self.isVisible():
            self._trying.make_ready(self._job(task))

    # The models

    @property
    def _current(self) -> str:
        """The key of the window's merge; empty without one."""
        run = self.session.results.merge
        if run is not None and run.finished is not None:
            return str(run.store)
        return ""

    @property
    def _merges(self) -> dict[str, str]:
        """The titles of the finished merges by their keys, the newest first."""
        merges = merges_of(self.session)
        return {key: merges[key] for key in reversed(merges)}

    @property
    def _owner(self) -> str:
        """The expert of the chosen task."""
        task = self.chosen
        if task is None:
            return ""
        return self.session.results.scores.owner(task) or ""

    @property
    def _writes(self) -> bool:
        """Whether models write text, so that every expert can answer."""
        return self.kind is not None and self.kind.traits.writes

    def _free_memory(self, plan: Plan) -> int:
        """Bytes for models where they are run."""
        session = self.session
        for device in () if session.engine is None else session.engine.devices:
            if device.name == session.device and device.memory_bytes:
                return device.memory_bytes
        return plan.free_memory

    @property
    def _offered(self) -> list[AskedModel]:
        """The models that can be asked: of experts with heads only the one of the task."""
        models = [AskedModel(key=BASE, role="base", name="", colour="base")]
        for name in self.session.draft.inputs.names:
            if self._writes or name == self._owner:
                colour = expert_colour(self.session, name)
                models.append(AskedModel(key=name, role="expert", name=name, colour=colour))
        for key, title in self._merges.items():
            models.append(AskedModel(key=key, role="merge", name=title, colour="merged"))
        return models

    @property
    def _asked(self) -> list[AskedModel]:
        """The models that are asked, in the order of their cards."""
        chosen = self.models.chosen
        if not self._order or not self.blind.isChecked():
            return chosen
        places = {key: place for place, key in enumerate(self._order)}
        return sorted(chosen, key=lambda model: places.get(model.key, len(places)))

    def _offer_models(self) -> None:
        defaults = {BASE: True, self._owner: True, self._current: True}
        why_not_all = ""
        plan = self.session.draft.plan
        if self._writes and plan is not None:
            others = 1 + bool(self._current)
            count, why_not_all = experts_at_first(plan, others, self._free_memory(plan))
            names = [name for name in self.session.draft.inputs.names if name != self._owner]
            for name in names[: count - 1 if self._owner else count]:
                defaults[name] = True
        self.models.offer(self._offered, defaults)
        self.why_not_all.setText(why_not_all)
        self.why_not_all.setVisible(bool(why_not_all))

    def _show_models(self) -> None:
        """Show a card for each model that is asked."""
        models = self._asked
        if [card.model for card in self.cards] != models:
            clear_layout(self._row)
            self.cards = [AnswerCard(model) for model in models]
            for answer_card in self.cards:
                answer_card.best.connect(lambda key=answer_card.model.key: self._prefer(key))
                self._row.addWidget(card(answer_card), 1)
        self._make_ready()
        self.show_answers()

    # Without names

    @property
    def _is_hidden(self) -> bool:
        """Whether the names are hidden now."""
        return self.blind.isChecked() and bool(self._order)

    def _set_blind(self, blind: bool) -> None:
        self._order = []
        if not blind:
            self._choices.clear()
        self._show_models()

    def _prefer(self, key: str) -> None:
        """Count a choice, and show the names."""
        names = {model.key: model.title for model in self._asked}
        unchosen = [name for model, name in names.items() if model != key]
        self._choices.add(names[key], unchosen)
        self._order = []
        self._show_models()

    def _forget(self) -> None:
        self._order = []
        self._trying.forget()

    def refresh(self) -> None:
        tasks = {title: (plain(title), "") for title in self._tasks}
        self.task.offer(tasks or {"": ("–", "")})
        kind = self.kind
        has_heads = bool(self.session.draft.inputs.tasks) or not self._writes
        self._as.setVisible(has_heads)
        self.task.setVisible(has_heads)
        self.text.setVisible(kind is None or not kind.has_pictures)
        self.text.setPlaceholderText(_QUESTION if self._writes else _TEXT)
        self.hint.setVisible(kind is None or kind.has_pictures)
        self.choose.setVisible(kind is None or kind.has_pictures)
        if self.chosen is None:
            description = None
        else:
            description = self.session.results.scores.described(self.chosen)
        self.pair.setVisible(description is not None and "pair" in description.columns)
        for widget in self._settings:
            widget.setVisible(kind is None or kind.traits.writes)
        self._offer_models()
        self._show_models()

    def show_answers(self) -> None:
        trying = self._trying
        running = trying.is_running
        job: TryJob | None = trying.job
        hidden = self._is_hidden
        waiting = NOT_ASKED
        if running:
            waiting = _UNTIL_ALL if hidden else _TURN
        for index, answer_card in enumerate(self.cards):
            answer: ModelAnswer | None = trying.by_model.get(answer_card.model.key)
            if hidden and running:
                answer = None  # the order in which models answer would tell them apart
            if job is not None and self._writes:
                question = job.text
            else:
                question = ""
            answer_card.show_answer(answer, question, answer_card.model.colour, waiting)
            answer_card.name_it(f"Answer {chr(ord('A') + index)}" if hidden else "")
            is_answered = answer is not None and answer.is_done and not answer.error
            answer_card.offer_choice(hidden and is_answered and len(self.cards) > 1)
        show_problem(self.problem, trying.error)
        self.verdict.setText(plain(self._choices.sentence))
        self.verdict.setVisible(bool(self._choices.sentence))
        self.models.setEnabled(not hidden)
        self.new_chat.setVisible(bool(trying.questions) and not running)
        self.again.setVisible(job is not None and not running and bool(trying.by_model))
        self.button.show_job(running, self._obstacle, tip="Text so far stays" if running else "")

    def accepted(self, paths: list[Path]) -> list[Path]:
        return [path for path in paths if path.suffix and f"*{path.suffix.lower()}" in KINDS][:1]

    def take(self, paths: list[Path]) -> None:
        self.take_picture(paths[0])
