"""The search for parameters, and its results so far."""

from __future__ import annotations

from collections.abc import Sequence

from ace_gui.engine.contract.events import Event
from ace_gui.engine.contract.jobs import TuneJob
from ace_gui.engine.contract.scored.tuned import ParameterRange, Tuned, TunePoint
from ace_gui.gui.control.operations.one_operation import OneOperation
from ace_gui.gui.state.activity import Progress, State
from ace_gui.recipe.values import Recipe

REPORTED = 2
"""Merges in addition to the trials: the best and the original recipe, on the other half."""


class TuneOperation(OneOperation):
    """``points`` are the merges tried so far; ``tuned`` is the final result."""

    recipe: Recipe | None = None
    ranges: tuple[ParameterRange, ...] = ()
    points: tuple[TunePoint, ...] = ()
    tuned: Tuned | None = None

    @property
    def obstacle(self) -> str:
        """The reason why no search can start, or an empty string."""
        session = self._session
        if not session.draft.inputs.tasks:
            return "Add a task first."
        return "" if session.can_merge else "Open a base model and its experts first."

    def start(
        self, ranges: Sequence[ParameterRange], merges: int | None, limit: int | None
    ) -> None:
        """Try values of these parameters. Earlier trials are dropped."""
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
        """Take a trial or the final result."""
        match event:
            case TunePoint(index=index, of=of):
                self.points = (*self.points, event)
                progress = Progress(
                    state=State.TUNING, done=index + 1, total=of + REPORTED, title="tuning"
                )
                self._session.activity.set_progress(progress)
            case Tuned():
                self.tuned = event
