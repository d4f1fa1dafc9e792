"""What the window is doing, how far it is, and what a merge is to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ace_gui.engine.contract.events import MergeFinished
from ace_gui.engine.contract.findings import LayerReport
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

    ``parameters``: as resolved when it began. ``accuracies``: held out, by task, where measured.
    """

    recipe: Recipe
    key: RecipeKey
    store: Path
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    reports: dict[str, LayerReport] = field(default_factory=dict)
    finished: MergeFinished | None = None
    accuracies: Mapping[str, float] = field(default_factory=dict)
    exported: bool = False
