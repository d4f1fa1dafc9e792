"""What the window is doing, its progress, its merge runs, and its log."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Final

from PySide6.QtCore import QObject, QTimer, Signal

from ace_gui.engine.contract.events import MergeFinished
from ace_gui.engine.contract.findings import LayerReport
from ace_gui.recipe import Recipe
from ace_gui.recipe.values import ParameterValue


class ActivityState(StrEnum):
    """What the window is doing. The value is the displayed text."""

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


STARTING: Final = "starting the engine"
"""What the window does in any state until the engine can work."""


RecipeKey = tuple[object, ...]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress of the running job. ``seconds_left``: None if not known yet.

    ``title``: the name of the current step if the state does not name it.
    """

    state: ActivityState
    done: int
    total: int
    seconds_left: float | None = None
    title: str = ""


@dataclass(kw_only=True)
class MergeRun:
    """A merge: finished, running, or interrupted and to be resumed from its store."""

    recipe: Recipe
    """What is merged."""
    store: Path
    """The folder of its tensors."""
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    """The method's values at its start."""
    reports: dict[str, LayerReport] = field(default_factory=dict)
    """By the rows' names, as far as it has come."""
    finished: MergeFinished | None = None
    """Set at its end."""
    accuracies: Mapping[str, float] = field(default_factory=dict)
    """The measured scores by task."""
    exported: bool = False
    """Whether it was exported."""
    name: str = ""
    """The person's own; empty without one."""
    made: float = 0.0
    """The time of its end, in seconds since 1970."""
    bytes: int = 0
    """The size of its tensors."""
    norm: float | None = None
    """Of the merged change, over the experts' mean; None if unknown."""
    kept: bool = True
    """Whether it stays when the window closes or newer runs are made."""
    outdated: bool = False
    """Whether its models have changed since."""

    @property
    def key(self) -> RecipeKey:
        """A key that is equal for merges of the same models with the same method and values."""
        return recipe_key(self.recipe, self.parameters)


def recipe_key(recipe: Recipe, parameters: Mapping[str, ParameterValue]) -> RecipeKey:
    """A key that is equal for recipes of the same merge, with or without names of its experts."""
    named = zip(recipe.models, recipe.expert_names, strict=True)
    models = tuple(replace(entry, name=name) for entry, name in named)
    return (replace(recipe, models=models, parameters=dict(parameters)),)


_BY_PRIORITY: Final = (
    ActivityState.EXPORTING,
    ActivityState.MERGING,
    ActivityState.REPORTING,
    ActivityState.TUNING,
    ActivityState.SCORING,
    ActivityState.COMPARING,
    ActivityState.PLANNING,
    ActivityState.ANALYSING,
)


def start_once(timer: QTimer) -> None:
    """Start the timer unless it is running, so that many changes share one update."""
    if not timer.isActive():
        timer.start()


class Activity(QObject):
    """The kinds of running jobs. ``changed``: a job has begun or ended; ``progressed``: a job has
    advanced. ``plan_is_due``: a plan is about to be requested. ``engine_is_starting``: jobs wait
    until the engine has imported what it needs, which takes seconds.
    """

    changed = Signal()
    progressed = Signal()
    plan_is_due = False
    engine_is_starting = True
    progress: Progress | None = None
    _running: frozenset[ActivityState] = frozenset()

    @property
    def foremost(self) -> ActivityState | None:
        """The most important kind of running job, or None."""
        return next((state for state in _BY_PRIORITY if state in self._running), None)

    def counted(self, state: ActivityState | None) -> Progress | None:
        """The progress of a job of this kind, if its total is known."""
        progress = self.progress
        if progress is not None and progress.state is state and progress.total > 0:
            return progress
        return None

    def words(self, state: ActivityState) -> str:
        """What the window does in this state now."""
        if self.engine_is_starting:
            return STARTING
        return state.value

    def set_engine_starting(self, starting: bool) -> None:
        if starting != self.engine_is_starting:
            self.engine_is_starting = starting
            self.changed.emit()

    def is_running(self, *states: ActivityState) -> bool:
        """Whether a job of one of these kinds is running, even if it is not the foremost."""
        return not self._running.isdisjoint(states)

    @property
    def is_writing(self) -> bool:
        """Whether a merge or an export is running, which needs the models and files."""
        return self.is_running(ActivityState.MERGING, ActivityState.EXPORTING)

    def begin(self, state: ActivityState) -> None:
        self._running |= {state}
        self.changed.emit()

    def end(self, state: ActivityState) -> None:
        """Note that the job of this kind has ended, successfully or not."""
        self._running -= {state}
        if self.progress is not None and self.progress.state is state:
            self.set_progress(None)
        self.changed.emit()

    def complete(self, *, title: str = "", seconds_left: float | None = None) -> None:
        """Add to the current progress what only the owner of the job knows."""
        if self.progress is not None:
            title = title or self.progress.title
            self.set_progress(replace(self.progress, title=title, seconds_left=seconds_left))

    def set_progress(self, progress: Progress | None) -> None:
        self.progress = progress
        self.progressed.emit()


KEPT: Final = 2000
"""Maximum number of entries."""


class Level(IntEnum):
    """The severity of a message. Its title in lower case names its icon; DETAIL has no icon."""

    DETAIL = 0
    INFO = 1
    WARNING = 2
    ERROR = 3

    @property
    def title(self) -> str:
        return self.name.capitalize()


class LogSource(StrEnum):
    """The origin of an entry."""

    ENGINE = "Engine"
    WINDOW = "Window"


@dataclass(frozen=True, kw_only=True)
class LogEntry:
    """An entry of the log. ``when``: seconds since 1970."""

    when: float
    level: Level
    source: LogSource
    text: str
    details: str = ""

    @property
    def line(self) -> str:
        """``18:20:05 Error Window: The file is gone.``, with the details below it."""
        clock = time.strftime("%H:%M:%S", time.localtime(self.when))
        line = f"{clock} {self.level.title} {self.source}: {self.text}"
        if self.details:
            return f"{line}\n{self.details}"
        return line


class Log(QObject):
    """The messages of the window. ``added`` carries each new Entry."""

    added = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._entries: deque[LogEntry] = deque(maxlen=KEPT)

    @property
    def entries(self) -> tuple[LogEntry, ...]:
        """The entries, oldest first."""
        return tuple(self._entries)

    def add(self, level: Level, source: LogSource, text: str, details: str = "") -> None:
        """Add a message, unless it repeats the previous one."""
        if self._entries:
            last = self._entries[-1]
        else:
            last = None
        if last is not None and (last.level, last.text) == (level, text):
            return
        entry = LogEntry(when=time.time(), level=level, source=source, text=text, details=details)
        self._entries.append(entry)
        self.added.emit(entry)
