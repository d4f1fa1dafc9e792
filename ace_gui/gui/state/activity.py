"""What the window is doing, how far it is, and what a merge is to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.events import MergeFinished
from ace_gui.engine.contract.figures.findings import LayerReport
from ace_gui.recipe import Recipe
from ace_gui.recipe.values import ParameterValue


class State(StrEnum):
    """What the window is doing; the value is what people read."""

    EMPTY = "nothing loaded"
    PLANNING = "reading headers"
    READY = "ready"
    ANALYSING = "comparing the experts"
    MERGING = "merging"
    MERGED = "merged"
    EXPORTING = "exporting"
    REPORTING = "writing the report"
    SCORING = "scoring"
    COMPARING = "comparing covariances"
    TUNING = "tuning"


RecipeKey = tuple[object, ...]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far the running job is. ``seconds_left`` None: not known yet.

    ``title``: what it is doing just now, where the state does not say it.
    """

    state: State
    done: int
    total: int
    seconds_left: float | None = None
    title: str = ""


@dataclass(kw_only=True)
class MergeRun:
    """A merge: finished, running, or interrupted and to be resumed from its store.

    ``parameters``: as resolved when it began. ``accuracies``: scores by task, where measured.
    ``name``: as the person calls it; ``made``: when it was finished, seconds since 1970; ``bytes``
    of its tensors; ``norm``: of the merged change, by the experts' mean. ``kept``: it stays when
    the window closes and when there are many. ``outdated``: the models have changed since.
    """

    recipe: Recipe
    store: Path
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    reports: dict[str, LayerReport] = field(default_factory=dict)
    finished: MergeFinished | None = None
    accuracies: Mapping[str, float] = field(default_factory=dict)
    exported: bool = False
    name: str = ""
    made: float = 0.0
    bytes: int = 0
    norm: float | None = None
    kept: bool = True
    outdated: bool = False

    @property
    def key(self) -> RecipeKey:
        """Equal for merges of the same models by the same method and values."""
        return (replace(self.recipe, parameters=dict(self.parameters)),)


_BY_PRIORITY: Final = (
    State.EXPORTING,
    State.MERGING,
    State.REPORTING,
    State.TUNING,
    State.SCORING,
    State.COMPARING,
    State.PLANNING,
    State.ANALYSING,
)


class Activity(QObject):
    """The kinds of jobs that run. ``changed``: others run; ``progressed``: one is further.

    ``plan_is_due``: a plan will be asked for in a moment.
    """

    changed = Signal()
    progressed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.plan_is_due = False
        self.progress: Progress | None = None
        self._running: set[State] = set()

    @property
    def foremost(self) -> State | None:
        """The most important kind that runs; None: nothing does."""
        return next((state for state in _BY_PRIORITY if state in self._running), None)

    def is_running(self, *states: State) -> bool:
        """Whether a job of one of these kinds is running, also beside a more important one."""
        return not self._running.isdisjoint(states)

    def begin(self, state: State) -> None:
        """A job of this kind is running."""
        self._running.add(state)
        self.changed.emit()

    def end(self, state: State) -> None:
        """The job of this kind has ended, well or not."""
        self._running.discard(state)
        if self.progress is not None and self.progress.state is state:
            self.set_progress(None)
        self.changed.emit()

    def set_progress(self, progress: Progress | None) -> None:
        """How far the running job is."""
        self.progress = progress
        self.progressed.emit()
