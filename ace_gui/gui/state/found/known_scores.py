"""What is known of the tasks: their description, and each model's scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.scored.scores import (
    EXPERTS,
    MeanScore,
    TaskScore,
    line_of,
    means,
)
from ace_gui.engine.contract.scored.task_examples import ExamplesCompared, TaskDescribed
from ace_gui.gui.state.chosen.inputs import Inputs
from ace_gui.recipe.tasks import Task


class KnownScores(QObject):
    """``changed`` follows whenever a score is added or becomes invalid.

    A model is named ``base``, ``experts`` (each on its own task), or by the path of its store.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._inputs = Inputs()
        self._scores: dict[tuple[str, str], TaskScore] = {}
        self._described: dict[str, TaskDescribed] = {}
        self._examples: dict[tuple[str, bool], dict[str, ExamplesCompared]] = {}

    # Queries

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks of the current inputs."""
        return self._inputs.tasks

    def line(self, model: str) -> Mapping[str, TaskScore]:
        """A model's scores by task, in the order of the tasks."""
        found = ((task.title, self._scores.get((model, task.title))) for task in self.tasks)
        return {title: score for title, score in found if score is not None}

    def mean(self, model: str) -> MeanScore:
        """A model's means over all tasks."""
        known = {task.title for task in self.tasks}
        every = [score for (_, title), score in self._scores.items() if title in known]
        line = next((each for each in means(every) if each.model == model), None)
        return line or MeanScore(model=model, score=None, normalised=None)

    @property
    def models(self) -> frozenset[str]:
        """The models with any known score."""
        return frozenset(model for model, _ in self._scores)

    def is_complete(self, model: str) -> bool:
        """Whether the model has been evaluated on every possible task."""
        wanted = [
            task.title for task in self.tasks if model != EXPERTS or self.owner(task) is not None
        ]
        return all((model, title) in self._scores for title in wanted)

    def owner(self, task: Task) -> str | None:
        """The task's own expert."""
        wanted = task.expert or task.title
        return wanted if wanted in self._inputs.names else None

    def owner_of(self, title: str) -> str | None:
        """The own expert of the task with this name."""
        return next((self.owner(task) for task in self.tasks if task.title == title), None)

    def described(self, task: Task) -> TaskDescribed | None:
        """The description of a task; None: not known yet."""
        found = self._described.get(task.title)
        return found if found is not None and found.task == task else None

    def examples(self, store: Path, *, with_base: bool) -> Mapping[str, ExamplesCompared]:
        """What a merge lost and gained, by task, as far as known."""
        return self._examples.get((str(store), with_base), {})

    # Updates

    def follow(self, inputs: Inputs) -> None:
        """Drop results of other models or tasks."""
        before, self._inputs = self._inputs, inputs
        if _models(before) != _models(inputs):
            self._scores.clear()
            self._described.clear()
            self._examples.clear()
        elif before.tasks == inputs.tasks:
            return
        same = {task.title for task in inputs.tasks if task in before.tasks}
        self._scores = {key: each for key, each in self._scores.items() if key[1] in same}
        if before.tasks != inputs.tasks:
            self._examples.clear()
        self.changed.emit()

    def record(self, scores: Iterable[TaskScore], model: str | None = None) -> None:
        """Record scores, each with its model, or all of one model."""
        for score in scores:
            named = replace(score, model=model or score.model)
            self._scores[line_of(named), named.task] = named
        self.changed.emit()

    def describe(self, found: TaskDescribed) -> None:
        """Record the description of a task."""
        self._described[found.task.title] = found
        self.changed.emit()

    def compare(self, store: Path, found: ExamplesCompared, *, with_base: bool) -> None:
        """Record what a merge lost and gained on one task."""
        self._examples.setdefault((str(store), with_base), {})[found.task] = found
        self.changed.emit()


def _models(inputs: Inputs) -> tuple[object, ...]:
    return inputs.base, inputs.names, tuple(expert.path for expert in inputs.experts)
