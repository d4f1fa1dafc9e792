"""A row of examples below the scores: what the merge lost or gained."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, zip_longest
from pathlib import Path
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QListView, QPushButton, QVBoxLayout, QWidget

from ace_gui.engine.contract.scored.shown_examples import ExamplesCompared
from ace_gui.engine.contract.scored.verdicts import Verdict
from ace_gui.gui.control.operations.scoring import Scoring
from ace_gui.gui.models.examples_model import ExamplesModel, ListedExample
from ace_gui.gui.panels.scores.example_cells import ExampleCell
from ace_gui.gui.panels.scores.score_cells import expert_colour
from ace_gui.gui.state.session import Session
from ace_gui.gui.widgets.fields.segments import Segments
from ace_gui.gui.widgets.labels.plain_label import heading, secondary_label

_VERDICTS: Final = (Verdict.LOST, Verdict.GAINED)
_TEXTS: Final = 2  # rows, if examples are not pictures


class ExamplesStrip(QWidget):
    """As many examples as fit, alternating between tasks. ``show_all``: opens all of them."""

    def __init__(self, session: Session, scoring: Scoring, show_all: Callable[[], object]) -> None:
        super().__init__()
        self._session, self._scoring = session, scoring
        self._store: Path | None = None
        self.verdict = Segments("Lost or gained examples", self)
        for title, tip in (
            ("Lost", "The other model is right, and the merge is wrong"),
            ("Gained", "The merge is right, and the other model is wrong"),
        ):
            self.verdict.add(title, tip)
        self.note = secondary_label("", self)
        self.ask = self._button("Compare the answers", self._compare)
        self.all = self._button("Show all", show_all)
        self.all.setAccessibleName("Show all examples")
        self.model = ExamplesModel(self)
        self.cell = ExampleCell(self)
        self.list = self._make_list()
        head = QHBoxLayout()
        head.setSpacing(12)
        head.addWidget(heading("Examples", self))
        head.addWidget(self.verdict)
        head.addWidget(self.note, 1)
        head.addWidget(self.ask)
        head.addWidget(self.all)
        column = QVBoxLayout(self)
        column.setContentsMargins(8, 4, 8, 4)
        column.setSpacing(4)
        column.addLayout(head)
        column.addWidget(self.list)
        self.verdict.chosen.connect(lambda _: self.refresh())
        scoring.changed.connect(self.refresh)

    def show_merge(self, store: str) -> None:
        """Show the examples of the merge in this store."""
        self._store = Path(store) if store else None
        self.refresh()

    def refresh(self) -> None:
        """Update the examples."""
        known = self._session.results.scores
        found = known.examples(self._store, with_base=False) if self._store is not None else {}
        for widget in (self.verdict, self.list, self.all):
            widget.setVisible(bool(found))
        self.ask.setVisible(not found)
        if not found:
            why = self._scoring.obstacle or ("" if self._store is not None else "Merge first.")
            self.ask.setEnabled(not why and not self._scoring.is_running)
            self.ask.setToolTip(why or "Evaluate both models if their answers are not known yet")
            self.note.setText("Examples that the experts answer correctly and the merge does not.")
            return
        for index, verdict in enumerate(_VERDICTS):
            count = sum(each.counts[verdict] for each in found.values())
            title = "Lost" if verdict is Verdict.LOST else "Gained"
            self.verdict.set_title(index, f"{title} {count}")
        verdict = _VERDICTS[self.verdict.current]
        self.cell.merge_is_wrong = verdict is Verdict.LOST
        lost = "The true label, and below it the merge's answer."
        gained = "The true label, and below it the expert's answer."
        self.note.setText(lost if verdict is Verdict.LOST else gained)
        self._show(listed_examples(self._session, found.values(), verdict))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.refresh()

    def _show(self, by_task: list[list[ListedExample]]) -> None:
        in_turn = [each for each in chain(*zip_longest(*by_task)) if each is not None]
        pictures = all(each.found.example.picture is not None for each in in_turn)
        self.list.setViewMode(
            QListView.ViewMode.IconMode if pictures else QListView.ViewMode.ListMode
        )
        self.list.setWrapping(False)
        self.list.setMovement(QListView.Movement.Static)
        shown = in_turn[: self._room(in_turn[0])] if pictures and in_turn else in_turn[:_TEXTS]
        tasks = [examples[0].task for examples in by_task if examples]
        shown.sort(key=lambda each: tasks.index(each.task))
        if tuple(shown) != self.model.examples:
            self.model.show_examples(shown)
        self._fit(rows=1 if pictures else len(shown))

    def _room(self, example: ListedExample) -> int:
        """The number of tiles in a row."""
        return max(1, self.width() - 24) // self.cell.size_of(example).width()

    def _fit(self, rows: int) -> None:
        height = self.cell.size_of(self.model.examples[0]).height() if self.model.examples else 0
        self.list.setFixedHeight(rows * height + 2 * self.list.frameWidth() + 2)

    def _compare(self) -> None:
        if self._store is not None:
            self._scoring.compare_examples(self._store, with_base=False)

    def _make_list(self) -> QListView:
        view = QListView(self)
        view.setAccessibleName("Examples")
        view.setModel(self.model)
        view.setItemDelegate(self.cell)
        view.setSelectionMode(QListView.SelectionMode.NoSelection)
        for set_policy in (view.setHorizontalScrollBarPolicy, view.setVerticalScrollBarPolicy):
            set_policy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        return view

    def _button(self, text: str, pressed: Callable[[], object]) -> QPushButton:
        button = QPushButton(text, self)
        button.setProperty("kind", "link")
        button.clicked.connect(lambda _=False: pressed())
        return button


def listed_examples(
    session: Session, found: Iterable[ExamplesCompared], verdict: Verdict, other: str = ""
) -> list[list[ListedExample]]:
    """The examples of a verdict, by task. ``other``: the name of the other model."""
    inputs, known = session.draft.inputs, session.results.scores
    return [
        [
            ListedExample(
                task=each.task,
                colour=expert_colour(inputs, known.owner_of(each.task))[0],
                other_model=other or each.other,
                found=example,
            )
            for example in each.examples[verdict]
        ]
        for each in found
    ]
