"""What the merge lost and gained: a strip below the scores, and a tab with every example."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QHideEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QListView, QWidget

from ace_gui.engine.contract.scored.task_examples import ExamplesCompared
from ace_gui.engine.contract.scored.verdicts import LOSSES, Verdict
from ace_gui.gui.control.operations.scoring import Scoring
from ace_gui.gui.models.examples_model import EXAMPLE, ExamplesModel, ListedExample
from ace_gui.gui.models.experts_model import expert_colour
from ace_gui.gui.panels.job_page import MARGINS, JobPage, MergeChoice, Pages
from ace_gui.gui.panels.scores.example_cells import ExampleCell, ExamplePicture
from ace_gui.gui.panels.scores.try_tab import TryTab
from ace_gui.gui.plots.frame.controls import Choice
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain
from ace_gui.gui.widgets.fields.buttons import Segments, push_button
from ace_gui.gui.widgets.labels.plain_label import (
    EmptyState,
    heading,
    muted_label,
    plain_label,
    secondary_label,
)
from ace_gui.gui.widgets.layout.arrangement import GAP, FlowLayout, across, card, down, split

VERDICTS: Final = (Verdict.LOST, Verdict.GAINED, Verdict.BOTH_WRONG)
TITLES: Final = ("Lost", "Gained", "Both wrong")
_TIPS: Final = (
    "The other model is right, and the merge is wrong",
    "The merge is right, and the other model is wrong",
    "Neither is right",
)
NOTHING: Final = (
    "Examples that the expert answers correctly and the merge does not, and vice versa."
)
_ALL: Final = ""
_LARGE: Final = 160  # px


class ExamplesTab(JobPage):
    """All examples of a verdict, with the details of one."""

    def __init__(self, session: Session, scoring: Scoring, pages: Pages) -> None:
        super().__init__(session, scoring, pages)
        self._asked: tuple[object, ...] | None = None
        self.against = Segments("What the merge is compared with", self)
        self.against.add("Against the experts", "Each task's own expert")
        self.against.add("Against the base", "The base model")
        self.verdict = Segments("Lost or gained examples", self)
        for title, tip in zip(TITLES, _TIPS, strict=True):
            self.verdict.add(title, tip)
        self.merge = MergeChoice(session, "Merge to show")
        self.task = Choice("Task", {_ALL: ("All tasks", "")})
        self.list = ExampleList("Examples", self)
        self.model = self.list.examples
        self.list.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.list.selectionModel().currentChanged.connect(lambda *_: self._show_detail())
        self.detail = ExampleDetail()
        self.detail.try_wanted.connect(self._try)
        self.note = muted_label("", self)
        name = "Compare the answers of the merge and the experts"
        self.compare_button = push_button(
            "Compare the answers", self._ask, kind="tinted", name=name
        )
        self.empty = EmptyState(NOTHING, self.compare_button)
        self.set_pages(card(self.empty), self._make_results())
        for segments in (self.against, self.verdict):
            segments.chosen.connect(lambda _: self.refresh())
        results = session.results
        self.follow(self.merge.chosen, self.task.chosen, session.draft.changed)
        self.follow(results.scores.changed, results.runs.changed)
        self.follow(session.engine_changed, scoring.changed)
        self.refresh()

    def _make_results(self) -> QWidget:
        left, head = QWidget(), FlowLayout(spacing=8)
        head.addWidget(self.verdict)
        head.addWidget(self.against)
        below = across((self.note, 1), self.task, self.merge)
        left.setLayout(down(head, below, (self.list, 1), margins=(8, 6, 8, 6)))
        page = split(card(left), card(self.detail), sizes=(760, 300), gap=GAP)
        page.setStretchFactor(0, 1)
        return page

    # Requests

    @property
    def with_base(self) -> bool:
        """Whether the merge is compared with the base model and not with the experts."""
        return self.against.current == 1

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._asked = None

    def _ask(self) -> None:
        """Request the chosen comparison once; cached answers come at once."""
        wanted = (self.merge.current, self.with_base, self.session.draft.inputs.tasks)
        if self.merge.current and wanted != self._asked:
            self._asked = wanted
            self.scoring.compare_examples(Path(self.merge.current), with_base=self.with_base)

    # Display

    def refresh(self) -> None:
        """Show the known examples, and request others if the models have been evaluated."""
        self._offer()
        known, merge = self.session.results.scores, str(self.merge.current)
        found = known.examples(Path(merge), with_base=self.with_base) if merge else {}
        if not found:
            self.show_page(0)
            self._say_why_empty()
            if self.isVisible() and merge and known.is_complete(merge):
                self._ask()
            return
        self.show_page(1)
        chosen = [each for each in found.values() if self.task.current in (_ALL, each.task)]
        for index, (verdict, title) in enumerate(zip(VERDICTS, TITLES, strict=True)):
            count = sum(each.counts[verdict] for each in chosen)
            self.verdict.set_title(index, f"{title} {count}")
        verdict = VERDICTS[self.verdict.current]
        self.list.cell.merge_is_wrong = verdict is not Verdict.GAINED
        other = "base" if self.with_base else ""
        listed = [*chain(*listed_examples(self.session, chosen, verdict, other))]
        self._show_listed(listed)
        count = sum(each.counts[verdict] for each in chosen)
        some = f"The first {len(listed)} of {count} are shown." if len(listed) < count else ""
        losses = all(each.metric.value in LOSSES for each in chosen)
        rule = "Lost: the loss grew most." if losses else _rule(verdict, self.with_base)
        self.note.setText(f"{some} {rule}".lstrip())

    def _show_listed(self, listed: list[ListedExample]) -> None:
        if self.list.show_examples(listed):
            self.list.setCurrentIndex(self.model.index(0, 0))
            self._show_detail()

    def _offer(self) -> None:
        self.merge.update_merges()
        tasks = {t.title: (plain(t.title), "") for t in self.session.draft.inputs.tasks}
        self.task.offer({_ALL: ("All tasks", "Examples of every task")} | tasks)

    def _say_why_empty(self) -> None:
        scoring, merge = self.scoring, self.merge.current
        why = scoring.obstacle or ("" if merge else "Merge first.")
        running = scoring.is_running
        self.empty.say("Comparing the answers …" if running else f"{NOTHING} {why}")
        self.compare_button.setEnabled(not why)
        self.compare_button.setToolTip(
            why or "Evaluate both models if their answers are not known yet"
        )

    def _show_detail(self) -> None:
        index = self.list.currentIndex()
        self.detail.show_example(index.data(EXAMPLE) if index.isValid() else None)

    def _try(self) -> None:
        index = self.list.currentIndex()
        if index.isValid():
            listed: ListedExample = index.data(EXAMPLE)
            self.pages.show_tab(TryTab).try_example(listed.found.example, listed.task)


class ExampleDetail(QWidget):
    """The details of one example. ``try_wanted``: the user wants to try it."""

    try_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title = heading("Example", self)
        self.picture = ExamplePicture(_LARGE, self)
        self.text = plain_label("", self)
        self.answers = secondary_label("", self)
        self.row_label = muted_label("", self)
        self.try_button = push_button(
            "Try it",
            self.try_wanted.emit,
            name="Try the models on this example",
            tip="See the answers of base, expert and merge, with probabilities",
        )
        for label in (self.text, self.answers):
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        shown = (self.title, self.picture, self.text, self.answers, self.row_label)
        self.setLayout(down(*shown, across(self.try_button, None), None, margins=MARGINS, gap=10))
        self.show_example(None)

    def show_example(self, listed: ListedExample | None) -> None:
        """Show an example, or nothing."""
        for widget in (self.picture, self.text, self.answers, self.row_label, self.try_button):
            widget.setVisible(listed is not None)
        if listed is None:
            self.title.setText("Choose an example")
            return
        example, found = listed.found.example, listed.found
        self.title.setText(plain(listed.task))
        self.picture.show_picture(example.picture, listed.words)
        self.text.setText(plain("\n\n".join(text for _, text in example.texts)))
        self.text.setVisible(bool(example.texts))
        lines = [f"should be: {example.label}"] if example.label else []
        lines += [
            f"merge: {found.answer}",
            f"{listed.other_model}: {found.other}",
        ]
        self.answers.setText(plain("\n".join(lines)))
        self.row_label.setText(plain(example.row))


def _rule(verdict: Verdict, with_base: bool) -> str:
    return {
        Verdict.LOST: "The true label, and below it the merge's answer.",
        Verdict.GAINED: "The true label, and below it the base model's answer."
        if with_base
        else "The true label, and below it the expert's answer.",
        Verdict.BOTH_WRONG: "The true label, and below it the merge's answer.",
    }[verdict]


_TEXTS: Final = 2  # rows, if examples are not pictures
_TALL: Final = 56  # in text lines: in a lower window only the lost examples are shown
_NOTHING: Final = "Examples that only one of expert and merge answers right."
_WORDS: Final = {
    Verdict.LOST: ("Lost", "the true label, and below it what the merge answers"),
    Verdict.GAINED: ("Gained", "the true label, and below it what the expert answers"),
}


class ExamplesStrip(QWidget):
    """``all_wanted``: the user wants to see all examples.

    The answers of evaluated models are known, so they are compared without being asked to.
    """

    all_wanted = Signal()

    def __init__(self, session: Session, scoring: Scoring, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session, self._scoring = session, scoring
        self._store: Path | None = None
        self._asked: tuple[object, ...] = ()
        self.note = muted_label("", self)
        self.ask = push_button("Compare the answers", self._compare, kind="link")
        name = "Show all examples"
        self.all = push_button("Show all", self.all_wanted.emit, kind="link", name=name)
        self.rows = {verdict: _Row(verdict, self) for verdict in _WORDS}
        title = heading("Examples", self)
        head = across(title, (self.note, 1), self.ask, self.all, gap=12)
        self.setLayout(down(head, *self.rows.values(), margins=(8, 4, 8, 4), gap=4))
        scoring.changed.connect(self.refresh)

    def show_merge(self, store: str) -> None:
        """Show the examples of the merge in this store."""
        self._store = Path(store) if store else None
        self.refresh()

    def refresh(self) -> None:
        """Update the examples, and request them once the merge is evaluated."""
        known, store = self._session.results.scores, self._store
        found = known.examples(store, with_base=False) if store is not None else {}
        tall = self.window().height() >= _TALL * self.fontMetrics().height()
        for verdict, row in self.rows.items():
            row.setVisible(bool(found) and (tall or verdict is Verdict.LOST))
            row.show_examples(listed_examples(self._session, found.values(), verdict), found)
        self.all.setVisible(bool(found))
        self.note.setText("" if found else _NOTHING)
        self.ask.setVisible(not found)
        why = self._scoring.obstacle or ("" if store is not None else "Merge first.")
        self.ask.setEnabled(not why)
        self.ask.setToolTip(why or "Evaluate both models if their answers are not known yet")
        waits = not found and not why and self.isVisible() and known.is_complete(str(store))
        if waits and self._asked != (store, known.tasks):
            self._asked = (store, known.tasks)
            self._compare()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.refresh()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._asked = ()

    def _compare(self) -> None:
        if self._store is not None:
            self._scoring.compare_examples(self._store, with_base=False)


class ExampleList(QListView):
    """Examples as tiles if they are pictures, else as rows."""

    def __init__(self, name: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self.examples, self.cell = ExamplesModel(self), ExampleCell(self)
        self.setModel(self.examples)
        self.setItemDelegate(self.cell)

    def show_examples(self, listed: Sequence[ListedExample], *, wraps: bool = True) -> bool:
        """Show these, and return whether they are others than before."""
        if tuple(listed) == self.examples.examples:
            return False
        modes = QListView.ViewMode
        self.setViewMode(modes.IconMode if are_pictures(listed) else modes.ListMode)
        if wraps:
            self.setResizeMode(QListView.ResizeMode.Adjust)
        else:
            self.setWrapping(False)
        self.setMovement(QListView.Movement.Static)
        self.examples.show_examples(listed)
        return True


def are_pictures(listed: Sequence[ListedExample]) -> bool:
    """Whether there are examples, and all have pictures."""
    return bool(listed) and all(each.found.example.picture is not None for each in listed)


class _Row(QWidget):
    """The examples of one verdict: as many as fit, of each task in turn."""

    def __init__(self, verdict: Verdict, parent: QWidget) -> None:
        super().__init__(parent)
        self._verdict, self._strip = verdict, parent
        self.title = plain_label("", self, wrap=False)
        self.list = ExampleList(f"{_WORDS[verdict][0]} examples", self)
        self.model = self.list.examples
        self.list.cell.merge_is_wrong = verdict is Verdict.LOST
        self.list.setSelectionMode(QListView.SelectionMode.NoSelection)
        never = Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        self.list.setHorizontalScrollBarPolicy(never)
        self.list.setVerticalScrollBarPolicy(never)
        self.setLayout(down(self.title, self.list, gap=0))

    def show_examples(
        self, by_task: list[list[ListedExample]], found: Mapping[str, ExamplesCompared]
    ) -> None:
        """Show as many as there is room for, grouped by task."""
        name, rule = _WORDS[self._verdict]
        count = sum(each.counts[self._verdict] for each in found.values())
        self.title.setText(f"{name} {count}: {rule}" if count else f"{name} 0")
        in_turn = [each for each in chain(*zip_longest(*by_task)) if each is not None]
        pictures, size_of = are_pictures(in_turn), self.list.cell.size_of
        room = _TEXTS
        if pictures:
            room = max(1, (self._strip.width() - 24) // size_of(in_turn[0]).width())
        shown = in_turn[:room]
        tasks = [examples[0].task for examples in by_task if examples]
        shown.sort(key=lambda each: tasks.index(each.task))
        self.list.show_examples(shown, wraps=False)
        height = size_of(shown[0]).height() if shown else 0
        rows = 1 if pictures else len(shown)
        self.list.setFixedHeight(rows * height + 2 * self.list.frameWidth() + 2 if shown else 0)


def listed_examples(
    session: Session, found: Iterable[ExamplesCompared], verdict: Verdict, other: str = ""
) -> list[list[ListedExample]]:
    """The examples of a verdict, by task. ``other``: the name of the other model."""
    known = session.results.scores
    return [
        [
            ListedExample(
                task=each.task,
                colour=expert_colour(session, known.owner_of(each.task))[0],
                other_model=other or each.other,
                found=example,
            )
            for example in each.examples[verdict]
        ]
        for each in found
    ]
