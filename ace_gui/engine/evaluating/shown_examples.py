"""Examples and answers for display: of tasks before scoring, and those a model lost or gained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ace_gui.engine.contract.events import EvaluationProgress, Event
from ace_gui.engine.contract.scored import (
    LOSSES,
    ComparedExample,
    ExamplesCompared,
    ShownExample,
    TaskDescribed,
    Verdict,
)
from ace_gui.engine.contract.verdicts import verdicts
from ace_gui.engine.devices import resolve_device
from ace_gui.engine.evaluating.data.images import Picture
from ace_gui.engine.evaluating.data.open_table import open_table
from ace_gui.engine.evaluating.evaluate import (
    MERGED,
    Outcome,
    Trial,
    known_tasks,
    outcomes_of,
    require_own_names,
    trials_of,
)
from ace_gui.engine.evaluating.examples import columns_of, kind_of, kinds_of, metric_of
from ace_gui.engine.evaluating.kinds.every_kind import KINDS
from ace_gui.engine.evaluating.subjects import Models
from ace_gui.engine.evaluating.task_data import TOKENS, Example
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.errors import WorkbenchError
from ace_gui.recipe.values import Task
from ace_gui.steps import Steps

PIXELS: Final = 128
"""Largest width and height of a shown picture."""

CHARACTERS: Final = 2000
"""Most characters of a shown text."""


def shown_example(example: Example, label: str) -> ShownExample:
    """An example's inputs and right answer as texts and a small picture."""
    texts, picture = [], None
    for role, given in example.given.items():
        if isinstance(given, Picture):
            picture = small_picture(given)
        elif isinstance(given, str):
            texts.append((role, cut(given)))
        else:
            texts.append((role, cut((" " if role == TOKENS else " · ").join(given))))
    return ShownExample(row=example.row, texts=tuple(texts), picture=picture, label=label)


def small_picture(given: Picture) -> NDArray[np.uint8]:
    """A picture at most ``PIXELS`` wide and high, H × W × 3, uint8. Raises TaskError."""
    picture = given.opened()
    if max(picture.size) > PIXELS:
        picture.thumbnail((PIXELS, PIXELS))
    return np.asarray(picture.convert("RGB"), dtype=np.uint8)


def cut(text: str) -> str:
    """The beginning of a long text."""
    return text if len(text) <= CHARACTERS else f"{text[: CHARACTERS - 1]}…"


# Tasks before scoring

SHOWN: Final = 3
"""Number of examples shown for a task."""


def described(prepared: Prepared, tasks: Sequence[Task]) -> Iterator[TaskDescribed | None]:
    """Each task as it would be scored. Errors are part of the description, not raised."""
    models, known = Models(prepared), prepared.plan.recipe.tasks
    for task in tasks:
        found: dict[str, Any] = {"task": task}
        try:
            require_own_names([each for each in known if each.title == task.title])
            yield from _describe(found, models, prepared, task)
        except WorkbenchError as error:
            found["fault"] = error.sentence
        yield TaskDescribed(**found)


def _describe(found: dict[str, Any], models: Models, prepared: Prepared, task: Task) -> Steps[None]:
    """Fill in the description step by step, as an error may come later. Raises TaskError."""
    table = open_table(task.data)
    found["table_columns"] = table.columns
    owner = models.owner(task)
    found["expert"] = None if owner is None else prepared.plan.recipe.expert_names[owner]
    config = models.reference(task)
    found["kinds"] = tuple(kinds_of(config))
    kind = found["kind"] = kind_of(task, config, table)
    traits = KINDS[kind]
    found.update(metrics=traits.metrics, roles=traits.roles, optional=traits.optional)
    found["metric"] = metric_of(task, kind)
    found["columns"] = columns_of(task, kind, table)
    trials = yield from trials_of(models, task)
    first = next((t for t in trials if t.subject.expert == owner is not None), trials[0])
    names, examples = traits.names(first.data, first.loading.config), first.data.examples
    found["count"] = len(examples)
    found["examples"] = tuple(
        shown_example(example, cut(traits.text(example, target, names)))
        for example, target in zip(examples[:SHOWN], first.targets, strict=False)
    )


# What a model lost and gained

MOST: Final = 60
"""Most examples shown for each verdict and task."""


def compared_examples(
    prepared: Prepared, folder: Path, *, with_base: bool, device: str
) -> Iterator[Event | None]:
    """Compare a merged model in a folder with each task's own expert, or with the base.

    A task without an expert is left out when comparing with experts. Cached answers are reused.
    Raises TaskError and CheckpointError.
    """
    where = resolve_device(device)
    models = Models(prepared, (folder,), (MERGED,))
    for task in known_tasks(prepared):
        trials = yield from trials_of(models, task)
        merged = [t for t in trials if t.subject.expert is None and not t.subject.is_base]
        if with_base:
            other = [t for t in trials if t.subject.is_base]
        else:
            other = [t for t in trials if t.subject.expert == t.owner is not None]
        if not (merged and other):
            continue
        found: list[tuple[Trial, Outcome]] = []
        for event in outcomes_of([*merged, *other], where):
            if isinstance(event, EvaluationProgress):
                yield event
            else:
                found.append(event)
        yield _compared(str(folder), *found)


def _compared(
    name: str, first: tuple[Trial, Outcome], second: tuple[Trial, Outcome]
) -> ExamplesCompared:
    (trial, outcome), (other_trial, other) = first, second
    metric, data, kind = trial.data.metric, trial.data, KINDS[trial.data.kind]
    each_N, other_N = outcome.measured.each_N, other.measured.each_N
    verdict_N = verdicts(metric.value, each_N, other_N)
    change_N = np.abs(each_N - other_N) if metric.value in LOSSES else np.zeros(len(each_N))
    names, other_names = (kind.names(data, each.loading.config) for each in (trial, other_trial))

    def shown(index: int) -> ComparedExample:
        example = data.examples[index]
        label = cut(kind.text(example, trial.targets[index], names))
        return ComparedExample(
            example=shown_example(example, label),
            answer=cut(kind.text(example, outcome.answers[index], names)),
            other=cut(kind.text(example, other.answers[index], other_names)),
        )

    wanted = (Verdict.LOST, Verdict.GAINED, Verdict.BOTH_WRONG)
    indices = {each: _shown_indices(verdict_N == each, change_N) for each in wanted}
    return ExamplesCompared(
        task=data.name,
        kind=data.kind,
        metric=metric,
        model=name,
        other=other_trial.subject.name,
        counts={each: int((verdict_N == each).sum()) for each in Verdict},
        examples={each: tuple(map(shown, found)) for each, found in indices.items()},
    )


def _shown_indices(chosen_N: NDArray[np.bool_], change_N: NDArray[np.float64]) -> list[int]:
    """Indices of the first examples, or of those that changed most."""
    indices = np.flatnonzero(chosen_N)
    order = np.argsort(-change_N[indices], kind="stable")
    return [int(index) for index in indices[order][:MOST]]
