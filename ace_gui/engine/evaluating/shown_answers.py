"""Examples with models' answers, and routes, for display besides scores.

T experts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ace_gui.engine.capabilities import resolve_device
from ace_gui.engine.contract.events import EvaluationProgress, Event
from ace_gui.engine.contract.scored import (
    LOSSES,
    AnswerVerdict,
    ComparedExample,
    ExamplesCompared,
    RoutesFound,
    ShownExample,
    TaskDescribed,
    TaskRoutes,
)
from ace_gui.engine.contract.verdicts import verdicts
from ace_gui.engine.evaluating.evaluate import (
    MERGED,
    Outcome,
    Trial,
    all_trials,
    known_tasks,
    outcomes_of,
    progress_of,
    require_own_names,
    trials_of,
)
from ace_gui.engine.evaluating.examples import columns_of, kind_of, kinds_of, metric_of
from ace_gui.engine.evaluating.kinds import KINDS
from ace_gui.engine.evaluating.loaded_models import Loaded, answered
from ace_gui.engine.evaluating.open_table import open_table
from ace_gui.engine.evaluating.subjects import Loading, Models
from ace_gui.engine.evaluating.task_data import (
    Example,
    Picture,
)
from ace_gui.engine.modules.layers import ObservedRouter, routers_of
from ace_gui.engine.modules.stored import MODULES
from ace_gui.engine.planning.recipe_models import RecipeModels
from ace_gui.errors import WorkbenchError
from ace_gui.methods.shared.expert_modules import ModuleKind
from ace_gui.recipe import Recipe
from ace_gui.recipe.task_kinds import TOKENS, Metric
from ace_gui.recipe.values import Task
from ace_gui.steps import Steps

PIXELS: Final = 128
"""Largest width and height of a shown picture."""

CHARACTERS: Final = 2000
"""Most characters of a shown text."""


def shown_example(example: Example, label: str) -> ShownExample:
    """An example's inputs and right answer as texts and a small picture."""
    texts = []
    picture = None
    for role, value in example.inputs.items():
        if isinstance(value, Picture):
            picture = small_picture(value)
        elif isinstance(value, str):
            texts.append((role, cut(value)))
        else:
            texts.append((role, cut((" " if role == TOKENS else " · ").join(value))))
    return ShownExample(row=example.row, texts=tuple(texts), picture=picture, label=label)


def small_picture(opened: Picture) -> NDArray[np.uint8]:
    """A picture at most ``PIXELS`` wide and high, H × W × 3, uint8. Raises TaskError."""
    picture = opened.opened()
    if max(picture.size) > PIXELS:
        picture.thumbnail((PIXELS, PIXELS))
    return np.asarray(picture.convert("RGB"), dtype=np.uint8)


def cut(text: str) -> str:
    """The beginning of a long text."""
    return text if len(text) <= CHARACTERS else f"{text[: CHARACTERS - 1]}…"


# Tasks before scoring

SHOWN: Final = 3
"""Number of examples shown for a task."""


def described(opened: RecipeModels, tasks: Sequence[Task]) -> Iterator[TaskDescribed | None]:
    """Each task as it would be scored. Errors are part of the description, not raised."""
    models = Models(opened)
    all_tasks = opened.recipe.tasks
    for task in tasks:
        fields: dict[str, Any] = {"task": task}
        try:
            require_own_names(
                [known_task for known_task in all_tasks if known_task.title == task.title]
            )
            yield from _describe(fields, models, opened.recipe, task)
        except WorkbenchError as error:
            fields["fault"] = error.sentence
            fields["wrong"] = getattr(error, "setting", "") or error.key or ""
        if fields.get("wrong") == "labels":
            fields["fitting"] = yield from _fitting_experts(models, opened.recipe, task)
        yield TaskDescribed(**fields)


def _fitting_experts(models: Models, recipe: Recipe, task: Task) -> Steps[tuple[str, ...]]:
    """The experts whose labels are those of all examples: the task's own, or else the others."""
    own = task.expert or task.title
    fitting = []
    for name in sorted(recipe.expert_names, key=lambda name: name != own):
        tried = replace(task, expert=name, labels=())
        try:
            yield from _describe({}, models, recipe, tried)
        except WorkbenchError:
            continue
        if name == own:
            return (name,)
        fitting.append(name)
    return tuple(fitting)


def _describe(
    description: dict[str, Any], models: Models, recipe: Recipe, task: Task
) -> Steps[None]:
    """Fill in the description step by step, as an error may come later. Raises TaskError."""
    table = open_table(task.data)
    description["table_columns"] = table.columns
    owner = models.owner(task)
    description["expert"] = None if owner is None else recipe.expert_names[owner]
    config = models.reference(task)
    description["kinds"] = tuple(kinds_of(config))
    kind = description["kind"] = kind_of(task, config, table)
    traits = kind.traits
    answers = KINDS[kind]
    description.update(metrics=traits.metrics, roles=traits.roles, optional=traits.optional)
    description["metric"] = metric_of(task, kind)
    description["columns"] = columns_of(task, kind, table)
    trials = yield from trials_of(models, task)
    first = next((t for t in trials if t.subject.expert == owner is not None), trials[0])
    names = answers.names(first.data, first.loading.config)
    examples = first.data.examples
    description["count"] = len(examples)
    if description["metric"] is Metric.ACCURACY:
        description["chance"] = answers.chance(first.data, first.loading.config)
    shown_examples = []
    for example, target in zip(examples[:SHOWN], first.targets, strict=False):
        shown_examples.append(shown_example(example, cut(answers.text(example, target, names))))
    description["examples"] = tuple(shown_examples)


# What a model lost and gained

MOST: Final = 60
"""Most examples shown for each verdict and task."""


def compared_examples(
    opened: RecipeModels, folder: Path, *, with_base: bool, device: str
) -> Iterator[Event | None]:
    """Compare a merged model in a folder with each task's own expert, or with the base.

    A task without an expert is left out when comparing with experts. Cached answers are reused.
    Raises TaskError and CheckpointError.
    """
    where = resolve_device(device)
    models = Models(opened, (folder,), (MERGED,))
    for task in known_tasks(opened.recipe):
        trials = yield from trials_of(models, task)
        merged = [t for t in trials if t.subject.expert is None and not t.subject.is_base]
        if with_base:
            compared = [t for t in trials if t.subject.is_base]
        else:
            compared = [t for t in trials if t.subject.expert == t.owner is not None]
        if not (merged and compared):
            continue
        outcomes: list[tuple[Trial, Outcome]] = []
        for event in outcomes_of([*merged, *compared], where):
            if isinstance(event, EvaluationProgress):
                yield event
            else:
                outcomes.append(event)
        yield _compared(str(folder), *outcomes)


def _compared(
    name: str, first: tuple[Trial, Outcome], second: tuple[Trial, Outcome]
) -> ExamplesCompared:
    (trial, outcome) = first
    (second_trial, second_outcome) = second
    metric = trial.data.metric
    data = trial.data
    kind = KINDS[trial.data.kind]
    each_N = outcome.measured.each_N
    other_N = second_outcome.measured.each_N
    verdict_N = verdicts(metric.value, each_N, other_N)
    change_N = np.abs(each_N - other_N) if metric.value in LOSSES else np.zeros(len(each_N))
    names = kind.names(data, trial.loading.config)
    other_names = kind.names(data, second_trial.loading.config)

    def shown(index: int) -> ComparedExample:
        example = data.examples[index]
        label = cut(kind.text(example, trial.targets[index], names))
        return ComparedExample(
            example=shown_example(example, label),
            answer=cut(kind.text(example, outcome.answers[index], names)),
            other=cut(kind.text(example, second_outcome.answers[index], other_names)),
        )

    shown_verdicts = (AnswerVerdict.LOST, AnswerVerdict.GAINED, AnswerVerdict.BOTH_WRONG)
    indices = {
        verdict: _shown_indices(verdict_N == verdict, change_N) for verdict in shown_verdicts
    }
    return ExamplesCompared(
        task=data.name,
        kind=data.kind,
        metric=metric,
        model=name,
        other=second_trial.subject.name,
        counts={verdict: int((verdict_N == verdict).sum()) for verdict in AnswerVerdict},
        examples={verdict: tuple(map(shown, chosen)) for verdict, chosen in indices.items()},
    )


def _shown_indices(chosen_N: NDArray[np.bool_], change_N: NDArray[np.float64]) -> list[int]:
    """Indices of the first examples, or of those that changed most."""
    indices = np.flatnonzero(chosen_N)
    order = np.argsort(-change_N[indices], kind="stable")
    return [int(index) for index in indices[order][:MOST]]


_UNROUTED = frozenset({ModuleKind.TASK, ModuleKind.SURGERY})


def routed(models: Models, tasks: Sequence[Task], device: str = "auto") -> Iterator[Event | None]:
    """Run the folders with routers on every task: EvaluationProgress, then RoutesFound.

    Raises the errors of ``evaluate``.
    """
    where = resolve_device(device)
    routes = list[TaskRoutes]()
    every_trial = yield from all_trials(models, tasks)
    trials = []
    for trial in every_trial:
        modules = trial.loading.modules
        if modules is not None and modules.kind not in _UNROUTED:
            trials.append(trial)
    total = 2 * sum(len(trial.data.examples) for trial in trials)
    done = 0
    seconds = dict[tuple[str, str], float]()
    loaded = Loaded(where)
    for with_modules in (False, True):  # one model after the other, to load each rarely
        for trial in trials:
            key = trial.subject.name, trial.data.name
            routed_evaluator = loaded.evaluator(
                trial.data, _loading(trial, with_modules=with_modules)
            )
            means = (
                [_Mean(router) for router in routers_of(routed_evaluator.model)]
                if with_modules
                else []
            )
            started = time.perf_counter()
            for step in answered(routed_evaluator):
                if isinstance(step, int):
                    yield progress_of(trial, done + step, total)
            duration = (time.perf_counter() - started) / max(len(trial.data.examples), 1)
            done += len(trial.data.examples)
            if with_modules:
                routes.append(_routes(trial, models, means, duration, seconds[key]))
            else:
                seconds[key] = duration
    yield RoutesFound(routes=tuple(routes))


def _loading(trial: Trial, *, with_modules: bool) -> Loading:
    """The source of a routed model, which is the same model for every task."""
    modules = trial.loading.modules
    assert modules is not None
    return replace(trial.loading, modules=replace(modules, expert=None) if with_modules else None)


class _Mean:
    """The mean of one router's weights over examples, each averaged over its tokens."""

    def __init__(self, router: ObservedRouter) -> None:
        self.location = router.location
        self.experts = router.experts
        self._total = torch.zeros(len(self.experts), dtype=torch.float64)
        self._count = 0
        router.observer = self._add

    def _add(self, share: Tensor) -> None:
        self._total += share.reshape(-1, share.shape[-1]).double().mean(dim=0).cpu()
        self._count += 1

    def of(self, experts: Sequence[str]) -> tuple[float, ...]:
        """The mean by expert; 0 for experts without a part in the layer."""
        means = (self._total / max(self._count, 1)).tolist()
        by_expert = dict(zip(self.experts, means, strict=True))
        return tuple(by_expert.get(name, 0.0) for name in experts)


def _routes(
    trial: Trial, models: Models, means: Sequence[_Mean], seconds: float, plain_seconds: float
) -> TaskRoutes:
    experts = tuple(dict.fromkeys(chain.from_iterable(mean.experts for mean in means)))
    names = None if models.opened is None else models.opened.recipe.expert_names
    return TaskRoutes(
        model=trial.subject.name,
        task=trial.data.name,
        owner=None if names is None or trial.owner is None else names[trial.owner],
        layers=tuple(mean.location for mean in means),
        experts=experts,
        share_LT=tuple(mean.of(experts) for mean in means),
        n=len(trial.data.examples),
        seconds=seconds,
        plain_seconds=plain_seconds,
        module_bytes=(trial.loading.folder / MODULES).stat().st_size,
    )
