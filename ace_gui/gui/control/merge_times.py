"""How long merges of the open models take, by method, estimated by trials as in a dry run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from PySide6.QtCore import QObject, QTimer, Signal

from ace_gui.engine.contract.events import Event, MergeEstimated
from ace_gui.engine.contract.jobs import EstimateJob, SampleMergesJob
from ace_gui.gui.control.engine_client import End, EngineClient, RunningJob
from ace_gui.gui.state.draft import Inputs
from ace_gui.recipe import Recipe

DELAY: Final = 200
"""Milliseconds without any engine work before the next method is estimated."""


class MergeTimes(QObject):
    """Seconds of a merge, by inputs. ``changed``: one more is known.

    The engine is asked only while times are visible and no other work runs; any action of the
    person comes first.
    """

    changed = Signal()

    def __init__(self, engine: EngineClient) -> None:
        super().__init__(engine)
        self._session = session = engine.session
        self._engine = engine
        self._seconds: dict[str, float | None] = {}
        """None where trials say nothing, as of methods that need data."""
        self._wanted: Callable[[], Sequence[Inputs]] = tuple
        self._asking: RunningJob | None = None
        self._is_visible = False
        self._timer = QTimer(self, singleShot=True, interval=DELAY)
        self._timer.timeout.connect(self._ask)
        for part in (session.draft, session.results, session.activity):
            part.changed.connect(self._settle)
        engine.idle.connect(self._settle)

    def of(self, key: str) -> float | None:
        """The seconds of the merge with this ``merge_key``; None if not known, or not possible."""
        return self._seconds.get(key)

    def watch(self, wanted: Callable[[], Sequence[Inputs]]) -> None:
        """Estimate what ``wanted`` returns, one after another, while ``set_visible``."""
        self._wanted = wanted

    def set_visible(self, is_visible: bool) -> None:
        """Set whether the times are visible."""
        self._is_visible = is_visible
        self._settle()

    def estimate(self, inputs: Inputs, report: Callable[[float], object]) -> RunningJob | None:
        """Estimate the seconds of one merge.

        Calls ``report`` when they are known. Returns None if nothing is left to find.
        """
        recipe = inputs.recipe()
        key = merge_key(recipe)
        seconds = self._seconds.get(key)
        if seconds is not None:
            report(seconds)
        self._give_way()
        jobs = [entry.job for entry in self._engine.running(object)]
        is_busy = any(not isinstance(job, EstimateJob | SampleMergesJob) for job in jobs)
        if key in self._seconds or not self._session.can_merge or is_busy:
            return None
        return self._begin(recipe, report)

    def _begin(self, recipe: Recipe, report: Callable[[float], object]) -> RunningJob:
        key = merge_key(recipe)

        def receive(event: Event) -> None:
            if isinstance(event, MergeEstimated):
                self._seconds[key] = event.seconds
                report(event.seconds)

        def finish(_: End) -> None:
            self._asking = None
            self._seconds.setdefault(key, None)
            self.changed.emit()

        job = EstimateJob(recipe=recipe, device=self._session.device)
        return self._engine.run(job, receive, finish, quiet=True)

    def _settle(self) -> None:
        """Give way to other work, and go on once there is none."""
        if len(self._engine.running(object)) > 1 or not self._is_visible:
            self._give_way()
        if self._is_visible and self._asking is None:
            self._timer.start()

    def _give_way(self) -> None:
        if self._asking is not None:
            self._asking.drop()
            self._asking = None

    def _ask(self) -> None:
        session = self._session
        if not self._is_visible or self._engine.is_busy or not session.can_merge:
            return
        recipes = [inputs.recipe() for inputs in self._wanted()]
        recipe = next(
            (recipe for recipe in recipes if merge_key(recipe) not in self._seconds), None
        )
        if recipe is not None:
            self._asking = self._begin(recipe, lambda _: self.changed.emit())


def merge_key(recipe: Recipe) -> str:
    """The same text for recipes of the same merge; tasks make no difference."""
    return repr(replace(recipe, tasks=()))
