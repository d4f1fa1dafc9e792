"""The Examples tab: what the merge lost and gained, with the answers to each example."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import chain
from pathlib import Path
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QListView, QPushButton, QWidget

from ace_gui.engine.contract.scored.verdicts import LOSSES, Verdict
from ace_gui.gui.control.operations.scoring import Scoring
from ace_gui.gui.models.examples_model import ExamplesModel, ListedExample
from ace_gui.gui.panels.job_page import MARGINS, MergeChoice, tinted_button
from ace_gui.gui.panels.scores.example_cells import ExampleCell
from ace_gui.gui.panels.scores.example_picture import ExamplePicture
from ace_gui.gui.panels.scores.examples_strip import listed_examples
from ace_gui.gui.panels.scores.score_tab import Parts, ScoresPart
from ace_gui.gui.panels.scores.try_tab import TryTab
from ace_gui.gui.plots.frame.controls import Choice
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain
from ace_gui.gui.widgets.fields.segments import Segments
from ace_gui.gui.widgets.labels.empty_state import EmptyState
from ace_gui.gui.widgets.labels.plain_label import (
    heading,
    muted_label,
    plain_label,
    secondary_label,
)
from ace_gui.gui.widgets.layout.arrangement import FlowLayout, across, down, split
from ace_gui.gui.widgets.layout.card import GAP, card

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


class ExamplesTab(ScoresPart):
    """All examples of a verdict, with the details of one."""

    def __init__(self, session: Session, scoring: Scoring, parts: Parts) -> None:
        super().__init__(session, scoring, parts)
        self._asked: tuple[object, ...] | None = None
        self.against = Segments("What the merge is compared with", self)
        self.against.add("Against the experts", "Each task's own expert")
        self.against.add("Against the base", "The base model")
        self.verdict = Segments("Lost or gained examples", self)
        for title, tip in zip(TITLES, _TIPS, strict=True):
            self.verdict.add(title, tip)
        self.merge = MergeChoice(session, "Merge to show")
        self.task = Choice("Task", {_ALL: ("All tasks", "")})
        self.model = ExamplesModel(self)
        self.cell = ExampleCell(self)
        self.list = self._make_list()
        self.detail = ExampleDetail()
        self.detail.try_button.clicked.connect(lambda _=False: self._try())
        self.note = muted_label("", self)
        name = "Compare the answers of the merge and the experts"
        self.compare_button = tinted_button("Compare the answers", self._ask, name)
        self.empty = EmptyState(NOTHING, self.compare_button)
        self.set_pages(card(self.empty), self._make_results())
        for segments in (self.against, self.verdict):
            segments.chosen.connect(lambda _: self.refresh())
        results = session.results
        self.follow(self.merge.chosen, self.task.chosen, session.draft.changed)
        self.follow(results.scores.changed, results.runs.changed)
        self.follow(session.engine_changed, scoring.changed)
        self.refresh()

    def _make_list(self) -> QListView:
        view = QListView(self)
        view.setAccessibleName("Examples")
        view.setModel(self.model)
        view.setItemDelegate(self.cell)
        view.setResizeMode(QListView.ResizeMode.Adjust)
        view.setMovement(QListView.Movement.Static)
        view.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        view.selectionModel().currentChanged.connect(lambda *_: self._show_detail())
        return view

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
        self.cell.merge_is_wrong = verdict is not Verdict.GAINED
        other = "base" if self.with_base else ""
        listed = [*chain(*listed_examples(self.session, chosen, verdict, other))]
        self._show_listed(listed)
        count = sum(each.counts[verdict] for each in chosen)
        some = f"The first {len(listed)} of {count} are shown." if len(listed) < count else ""
        losses = all(each.metric.value in LOSSES for each in chosen)
        rule = "Lost: the loss grew most." if losses else _rule(verdict, self.with_base)
        self.note.setText(f"{some} {rule}".lstrip())

    def _show_listed(self, listed: list[ListedExample]) -> None:
        if tuple(listed) == self.model.examples:
            return
        pictures = bool(listed) and all(e.found.example.picture is not None for e in listed)
        mode = QListView.ViewMode.IconMode if pictures else QListView.ViewMode.ListMode
        if self.list.viewMode() is not mode:
            self.list.setViewMode(mode)
            self.list.setResizeMode(QListView.ResizeMode.Adjust)
            self.list.setMovement(QListView.Movement.Static)
        self.model.show_examples(listed)
        if listed:
            self.list.setCurrentIndex(self.model.index(0))
        self._show_detail()

    def _offer(self) -> None:
        self.merge.update_merges()
        tasks: dict[Hashable, tuple[str, str]] = {_ALL: ("All tasks", "Examples of every task")}
        tasks |= {t.title: (plain(t.title), "") for t in self.session.draft.inputs.tasks}
        self.task.offer(tasks)

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
        position = index.row() if index.isValid() else -1
        chosen = self.model.examples[position] if 0 <= position < len(self.model.examples) else None
        self.detail.show_example(chosen)

    def _try(self) -> None:
        index = self.list.currentIndex()
        if index.isValid():
            listed = self.model.examples[index.row()]
            self.parts.show_tab(TryTab).try_example(listed.found.example, listed.task)


class ExampleDetail(QWidget):
    """The details of one example."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title = heading("Example", self)
        self.picture = ExamplePicture(_LARGE, self)
        self.text = plain_label("", self)
        self.answers = secondary_label("", self)
        self.row_label = muted_label("", self)
        self.try_button = QPushButton("Try it", self)
        self.try_button.setAccessibleName("Try the models on this example")
        self.try_button.setToolTip("See the answers of base, expert and merge, with probabilities")
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
