"""The examples that a merge lost and gained, in a strip below the scores and in a tab."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, zip_longest
from pathlib import Path
from typing import Final

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QFontMetricsF,
    QHideEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QStandardItemModel,
)
from PySide6.QtWidgets import QListView, QPushButton, QStyleOptionViewItem, QWidget

from ace_gui.engine.contract.scored import LOSSES, AnswerVerdict, ComparedExample, ExamplesCompared
from ace_gui.gui.control.scoring import Scoring
from ace_gui.gui.models.list_models import VALUE, expert_colour, item_of, show_values
from ace_gui.gui.panels.job_page import (
    MARGINS,
    ExamplePicture,
    JobPage,
    MergeChoice,
    Pages,
    image_of,
    paint_picture,
)
from ace_gui.gui.panels.layer_cells import Cell, Drawn, Index, line_height
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, tooltip
from ace_gui.gui.theme import Face, current_theme, face
from ace_gui.gui.theme.painting import SWATCH, paint_swatch, write
from ace_gui.gui.widgets.controls import Choice, Segments, push_button
from ace_gui.gui.widgets.labels import (
    EmptyState,
    heading,
    muted_label,
    plain_label,
    secondary_label,
)
from ace_gui.gui.widgets.layout import (
    GAP,
    FlowLayout,
    TitleLine,
    across,
    card,
    down,
    on_font_change,
    pane,
    split,
)
from ace_gui.gui.widgets.lazy import Following

VERDICTS: Final = {
    AnswerVerdict.LOST: ("Lost", "The other model is right, and the merge is wrong"),
    AnswerVerdict.GAINED: ("Gained", "The merge is right, and the other model is wrong"),
    AnswerVerdict.BOTH_WRONG: ("Both wrong", "Neither is right"),
}
"""The title and tooltip of each verdict."""
NOTHING: Final = (
    "Examples that the expert answers correctly and the merge does not, and vice versa."
)
_ALL: Final = ""
_BESIDE: Final = 30  # in text lines: below this width the choices are below the note
_LARGE: Final = 160  # px


class CompareButton(QPushButton):
    """Compares the answers of a merge and of another model.

    If the merge is evaluated, its answers are known: then it compares them once without a click.
    """

    def __init__(self, session: Session, scoring: Scoring, kind: str) -> None:
        super().__init__("Compare the answers")
        self.setProperty("kind", kind)
        if kind == "tinted":
            self.setFont(face(Face.STRONG))
        self.setAutoDefault(False)
        self.setAccessibleName("Compare the answers of the merge and the experts")
        self._session = session
        self._scoring = scoring
        self._subject = ("", False)
        self._asked_for: tuple[object, ...] = ()
        self.clicked.connect(self._compare)

    def offer(self, store: str, *, with_base: bool = False) -> str:
        """Offer to compare a merge with the experts or the base. Return an obstacle, or ""."""
        scores = self._session.results.scores
        self._subject = (store, with_base)
        why = self._scoring.obstacle or ("" if store else "Merge first.")
        self.setEnabled(not why)
        self.setToolTip(tooltip(why or "Evaluate both models if their answers are not known yet"))
        subject = (store, with_base, scores.tasks)
        free = self.isVisible() and (not self._scoring.is_running or bool(self._asked_for))
        if free and store and scores.is_complete(store) and subject != self._asked_for:
            self._asked_for = subject
            self._compare()
        return why

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._asked_for = ()

    def _compare(self) -> None:
        store, with_base = self._subject
        if store:
            self._scoring.compare_examples(Path(store), with_base=with_base)


class ExamplesTab(JobPage):
    """All examples of a verdict, with the details of the selected one."""

    def __init__(self, session: Session, scoring: Scoring, pages: Pages) -> None:
        super().__init__(session, scoring, pages)
        self.against = Segments("What the merge is compared with")
        self.against.add("Against the experts", "Each task's own expert")
        self.against.add("Against the base", "The base model")
        self.verdict = Segments("Lost or gained examples")
        for title, tip in VERDICTS.values():
            self.verdict.add(title, tip)
        self.merge = MergeChoice(session, "Merge to show")
        self.task = Choice("Task", {_ALL: ("All tasks", "")})
        self.list = ExampleList("Examples")
        self.list.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.list.selectionModel().currentChanged.connect(lambda *_: self._show_detail())
        self.detail = ExampleDetail()
        self.detail.try_wanted.connect(self._try)
        self.note = muted_label()
        self.compare_button = CompareButton(session, scoring, "tinted")
        self.empty = EmptyState(NOTHING, self.compare_button)
        head = FlowLayout(spacing=8)
        head.addWidget(self.verdict)
        head.addWidget(self.against)
        below = TitleLine(self.note, self.task, self.merge, lines=_BESIDE)
        list_pane = pane(down(head, below, (self.list, 1), margins=(8, 6, 8, 6)))
        results = split(card(list_pane), card(self.detail), sizes=(760, 300), gap=GAP)
        results.setStretchFactor(0, 1)
        self.set_pages(card(self.empty), results)
        self.follow(self.against.chosen, self.verdict.chosen, self.merge.chosen, self.task.chosen)
        self.follow(session.results.scores.changed, session.results.runs.changed)
        self.follow(session.draft.changed, session.engine_changed, scoring.changed)
        self.follow(session.activity.changed)

    @property
    def with_base(self) -> bool:
        """Whether the merge is compared with the base model and not with the experts."""
        return self.against.current == 1

    def refresh(self) -> None:
        """Show the known examples, and request others if the models have been evaluated."""
        self.merge.update_merges()
        tasks = {t.title: (plain(t.title), "") for t in self.session.draft.inputs.tasks}
        self.task.offer({_ALL: ("All tasks", "Examples of every task")} | tasks)
        scores = self.session.results.scores
        merge = str(self.merge.current)
        by_task = scores.examples(Path(merge), with_base=self.with_base) if merge else {}
        self.show_page(int(bool(by_task)))
        if not by_task:
            why = self.compare_button.offer(merge, with_base=self.with_base)
            self.empty.say(f"{NOTHING} {why}")
            return
        compared = [
            comparison
            for comparison in by_task.values()
            if self.task.current in (_ALL, comparison.task)
        ]
        self._show_examples(compared)

    def _show_examples(self, tasks: list[ExamplesCompared]) -> None:
        counts = {verdict: sum(task.counts[verdict] for task in tasks) for verdict in VERDICTS}
        for index, (button_verdict, (title, _)) in enumerate(VERDICTS.items()):
            self.verdict.set_title(index, f"{title} {counts[button_verdict]}")
        verdict = list(VERDICTS)[self.verdict.current]
        self.list.cell.merge_is_wrong = verdict is not AnswerVerdict.GAINED
        second_model = "base" if self.with_base else ""
        listed = [*chain(*listed_examples(self.session, tasks, verdict, second_model))]
        if self.list.show_examples(listed):
            self.list.setCurrentIndex(self.list.rows.index(0, 0))
            self._show_detail()
        count = counts[verdict]
        part = f"The first {len(listed)} of {count} are shown." if len(listed) < count else ""
        counterpart = "base model" if self.with_base else "expert"
        whose = counterpart if verdict is AnswerVerdict.GAINED else "merge"
        losses = all(task.metric.value in LOSSES for task in tasks)
        rule = f"The true label, and the {whose}'s answer."
        self.note.setText(f"{part} {'Lost: the loss grew most.' if losses else rule}".lstrip())

    def _show_detail(self) -> None:
        index = self.list.currentIndex()
        self.detail.show_example(index.data(VALUE) if index.isValid() else None)

    def _try(self) -> None:
        index = self.list.currentIndex()
        if index.isValid():
            listed: ListedExample = index.data(VALUE)
            self.session.try_wanted.emit(listed.comparison.example, listed.task)


class ExampleDetail(QWidget):
    """The details of one example. ``try_wanted``: the user wants to try it."""

    try_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.title = heading("Example")
        self.picture = ExamplePicture(_LARGE)
        self.text = plain_label()
        self.answers = secondary_label()
        self.row_label = muted_label()
        tip = "See the answers of base, expert and merge, with probabilities"
        name = "Try the models on this example"
        self.try_button = push_button("Try it", self.try_wanted.emit, name=name, tip=tip)
        for label in (self.text, self.answers):
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        parts = (self.title, self.picture, self.text, self.answers, self.row_label)
        self.setLayout(down(*parts, across(self.try_button, None), None, margins=MARGINS, gap=10))
        self.show_example(None)

    def show_example(self, listed: ListedExample | None) -> None:
        for widget in (self.picture, self.text, self.answers, self.row_label, self.try_button):
            widget.setVisible(listed is not None)
        if listed is None:
            self.title.setText("Choose an example")
            return
        example = listed.comparison.example
        comparison = listed.comparison
        self.title.setText(plain(listed.task))
        self.picture.show_picture(example.picture, listed.words)
        self.text.setText(plain("\n\n".join(text for _, text in example.texts)))
        self.text.setVisible(bool(example.texts))
        lines = [f"should be: {example.label}"] if example.label else []
        lines += [f"merge: {comparison.answer}", f"{listed.other_model}: {comparison.other}"]
        self.answers.setText(plain("\n".join(lines)))
        self.row_label.setText(plain(example.row))


_TEXTS: Final = 2  # rows, if examples are not pictures
_TALL: Final = 56  # in text lines: in a lower window only the lost examples are shown
_NOTHING: Final = "Examples that only one of expert and merge answers right."
_RULES: Final = {
    AnswerVerdict.LOST: "the true label, and what the merge answers",
    AnswerVerdict.GAINED: "the true label, and what the expert answers",
}


class ExamplesStrip(Following):
    """Some examples of each task. ``all_wanted``: the user wants to see all of them."""

    all_wanted = Signal()

    def __init__(self, session: Session, scoring: Scoring) -> None:
        super().__init__()
        self._session = session
        self._store = ""
        self.note = muted_label()
        self.ask = CompareButton(session, scoring, "link")
        name = "Show all examples"
        self.all = push_button("Show all", self.all_wanted.emit, kind="link", name=name)
        self.rows = {verdict: _Row(verdict, self) for verdict in _RULES}
        head = across(heading("Examples"), (self.note, 1), self.ask, self.all, gap=12)
        self.setLayout(down(head, *self.rows.values(), margins=(8, 4, 8, 4), gap=4))
        self.follow(scoring.changed)

    def show_merge(self, store: str) -> None:
        """Show the examples of the merge in this store."""
        self._store = store
        self.plan_refresh()

    def refresh(self) -> None:
        """Update the examples, and request them once the merge is evaluated."""
        scores = self._session.results.scores
        store = self._store
        by_task = scores.examples(Path(store), with_base=False) if store else {}
        tall = self.window().height() >= _TALL * self.fontMetrics().height()
        for verdict, row in self.rows.items():
            row.setVisible(bool(by_task) and (tall or verdict is AnswerVerdict.LOST))
            row.show_examples(listed_examples(self._session, by_task.values(), verdict), by_task)
        self.all.setVisible(bool(by_task))
        self.note.setText("" if by_task else _NOTHING)
        self.ask.setVisible(not by_task)
        if not by_task:
            self.ask.offer(store)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.plan_refresh()


class ExampleList(QListView):
    """A list of examples, with pictures as tiles and others as rows."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.examples: tuple[ListedExample, ...] = ()
        self.rows = QStandardItemModel(self)
        self.cell = ExampleCell(self)
        self.setModel(self.rows)
        self.setItemDelegate(self.cell)

    def show_examples(self, listed: Sequence[ListedExample], *, wraps: bool = True) -> bool:
        """Show these, and return whether they have changed."""
        if tuple(listed) == self.examples:
            return False
        modes = QListView.ViewMode
        self.setViewMode(modes.IconMode if are_pictures(listed) else modes.ListMode)
        if wraps:
            self.setResizeMode(QListView.ResizeMode.Adjust)
        else:
            self.setWrapping(False)
        self.setMovement(QListView.Movement.Static)
        self.examples = tuple(listed)
        show_values(
            self.rows, listed, lambda example: item_of(example.words, example, tip=example.words)
        )
        return True


def are_pictures(listed: Sequence[ListedExample]) -> bool:
    """Whether there are examples and all of them have pictures."""
    return bool(listed) and all(
        example.comparison.example.picture is not None for example in listed
    )


class _Row(QWidget):
    """The examples of one verdict: as many as fit, from each task in turn."""

    def __init__(self, verdict: AnswerVerdict, strip: QWidget) -> None:
        super().__init__()
        self._verdict = verdict
        self._strip = strip
        self.title = plain_label(wrap=False)
        self.list = ExampleList(f"{VERDICTS[verdict][0]} examples")
        self.list.cell.merge_is_wrong = verdict is AnswerVerdict.LOST
        self.list.setSelectionMode(QListView.SelectionMode.NoSelection)
        never = Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        self.list.setHorizontalScrollBarPolicy(never)
        self.list.setVerticalScrollBarPolicy(never)
        self.heads = _TaskHeadings(self.list)
        self.setLayout(down(self.title, self.heads, self.list, gap=0))

    def show_examples(
        self, by_task: list[list[ListedExample]], compared: Mapping[str, ExamplesCompared]
    ) -> None:
        """Show as many as there is room for, grouped by task."""
        name = VERDICTS[self._verdict][0]
        counts = {
            comparison.task: comparison.counts[self._verdict] for comparison in compared.values()
        }
        count = sum(counts.values())
        rule = f": {_RULES[self._verdict]}" if count else ""
        self.title.setText(f"{name} {count}{rule}")
        in_turn = [example for example in chain(*zip_longest(*by_task)) if example is not None]
        pictures = are_pictures(in_turn)
        size_of = self.list.cell.size_of
        room = _TEXTS
        if pictures:
            room = max(1, (self._strip.width() - 24) // size_of(in_turn[0]).width())
        tasks = [examples[0].task for examples in by_task if examples]
        listed = sorted(in_turn[:room], key=lambda example: tasks.index(example.task))
        self.list.show_examples(listed, wraps=False)
        self.heads.show_counts(counts)
        height = size_of(listed[0]).height() if listed else 0
        rows = 1 if pictures else len(listed)
        self.list.setFixedHeight(rows * height + 2 * self.list.frameWidth() + 2 if listed else 0)


class _TaskHeadings(QWidget):
    """Above the pictures of each task: its colour, its name, and the number of its examples."""

    def __init__(self, pictures: ExampleList) -> None:
        super().__init__()
        self._list = pictures
        self._counts: Mapping[str, int] = {}
        on_font_change(self, lambda metrics: self.setFixedHeight(metrics.height() + 4))

    def show_counts(self, counts: Mapping[str, int]) -> None:
        self._counts = counts
        self.setVisible(are_pictures(self._list.examples))
        self.setAccessibleName(", ".join(f"{task} {count}" for task, count in counts.items()))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002
        painter = QPainter(self)
        theme = current_theme()
        row = 0
        for task, group in groupby(self._list.examples, key=lambda example: example.task):
            routes = list(group)
            tile = self._list.visualRect(self._list.rows.index(row, 0))
            row += len(routes)
            width = tile.width()
            edge = (tile.width() - _PICTURE) / 2
            rect = QRectF(tile.left() + edge, 0, len(routes) * width - edge, self.height())
            paint_swatch(painter, QRectF(rect.left(), 0, SWATCH, self.height()), routes[0].colour)
            rect.adjust(SWATCH + 6, 0, 0, 0)
            count = str(self._counts[task])
            metrics = QFontMetricsF(face(Face.CAPTION))
            rect.setWidth(rect.width() - metrics.horizontalAdvance(count) - 6)
            used = write(painter, rect, task, face(Face.CAPTION_STRONG), theme.text)
            beside = QRectF(rect.left() + used + 6, 0, self.width(), self.height())
            write(painter, beside, count, face(Face.CAPTION), theme.text2)


def listed_examples(
    session: Session,
    comparisons: Iterable[ExamplesCompared],
    verdict: AnswerVerdict,
    other_name: str = "",
) -> list[list[ListedExample]]:
    """The examples of a verdict, by task. ``other_name``: the name of the other model."""
    owner = session.results.scores.owner_of
    return [
        [
            ListedExample(
                task=comparison.task,
                colour=expert_colour(session, owner(comparison.task)),
                other_model=other_name or comparison.other,
                comparison=example,
            )
            for example in comparison.examples[verdict]
        ]
        for comparison in comparisons
    ]


@dataclass(frozen=True, kw_only=True)
class ListedExample:
    """An example with its task, the colour of the task's expert, and the other model."""

    task: str
    colour: str
    other_model: str
    comparison: ComparedExample

    @property
    def words(self) -> str:
        example = self.comparison.example
        comparison = self.comparison
        texts = "; ".join(text for _, text in example.texts)
        parts = [f"should be {example.label}"] if example.label else []
        parts.append(
            f"the merge answers {comparison.answer}, {self.other_model} {comparison.other}"
        )
        text = f"{f'{texts}. ' if texts else ''}{'; '.join(parts)}"
        return plain(f"{self.task}, {example.row}: {text}")


_PICTURE: Final = 64.0  # px
_PADDING: Final = 8.0
_TILE: Final = 96.0  # px: width
_MIDDLE: Final = Qt.AlignmentFlag.AlignCenter


class ExampleCell(Cell):
    """A tile with a picture, or a row with a text, with the true label in bold and a wrong answer.

    ``merge_is_wrong``: the wrong answer is the merge's, not the other model's.
    """

    merge_is_wrong = True

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: ARG002
        return self.size_of(index.data(VALUE))

    def size_of(self, listed: ListedExample) -> QSize:
        """The size of a tile or a row, in px."""
        line = line_height(Face.CAPTION_STRONG)
        if listed.comparison.example.picture is not None:
            width = max(_TILE, 7 * line_height(Face.CAPTION))
            return QSize(round(width), round(_PICTURE + 2 * line + 2 * _PADDING + 8))
        return QSize(200, round(line_height(Face.BODY) + line + 2 * _PADDING + 4))

    def draw(self, cell: Drawn) -> None:
        listed: ListedExample = cell.index.data(VALUE)
        rect = QRectF(cell.option.rect).adjusted(_PADDING, _PADDING, -_PADDING, -_PADDING)
        picture = listed.comparison.example.picture
        comparison = listed.comparison
        theme = current_theme()
        answer = comparison.answer if self.merge_is_wrong else comparison.other
        ink = theme.bad if self.merge_is_wrong else theme.text2
        if picture is None:
            self._draw_row(cell.painter, rect, listed, answer, ink)
            return
        paint_picture(cell.painter, _line(rect, 0, _PICTURE), image_of(picture))
        label_line = _line(rect, _PICTURE + 4, line_height(Face.CAPTION_STRONG))
        answer_line = label_line.translated(0, label_line.height())
        font = face(Face.CAPTION_STRONG)
        write(cell.painter, label_line, comparison.example.label, font, theme.text, align=_MIDDLE)
        write(cell.painter, answer_line, answer, face(Face.CAPTION), ink, align=_MIDDLE)

    def _draw_row(
        self, painter: QPainter, rect: QRectF, listed: ListedExample, answer: str, ink: str
    ) -> None:
        theme = current_theme()
        example = listed.comparison.example
        top = _line(rect.adjusted(SWATCH + 8, 0, 0, 0), 0, line_height(Face.BODY))
        if listed.colour:
            square = QRectF(rect.left(), rect.top(), SWATCH, top.height())
            paint_swatch(painter, square, listed.colour)
        text = " · ".join(text.replace("\n", " ") for _, text in example.texts)
        write(painter, top, text, face(Face.BODY), theme.text)
        low = _line(top, top.height() + 3, line_height(Face.CAPTION_STRONG))
        used = write(painter, low, example.label, face(Face.CAPTION_STRONG), theme.text)
        after_label = low.adjusted(used + 12 if used else 0, 0, 0, 0)
        whose = "merge" if self.merge_is_wrong else listed.other_model
        write(painter, after_label, f"{whose}: {answer}", face(Face.CAPTION), ink)


def _line(rect: QRectF, down: float, height: float) -> QRectF:
    """A line of this height in ``rect``, ``down`` px below its top."""
    return QRectF(rect.left(), rect.top() + down, rect.width(), height)
