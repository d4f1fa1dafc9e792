"""Describes tasks before scoring: the inferred settings, first examples, and errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from ace_gui.engine.contract.scored.shown_examples import TaskDescribed
from ace_gui.engine.evaluating.data.open_table import open_table
from ace_gui.engine.evaluating.displayed import answer_names, answer_text, shown_example
from ace_gui.engine.evaluating.evaluate import trials_of
from ace_gui.engine.evaluating.examples import columns_of, kind_of, kinds_of, metric_of
from ace_gui.engine.evaluating.kinds.every_kind import KINDS
from ace_gui.engine.evaluating.subjects import Models, models_of
from ace_gui.engine.planning.prepare import Prepared
from ace_gui.errors import TaskError, WorkbenchError
from ace_gui.recipe.tasks import Task
from ace_gui.steps import Steps

SHOWN: Final = 3
"""Number of examples shown for a task."""


def described(prepared: Prepared, tasks: Sequence[Task]) -> Iterator[TaskDescribed | None]:
    """Each task as it would be scored. Errors are part of the description, not raised."""
    titles = Counter(task.title for task in prepared.plan.recipe.tasks)
    models = models_of(prepared, ())
    for task in tasks:
        found: dict[str, Any] = {"task": task}
        try:
            if titles[task.title] > 1:
                raise TaskError(f"Two tasks are called {task.title!r}; give each a name.")
            yield from _describe(found, models, task)
        except WorkbenchError as error:
            found["fault"] = error.sentence
        yield TaskDescribed(**found)


def _describe(found: dict[str, Any], models: Models, task: Task) -> Steps[None]:
    """Fill in the description step by step, as an error may come later. Raises TaskError."""
    name = task.title
    table = open_table(task.data)
    found["table_columns"] = table.columns
    owner = models.owner(task, name)
    found["expert"] = None if owner is None else models.owner_name(task, name)
    config = models.reference(task, name)
    found["kinds"] = tuple(kinds_of(config))
    kind = found["kind"] = kind_of(task, config, table)
    traits = KINDS[kind]
    found.update(metrics=traits.metrics, roles=traits.roles, optional=traits.optional)
    found["metric"] = metric_of(task, kind)
    found["columns"] = columns_of(task, kind, table)
    trials = yield from trials_of(models, task, name)
    first = next((t for t in trials if t.subject.expert == owner is not None), trials[0])
    names, examples = answer_names(first.data, first.loading.config), first.data.examples
    found["count"] = len(examples)
    found["examples"] = tuple(
        shown_example(example, answer_text(first.data, example, target, names))
        for example, target in zip(examples[:SHOWN], first.targets, strict=False)
    )
