"""What is known about the tasks: descriptions, the models' scores, and comparisons of a merge with
base and experts. Also the scores of the built-in sample."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Final

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.scored import (
    BASE,
    EXPERTS,
    ExamplesCompared,
    MeanScore,
    TaskDescribed,
    TaskScore,
    line_of,
    means,
    normalised,
)
from ace_gui.gui.state.draft import Inputs
from ace_gui.paths import resource_path
from ace_gui.recipe.values import Task


class KnownScores(QObject):
    """The known scores. ``changed``: scores were added or became invalid.

    A model is called ``base``, ``experts`` (each on its own task), or by the path of its store.
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
        return self._inputs.tasks

    def line(self, model: str) -> Mapping[str, TaskScore]:
        """A model's scores by task, in the order of the tasks."""
        scores = ((task.title, self._scores.get((model, task.title))) for task in self.tasks)
        return {title: score for title, score in scores if score is not None}

    def mean(self, model: str) -> MeanScore:
        titles = {task.title for task in self.tasks}
        scores = [score for (_, title), score in self._scores.items() if title in titles]
        line = next((mean for mean in means(scores) if mean.model == model), None)
        return line or MeanScore(model=model, score=None, normalised=None)

    @property
    def models(self) -> frozenset[str]:
        return frozenset(model for model, _ in self._scores)

    def is_complete(self, model: str) -> bool:
        """Whether the model has been evaluated on every possible task."""
        titles = [
            task.title for task in self.tasks if model != EXPERTS or self.owner(task) is not None
        ]
        return all((model, title) in self._scores for title in titles)

    def owner(self, task: Task) -> str | None:
        """The name of the task's own expert, or None."""
        expert = task.expert or task.title
        if expert in self._inputs.names:
            return expert
        return None

    def owner_of(self, title: str) -> str | None:
        return next((self.owner(task) for task in self.tasks if task.title == title), None)

    def described(self, task: Task) -> TaskDescribed | None:
        """The description of a task, None if it is not known yet."""
        description = self._described.get(task.title)
        if description is not None and description.task == task:
            return description
        return None

    def examples(self, store: Path, *, with_base: bool) -> Mapping[str, ExamplesCompared]:
        """The examples that a merge lost and gained, by task, as far as they are known."""
        return self._examples.get((str(store), with_base), {})

    # Updates

    def follow(self, inputs: Inputs) -> None:
        """Drop results of other models or tasks."""
        old = self._inputs
        self._inputs = inputs
        if _models(old) != _models(inputs):
            self._scores.clear()
            self._described.clear()
            self._examples.clear()
        elif old.tasks == inputs.tasks:
            return
        unchanged = {task.title for task in inputs.tasks if task in old.tasks}
        self._scores = {key: score for key, score in self._scores.items() if key[1] in unchanged}
        if old.tasks != inputs.tasks:
            self._examples.clear()
        self.changed.emit()

    def record(self, scores: Iterable[TaskScore], model: str | None = None) -> None:
        """Record scores. ``model``: the model of all these scores, instead of each score's own."""
        for score in scores:
            of_model = replace(score, model=model or score.model)
            self._scores[line_of(of_model), of_model.task] = of_model
        self.changed.emit()

    def describe(self, description: TaskDescribed) -> None:
        self._described[description.task.title] = description
        self.changed.emit()

    def compare(self, store: Path, compared: ExamplesCompared, *, with_base: bool) -> None:
        self._examples.setdefault((str(store), with_base), {})[compared.task] = compared
        self.changed.emit()


def _models(inputs: Inputs) -> tuple[object, ...]:
    return inputs.base, inputs.names, tuple(expert.path for expert in inputs.experts)


MEAN = "mean"


@dataclass(frozen=True, kw_only=True)
class ScoreFigure:
    """A score and its standard error; NaN if not known."""

    value: float = math.nan
    error: float = math.nan


@dataclass(frozen=True, kw_only=True)
class TaskFigures:
    """A task, or the mean of all."""

    title: str
    """The task's title."""
    metric: str
    """Its metric."""
    owner: str | None
    """Its own expert; None if it has none."""
    base: ScoreFigure
    """The base's score."""
    merge: ScoreFigure
    """The merge's score."""
    expert: ScoreFigure
    """The expert's score."""
    kept: float
    """The merge's score over the expert's; NaN if unknown."""
    base_kept: float
    """The base's score over the expert's; NaN if unknown."""
    lost: int | None
    """Examples that the expert has right and the merge has not; None if unknown."""
    gained: int | None
    """Examples that the merge has right and the expert has not; None if unknown."""
    n: int
    """Number of examples."""
    chance: float = math.nan
    """The score of answers at random; NaN if unknown."""
    is_mean: bool = False
    """Whether it is the mean of all tasks."""


def figures_of(scores: KnownScores, model: str) -> list[TaskFigures]:
    """The figures of every task, after their mean if there are several."""
    base, merge, experts = (scores.line(line) for line in (BASE, model, EXPERTS))
    rows = []
    for task in scores.tasks:
        title = task.title
        merged = merge.get(title)
        expert = experts.get(title)
        of_base = base.get(title)
        known_one = merged or expert or of_base
        if known_one is None:
            continue
        lost, gained = _changes(merged, expert)
        description = scores.described(task)
        rows.append(
            TaskFigures(
                title=title,
                metric=known_one.metric,
                owner=scores.owner(task),
                base=_figure(of_base),
                merge=_figure(merged),
                expert=_figure(expert),
                kept=_number(merged.normalised if merged else None),
                base_kept=_number(of_base.normalised if of_base else None),
                lost=lost,
                gained=gained,
                n=known_one.n,
                chance=_number(description.chance if description else None),
            )
        )
    if len(rows) > 1:
        return [_mean(scores, model, rows), *rows]
    return rows


def experts_are_better(rows: Sequence[TaskFigures]) -> bool:
    """Whether the experts surpass the base on their own tasks by more than the standard error.

    True if that is not known.
    """
    shares = []
    errors = []
    for row in rows:
        share = normalised(row.metric, row.base.value, row.expert.value)
        if row.is_mean or row.owner is None or share is None:
            continue
        parts = [
            figure.error / figure.value for figure in (row.base, row.expert) if figure.error > 0
        ]
        shares.append(share)
        errors.append(share * math.hypot(*parts))
    if not shares:
        return True
    return sum(shares) < len(shares) - math.hypot(*errors)


def _mean(scores: KnownScores, model: str, rows: Sequence[TaskFigures]) -> TaskFigures:
    lost, gained = ([getattr(row, name) for row in rows] for name in ("lost", "gained"))

    def mean_of(line: str, figures: Sequence[ScoreFigure]) -> ScoreFigure:
        # Tasks have independent data, so the variances of their errors add up.
        error = math.sqrt(sum(figure.error**2 for figure in figures)) / len(figures)
        return ScoreFigure(value=_number(scores.mean(line).score), error=error)

    return TaskFigures(
        title=MEAN,
        metric=rows[0].metric if len({row.metric for row in rows}) == 1 else "score",
        owner=None,
        base=mean_of(BASE, [row.base for row in rows]),
        merge=mean_of(model, [row.merge for row in rows]),
        expert=mean_of(EXPERTS, [row.expert for row in rows]),
        kept=_number(scores.mean(model).normalised),
        base_kept=_number(scores.mean(BASE).normalised),
        lost=None if None in lost else sum(lost),
        gained=None if None in gained else sum(gained),
        n=sum(row.n for row in rows),
        chance=fmean(row.chance for row in rows),
        is_mean=True,
    )


def _changes(merged: TaskScore | None, expert: TaskScore | None) -> tuple[int | None, int | None]:
    from ace_gui.engine.contract.scored import AnswerVerdict
    from ace_gui.engine.contract.verdicts import verdicts

    if merged is None or expert is None or len(merged.each_N) != len(expert.each_N):
        return None, None
    verdict_N = verdicts(merged.metric, merged.each_N, expert.each_N)
    return int((verdict_N == AnswerVerdict.LOST).sum()), int(
        (verdict_N == AnswerVerdict.GAINED).sum()
    )


def _figure(score: TaskScore | None) -> ScoreFigure:
    if score is None:
        return ScoreFigure()
    return ScoreFigure(value=score.score, error=score.standard_error)


def _number(value: float | None) -> float:
    if value is None:
        return math.nan
    return value


PICTURES: Final[Path] = resource_path("sample/pictures.png")
"""One held-out image per task, in a row."""


@dataclass(frozen=True, kw_only=True)
class SampleFigures:
    """Mean accuracies on the held-out images. ``methods``: of each method with its defaults."""

    tasks: tuple[str, ...]
    base: float
    experts: float
    methods: Mapping[str, float]


@cache
def sample_figures() -> SampleFigures:
    """The figures of the sample, which the package contains."""
    figures = json.loads(resource_path("sample/figures.json").read_text(encoding="utf-8"))
    return SampleFigures(
        tasks=tuple(figures["tasks"]),
        base=figures["base"],
        experts=figures["experts"],
        methods=figures["methods"],
    )
