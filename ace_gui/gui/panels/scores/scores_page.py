"""The Scores workspace: data, scores, examples, try it, tune."""

from __future__ import annotations

from functools import partial
from typing import Final, TypeVar

from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QWidget

from ace_gui.gui.control.scoring import Scoring
from ace_gui.gui.panels.job_page import JobPage
from ace_gui.gui.panels.scores.examples_tab import ExamplesTab
from ace_gui.gui.panels.scores.scores_tab import ScoresTab
from ace_gui.gui.panels.scores.tasks_tab import TasksTab
from ace_gui.gui.panels.scores.try_tab import TryTab
from ace_gui.gui.panels.scores.tune_tab import TuneTab
from ace_gui.gui.state.session import Session
from ace_gui.gui.widgets.layout import down
from ace_gui.gui.widgets.lazy import LazyTabs, on_visibility_change

TABS: Final[tuple[tuple[type[JobPage], str, str], ...]] = (  # with title and tooltip
    (TasksTab, "Tasks", "The evaluation data, and how they are read"),
    (ScoresTab, "Scores", "Scores of base, experts and merges on the tasks"),
    (ExamplesTab, "Examples", "Which examples a merge lost and gained"),
    (TryTab, "Try it", "Type a text or drop a picture, and see each model's answer"),
    (TuneTab, "Tune", "Search parameter values on half of the data"),
)
_Part = TypeVar("_Part", bound=JobPage)


class ScoresPage(QWidget):
    """One tab for each part. If there are tasks already, the scores come first."""

    def __init__(self, session: Session, scoring: Scoring) -> None:
        super().__init__()
        on_visibility_change(self, scoring.set_visible)
        self.tabs = LazyTabs("Parts of the Scores page", self)
        for kind, title, tip in TABS:
            self.tabs.add(title, tip, partial(kind, session, scoring, self))
        self.setLayout(down(self.tabs))
        if session.draft.inputs.tasks:
            self.show_tab(ScoresTab)

    def show_tab(self, kind: type[_Part]) -> _Part:
        self.tabs.setCurrentIndex([each[0] for each in TABS].index(kind))
        found = self.tabs.current
        assert isinstance(found, kind)
        return found

    def changeEvent(self, event: QEvent) -> None:
        """The experts' colours are part of icons and bars."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            for content in self.tabs.contents():
                assert isinstance(content, JobPage)
                content.recolour()
