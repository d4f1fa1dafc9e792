"""The Scores workspace: the data, the scores, the examples, trying out, tuning, routing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from PySide6.QtCore import QEvent, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ace_gui.engine.contract.scored.shown_examples import ShownExample
from ace_gui.gui.control.operations.scoring import Scoring
from ace_gui.gui.panels.scores.examples_place import ExamplesPlace
from ace_gui.gui.panels.scores.routing_place import RoutingPlace
from ace_gui.gui.panels.scores.scores_place import ScoresPlace
from ace_gui.gui.panels.scores.tasks_place import TasksPlace
from ace_gui.gui.panels.scores.try_place import TryPlace
from ace_gui.gui.panels.scores.tune_place import TunePlace
from ace_gui.gui.state.session import Session
from ace_gui.gui.widgets.layout.lazy_tabs import LazyTabs

TASKS, SCORES, EXAMPLES, TRY, TUNE, ROUTING = range(6)
PLACES: Final = (  # title and tip, in this order
    ("Tasks", "Data that the models are tried on, and how they are read"),
    ("Scores", "How good base, experts and merges are at the tasks"),
    ("Examples", "Which examples a merge lost and gained"),
    (
        "Try it",
        "Type a text or drop a picture, and see what base, expert and merge say to it",
    ),
    ("Tune", "Look for values of parameters by trying them on half of the data"),
    ("Routing", "Which expert a merge with a router takes for which examples"),
)


class ScoresPage(QWidget):
    """A tab for each place; where there are tasks already, the scores come first.

    ``value_chosen`` carries the name and the value of a parameter that was tuned.
    """

    value_chosen = Signal(str, object)

    def __init__(
        self,
        session: Session,
        scoring: Scoring,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._scoring = scoring
        self.tabs = LazyTabs("Places of the scores", self)
        makers: tuple[Callable[[], QWidget], ...] = (
            lambda: TasksPlace(session, scoring),
            lambda: ScoresPlace(
                session,
                scoring,
                lambda: self.show_place(TASKS),
                lambda: self.show_place(EXAMPLES),
            ),
            lambda: self._make_examples(session, scoring),
            lambda: TryPlace(session, scoring.trying),
            lambda: TunePlace(session, scoring.tuning, self.value_chosen.emit),
            lambda: RoutingPlace(session, scoring.routing),
        )
        for (title, tip), make in zip(PLACES, makers, strict=True):
            self.tabs.add(title, tip, make)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.tabs)
        if session.draft.inputs.tasks:
            self.show_place(SCORES)

    def _make_examples(self, session: Session, scoring: Scoring) -> ExamplesPlace:
        place = ExamplesPlace(session, scoring)
        place.try_wanted.connect(self._try)
        return place

    def _try(self, example: ShownExample, task: str) -> None:
        place = self.show_place(TRY)
        assert isinstance(place, TryPlace)
        place.try_example(example, task)

    def show_place(self, place: int) -> QWidget:
        """Turn to a place; it."""
        self.tabs.setCurrentIndex(place)
        return self.tabs.current

    def changeEvent(self, event: QEvent) -> None:
        """Colours of experts stand in icons and bars."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            for place in self.tabs.contents():
                place.recolour()  # type: ignore[attr-defined]

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._scoring.look(True)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._scoring.look(False)
