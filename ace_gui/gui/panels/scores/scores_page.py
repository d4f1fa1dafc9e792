"""The Scores workspace: data, scores, examples, try it, tune, routing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from PySide6.QtCore import QEvent, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ace_gui.engine.contract.scored.shown_examples import ShownExample
from ace_gui.gui.control.operations.scoring import Scoring
from ace_gui.gui.panels.scores.examples_tab import ExamplesTab
from ace_gui.gui.panels.scores.routing_tab import RoutingTab
from ace_gui.gui.panels.scores.scores_tab import ScoresTab
from ace_gui.gui.panels.scores.tasks_tab import TasksTab
from ace_gui.gui.panels.scores.try_tab import TryTab
from ace_gui.gui.panels.scores.tune_tab import TuneTab
from ace_gui.gui.state.session import Session
from ace_gui.gui.widgets.layout.lazy_tabs import LazyTabs

TASKS, SCORES, EXAMPLES, TRY, TUNE, ROUTING = range(6)
PLACES: Final = (  # title and tooltip, in this order
    ("Tasks", "The evaluation data, and how they are read"),
    ("Scores", "Scores of base, experts and merges on the tasks"),
    ("Examples", "Which examples a merge lost and gained"),
    (
        "Try it",
        "Type a text or drop a picture, and see the answers of base, expert and merge",
    ),
    ("Tune", "Search parameter values on half of the data"),
    ("Routing", "Which expert a merge with a router uses for which examples"),
)


class ScoresPage(QWidget):
    """One tab for each part. If there are tasks already, the scores come first.

    ``value_chosen`` carries the name and the value of a tuned parameter.
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
        self.tabs = LazyTabs("Parts of the Scores page", self)
        makers: tuple[Callable[[], QWidget], ...] = (
            lambda: TasksTab(session, scoring),
            lambda: ScoresTab(
                session,
                scoring,
                lambda: self.show_tab(TASKS),
                lambda: self.show_tab(EXAMPLES),
            ),
            lambda: self._make_examples(session, scoring),
            lambda: TryTab(session, scoring.trying),
            lambda: TuneTab(session, scoring.tuning, self.value_chosen.emit),
            lambda: RoutingTab(session, scoring.routing),
        )
        for (title, tip), make in zip(PLACES, makers, strict=True):
            self.tabs.add(title, tip, make)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.tabs)
        if session.draft.inputs.tasks:
            self.show_tab(SCORES)

    def _make_examples(self, session: Session, scoring: Scoring) -> ExamplesTab:
        index = ExamplesTab(session, scoring)
        index.try_wanted.connect(self._try)
        return index

    def _try(self, example: ShownExample, task: str) -> None:
        index = self.show_tab(TRY)
        assert isinstance(index, TryTab)
        index.try_example(example, task)

    def show_tab(self, index: int) -> QWidget:
        """Show and return a tab."""
        self.tabs.setCurrentIndex(index)
        return self.tabs.current

    def changeEvent(self, event: QEvent) -> None:
        """The experts' colours are part of icons and bars."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            for index in self.tabs.contents():
                index.recolour()  # type: ignore[attr-defined]

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._scoring.look(True)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._scoring.look(False)
