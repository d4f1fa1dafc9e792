"""The sample project: its recipe, and how its base, experts and merges do on its tasks."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from ace_gui.engine.contract.events import Evaluated, SampleAccuracy
from ace_gui.engine.contract.scores import EXPERTS, TaskScore, line_of
from ace_gui.engine.evaluating.evaluate import evaluate, merged_scores
from ace_gui.engine.evaluating.subjects import BASE, models_of
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.merging.store import MODEL
from ace_gui.engine.planning.prepare import preparing
from ace_gui.methods import method_variant
from ace_gui.paths import resource_path
from ace_gui.recipe import Recipe
from ace_gui.recipe.recipe_file import load_recipe

COMPARED: Final = ("linear", "task_arithmetic", "ace", "ace:automatic")
"""The merges of the sample's table, each with its method's defaults."""


def sample_recipe() -> Recipe:
    """The sample's recipe, as it comes with the application."""
    return load_recipe(resource_path("sample/sample.yaml"))


def sample_accuracies() -> Iterator[SampleAccuracy | None]:
    """Held-out accuracy of the base, of each expert on its own task, and of the merges."""
    recipe = sample_recipe()
    prepared = yield from preparing(recipe)
    scores: tuple[TaskScore, ...] = ()
    for event in evaluate(models_of(prepared, ()), recipe.tasks, device="cpu"):
        scores = event.scores if isinstance(event, Evaluated) else ()
        yield None
    for line in (BASE, EXPERTS):
        found = {each.task: each.score for each in scores if line_of(each) == line}
        yield SampleAccuracy(model=line, by_task=found)
    for name in COMPARED:
        method, variant = method_variant(name)
        changed = replace(recipe, merge_method=method.name, parameters=variant)
        yield from _merged(", ".join((method.title, *variant.values())), changed)


def _merged(title: str, recipe: Recipe) -> Iterator[SampleAccuracy | None]:
    prepared = yield from preparing(recipe)
    with tempfile.TemporaryDirectory(prefix="ace-sample-") as folder:
        store = Path(folder) / "store"
        for _ in merge(prepared, store, device="cpu", as_output=True):
            yield None
        scores = yield from merged_scores(prepared, store / MODEL, "cpu", alone=True)
    yield SampleAccuracy(model=title, by_task={each.task: each.score for each in scores})
