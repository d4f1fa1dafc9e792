"""The inputs on which a merge is aligned with its experts, and the checks of them.

Alignment with inputs that do not fit harms, and inputs kept back cannot show it: they do not fit
either. So inputs are checked before anything is trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from ace_gui.engine.calibrating.calibrate import EXAMPLES, SEED, Calibration, calibration
from ace_gui.engine.evaluating.examples import read_task
from ace_gui.engine.evaluating.kinds import evaluator_class
from ace_gui.engine.evaluating.subjects import Models
from ace_gui.engine.evaluating.task_data import Example, Picture, TaskData
from ace_gui.engine.planning.alignment_checks import alignment_obstacle
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.errors import RecipeError, TaskError
from ace_gui.formatting import counted, plain
from ace_gui.recipe.distillation import Distillation
from ace_gui.steps import result_of

KEPT_BACK: Final = 5
"""One of this many inputs is kept back, to see when the merge is best."""


SURE: Final = 1.05
"""An expert counts as sure of inputs up to this multiple of its uncertainty on its own."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The inputs of a task, by their indices."""

    trained: tuple[int, ...]
    kept_back: tuple[int, ...]


def parts_of(count: int, seed: tuple[int, ...]) -> Parts:
    """A random fifth of the inputs to keep back, at least one, and the others."""
    order = np.random.default_rng(seed).permutation(count).tolist()
    back = max(1, count // KEPT_BACK)
    return Parts(trained=tuple(sorted(order[back:])), kept_back=tuple(sorted(order[:back])))


def alignment_sources(prepared: Prepared) -> list[Calibration]:
    """The inputs of every expert, read and checked, as many as ``distil`` wants of each task.

    None for a merge that is not aligned.

    Raises RecipeError for a merge that cannot be aligned, TaskError for an expert with too few
    inputs, or with inputs that are also its scoring data, and the errors of reading data and of
    loading tokenizers.
    """
    distil = prepared.recipe.distil
    if not distil:
        return []
    if obstacle := alignment_obstacle(prepared):
        raise RecipeError(obstacle, key="distil")
    sources = []
    for t in range(len(prepared.experts)):
        # More than are wanted, as some may be repeated.
        source = calibration(prepared, t, limit=max(EXAMPLES, 2 * distil.inputs))
        tasks = [(_chosen(prepared, data, distil), loading) for data, loading in source.tasks]
        for data, loading in tasks:
            evaluator_class(data, loading).preprocessor(data, loading)  # its errors come early
        sources.append(replace(source, tasks=tuple(tasks)))
    return sources


def _chosen(prepared: Prepared, data: TaskData, distil: Distillation) -> TaskData:
    """The task with as many different inputs as are wanted. Raises TaskError."""
    distinct: dict[Any, Example] = {}
    for example in data.examples:
        distinct.setdefault(_key(example.inputs), example)
    _refuse_scoring_data(prepared, data, distinct)
    if len(distinct) < distil.inputs:
        inputs = counted(len(distinct), "different input", "different inputs")
        raise TaskError(
            f"The task {plain(data.name)} has {inputs}, but {distil.inputs} are wanted: fewer than "
            "64 may harm. Give more, or ask for fewer with `distil: {inputs: "
            f"{max(len(distinct), 2)}}}`.",
            key="distil",
            path=data.table.path,
        )
    examples = list(distinct.values())
    order = np.random.default_rng([SEED, 2]).permutation(len(examples))[: distil.inputs]
    return replace(data, examples=tuple(examples[index] for index in sorted(order)))


def _key(inputs: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """An input as a value that can be compared."""
    items = []
    for role, value in sorted(inputs.items()):
        items.append((role, value.digest() if isinstance(value, Picture) else value))
    return tuple(items)


def _refuse_scoring_data(
    prepared: Prepared, data: TaskData, distinct: Mapping[Any, Example]
) -> None:
    """Raise TaskError if an input is also in the data that the task is scored on."""
    scored = result_of(
        read_task(data.task, Models(prepared.models).reference(data.task), seed=SEED)
    ).examples
    repeated = {_key(example.inputs) for example in scored} & distinct.keys()
    if repeated:
        raise TaskError(
            f"{counted(len(repeated), 'input', 'inputs')} of the task {plain(data.name)} are "
            "also in "
            "its scoring data, so its score would say nothing; give other inputs as `calibration`.",
            key="calibration",
            path=data.table.path,
        )


def doubts(
    tasks: Sequence[TaskData], uncertainties: Mapping[tuple[str, str], float]
) -> tuple[str, ...]:
    """Sentences on tasks whose inputs look like another's.

    A trained expert is surest of its answers to inputs of its own task. If it is as sure of its
    answers to another task's inputs, and that task's expert is nearly as sure of these inputs as of
    its own, the inputs may be of the other task. ``uncertainties``: of an expert's answers, by the
    expert's task and the task of the inputs.
    """
    sentences = []
    for data in tasks:
        own_name = data.name
        uncertainty_of_others = {
            inputs: value
            for (task, inputs), value in uncertainties.items()
            if task == own_name and inputs != own_name and (inputs, own_name) in uncertainties
        }
        if not uncertainty_of_others:
            continue
        nearest = min(uncertainty_of_others, key=uncertainty_of_others.__getitem__)
        is_no_surer = uncertainties[own_name, own_name] >= uncertainty_of_others[nearest]
        other_is_sure = uncertainties[nearest, own_name] <= SURE * uncertainties[nearest, nearest]
        if is_no_surer and other_is_sure:
            sentences.append(
                f"The inputs of {plain(own_name)} look like those of {plain(nearest)}: "
                "its expert is no "
                "surer of its answers to them. Check them, since inputs of another task make the "
                "merge worse."
            )
    return tuple(sentences)
