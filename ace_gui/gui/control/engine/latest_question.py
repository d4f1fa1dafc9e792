"""One query about the selected layer at a time; the latest replaces the one before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.events import Event, JobFailed
from ace_gui.engine.contract.figures.findings import LayerDifference
from ace_gui.engine.contract.jobs import Job
from ace_gui.errors import WorkbenchError
from ace_gui.gui.control.engine.engine_client import End, EngineClient, RunningJob
from ace_gui.gui.state.activity import RecipeKey, State
from ace_gui.gui.state.found.layer_results import Finding
from ace_gui.gui.state.session import Session

DELAY: Final = 80  # ms; skips selections that only pass by, or a spin box held down


@dataclass(frozen=True)
class Question:
    """A query about a layer. ``keys`` maps each kind of finding to the key of its answer."""

    name: str
    keys: Mapping[type, RecipeKey]
    job: Job = field(compare=False)


class LatestQuestion(QObject):
    """Sends the query that ``find`` returns after a short pause and once no plan is running.

    Answers go to the session. Errors do too, unless ``fail`` handles them. ``awaited`` carries
    whether an answer is pending.
    """

    awaited = Signal(bool)

    def __init__(
        self,
        session: Session,
        engine: EngineClient,
        find: Callable[[], Question | None],
        parent: QObject,
        fail: Callable[[WorkbenchError], object] | None = None,
    ) -> None:
        super().__init__(parent)
        self._session = session
        self._engine = engine
        self._find = find
        self._fail = fail
        self._question: Question | None = None
        self._operation: RunningJob | None = None
        self._timer = engine.delayed(DELAY, self._ask)
        self._planning = False
        session.activity.changed.connect(self._ask_after_planning)

    def ask(self) -> None:
        """Check again which query is needed."""
        self._timer.start()

    def drop(self) -> None:
        """Drop the pending query."""
        if self._operation is not None:
            self._operation.drop()
            self._forget()

    @property
    def is_awaited(self) -> bool:
        """Whether an answer is pending."""
        return self._operation is not None

    def _ask(self) -> None:
        # While planning the recipe may still be rejected. The end of planning asks again.
        activity = self._session.activity
        unsettled = activity.plan_is_due or activity.is_running(State.PLANNING)
        question = None if unsettled else self._find()
        if question is not None and question == self._question:
            return
        self.drop()
        if question is not None:
            self._question = question
            self._operation = self._engine.run(
                question.job, self._answer, self._end, quiet=self._fail is not None
            )
            self.awaited.emit(True)

    def _ask_after_planning(self) -> None:
        before, self._planning = self._planning, self._session.activity.is_running(State.PLANNING)
        if before and not self._planning:
            self.ask()

    def _answer(self, event: Event) -> None:
        if isinstance(event, LayerDifference):
            self._session.results.comparison.record(event)
        elif isinstance(event, Finding) and self._question is not None:
            key = self._question.keys.get(type(event))
            if key is not None:
                self._session.results.findings.record(key, event)

    def _end(self, end: End) -> None:
        self._forget()
        if isinstance(end, JobFailed) and self._fail is not None:
            self._fail(end.error)

    def _forget(self) -> None:
        self._question = self._operation = None
        self.awaited.emit(False)
