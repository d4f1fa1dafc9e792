"""How the base, the experts and some merges of a sample do on its tasks, for the window's demo."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ace_gui.engine.contract.events import Evaluated, MethodCompared, SampleAccuracy
from ace_gui.engine.contract.scores import EXPERTS, TaskScore, line_of
from ace_gui.engine.evaluating.evaluate import evaluate
from ace_gui.engine.evaluating.subjects import BASE, models_of
from ace_gui.engine.inspecting.compare_recipes import by_method, compare_all
from ace_gui.engine.planning.prepare import preparing
from ace_gui.recipe import Recipe

COMPARED: Final = ("linear", "task_arithmetic", "ace", "ace:automatic")
"""The merges of the table, each with its method's defaults."""


def sample_accuracies(recipe: Recipe) -> Iterator[SampleAccuracy | None]:
    """Held-out accuracy of the base, of each expert on its own task, and of the merges."""
    prepared = yield from preparing(recipe)
    scores: tuple[TaskScore, ...] = ()
    for event in evaluate(models_of(prepared, ()), recipe.tasks, device="cpu"):
        scores = event.scores if isinstance(event, Evaluated) else ()
        yield None
    for line in (BASE, EXPERTS):
        found = {each.task: each.score for each in scores if line_of(each) == line}
        yield SampleAccuracy(model=line, by_task=found)
    for row in compare_all(by_method(recipe, COMPARED), "cpu"):
        yield (
            SampleAccuracy(model=row.title, by_task=row.by_task)
            if isinstance(row, MethodCompared)
            else None
        )
