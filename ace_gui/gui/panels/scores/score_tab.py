"""What the tabs of the Scores workspace share."""

from __future__ import annotations

from typing import Protocol, TypeVar

from PySide6.QtCore import SignalInstance

from ace_gui.gui.control.operations.scoring import Scoring
from ace_gui.gui.panels.job_page import JobPage
from ace_gui.gui.state.session import Session

_Part = TypeVar("_Part", bound="ScoresPart")


class Parts(Protocol):
    """The workspace that a tab belongs to."""

    value_chosen: SignalInstance

    def show_tab(self, kind: type[_Part]) -> _Part:
        """Show and return another tab."""


class ScoresPart(JobPage):
    """A tab. ``parts`` shows others."""

    def __init__(self, session: Session, scoring: Scoring, parts: Parts) -> None:
        super().__init__(session)
        self.scoring, self.parts = scoring, parts
