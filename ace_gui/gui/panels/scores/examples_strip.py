"""Examples below the scores: what the merge lost, and what it gained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain, zip_longest
from pathlib import Path
from typing import Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QHideEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QListView, QPushButton, QWidget

from ace_gui.engine.contract.scored.shown_examples import ExamplesCompared
from ace_gui.engine.contract.scored.verdicts import Verdict
from ace_gui.gui.control.operations.scoring import Scoring
from ace_gui.gui.models.examples_model import ExamplesModel, ListedExample
from ace_gui.gui.panels.scores.example_cells import ExampleCell
from ace_gui.gui.panels.scores.score_cells import expert_colour
from ace_gui.gui.state.session import Session
from ace_gui.gui.widgets.labels.plain_label import heading, muted_label, plain_label
from ace_gui.gui.widgets.layout.arrangement import across, down

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
        self.ask = self._button("Compare the answers", self._compare)
        self.all = self._button("Show all", self.all_wanted.emit)
        self.all.setAccessibleName("Show all examples")
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

    def _button(self, text: str, pressed: Callable[[], object]) -> QPushButton:
        button = QPushButton(text, self)
        button.setProperty("kind", "link")
        button.clicked.connect(lambda _=False: pressed())
        return button


class _Row(QWidget):
    """The examples of one verdict: as many as fit, of each task in turn."""

    def __init__(self, verdict: Verdict, parent: QWidget) -> None:
        super().__init__(parent)
        self._verdict, self._strip = verdict, parent
        self.title = plain_label("", self, wrap=False)
        self.model, self.cell = ExamplesModel(self), ExampleCell(self)
        self.cell.merge_is_wrong = verdict is Verdict.LOST
        self.list = QListView(self)
        self.list.setAccessibleName(f"{_WORDS[verdict][0]} examples")
        self.list.setModel(self.model)
        self.list.setItemDelegate(self.cell)
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
        pictures = all(each.found.example.picture is not None for each in in_turn)
        modes = QListView.ViewMode
        self.list.setViewMode(modes.IconMode if pictures else modes.ListMode)
        self.list.setWrapping(False)
        self.list.setMovement(QListView.Movement.Static)
        shown = in_turn[: self._room(in_turn[0])] if pictures and in_turn else in_turn[:_TEXTS]
        tasks = [examples[0].task for examples in by_task if examples]
        shown.sort(key=lambda each: tasks.index(each.task))
        if tuple(shown) != self.model.examples:
            self.model.show_examples(shown)
        height = self.cell.size_of(shown[0]).height() if shown else 0
        rows = 1 if pictures else len(shown)
        self.list.setFixedHeight(rows * height + 2 * self.list.frameWidth() + 2 if shown else 0)

    def _room(self, example: ListedExample) -> int:
        """The number of tiles in a row."""
        return max(1, (self._strip.width() - 24) // self.cell.size_of(example).width())


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
