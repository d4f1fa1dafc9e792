"""Parameters that are looked for by trying them, and what came of it so far."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject

from ace_gui.engine.contract.events import Event
from ace_gui.engine.contract.jobs import TuneJob
from ace_gui.engine.contract.scored.tuned import ParameterRange, Tuned, TunePoint
from ace_gui.gui.control.engine.engine_client import EngineClient
from ace_gui.gui.control.operations.one_operation import OneOperation
from ace_gui.gui.state.activity import Progress, State
from ace_gui.gui.state.session import Session
from ace_gui.recipe.values import Recipe

REPORTED = 2
"""Merges besides those that are tried: the best and the recipe as it was, on the other half."""


class TuneOperation(OneOperation):
    """``points``: merges that were tried; ``tuned``: the end of it."""

    def __init__(
        self, session: Session, engine: EngineClient, parent: QObject | None = None
    ) -> None:
        super().__init__(session, engine, parent)
        self.recipe: Recipe | None = None
        self.ranges: tuple[ParameterRange, ...] = ()
        self.points: tuple[TunePoint, ...] = ()
        self.tuned: Tuned | None = None

    @property
    def obstacle(self) -> str:
        """Why nothing can be tried; empty if nothing is in the way."""
        session = self._session
        if not session.draft.inputs.tasks:
            return "Add a task first."
        return "" if session.can_merge else "Open a base model and its experts first."

    def start(
        self, ranges: Sequence[ParameterRange], merges: int | None, limit: int | None
    ) -> None:
        """Try values of these parameters; what was tried before is forgotten."""
        if self.obstacle or self.is_running or not ranges:
            return
        self.recipe = self._session.draft.inputs.recipe()
        self.ranges, self.points, self.tuned = tuple(ranges), (), None
        job = TuneJob(
            recipe=self.recipe,
            ranges=self.ranges,
            merges=merges,
            limit=limit,
            device=self._session.device,
            cluster=self._session.cluster,
        )
        self._begin(job, quiet=True)

    def take(self, event: Event) -> None:
        """A merge that was tried, or the end of all."""
        match event:
            case TunePoint(index=index, of=of):
                self.points = (*self.points, event)
                progress = Progress(
                    state=State.TUNING, done=index + 1, total=of + REPORTED, title="tuning"
                )
                self._session.activity.set_progress(progress)
            case Tuned():
                self.tuned = event
