"""The inputs on which a merge is aligned with its experts, and the checks of them.

Alignment with inputs that do not fit harms, and inputs kept back cannot show it: they do not fit
either. So inputs are checked before anything is trained.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch

from ace_gui.engine.adapting.expert_answers import distinction
from ace_gui.engine.adapting.padding import padding_of
from ace_gui.engine.calibrating.calibrate import EXAMPLES, SEED, Calibration, calibration
from ace_gui.engine.contract.events import PassProgress
from ace_gui.engine.evaluating.evaluators import Evaluator, Piece
from ace_gui.engine.evaluating.examples import read_task
from ace_gui.engine.evaluating.kinds import evaluator_class
from ace_gui.engine.evaluating.loaded_models import Loaded
from ace_gui.engine.evaluating.subjects import Models
from ace_gui.engine.evaluating.task_data import Example, Picture, TaskData
from ace_gui.engine.planning.alignment_checks import alignment_obstacle, left_out_sentence
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.errors import RecipeError, TaskError
from ace_gui.formatting import counted, plain
from ace_gui.recipe.distillation import Distillation
from ace_gui.steps import result_of

KEPT_BACK: Final = 5
"""One of this many inputs is kept back, to see when the merge is best."""


ALIKE: Final = -0.5
"""Two tasks' inputs are told apart if the sum of both experts' logarithms is below this."""

EXCHANGED: Final = 0.5
"""Above this, each expert tells the other task's inputs apart better than its own."""

ABOVE_OTHERS: Final = 1.25
"""An expert tells its own inputs apart better than those of other tasks by this factor."""

NOTHING: Final = 1e-9
"""Answers that are no farther apart, in nats, are equal."""

LOOKED_AT: Final = 16
"""Inputs of each task that the other experts are asked, too."""

ASKING: Final = "asking the experts"

_ADVICE: Final = "Check them, since inputs of another task make the merge worse."


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The inputs of a task, by their indices."""

    trained: tuple[int, ...]
    """Those that are trained with."""
    kept_back: tuple[int, ...]
    """Those that show when the merge is best."""


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


def tasks_of(sources: Sequence[Calibration]) -> list[TaskData]:
    """The tasks of all experts, in their order."""
    tasks: list[TaskData] = []
    for source in sources:
        tasks += [data for data, _ in source.tasks]
    return tasks


def compared_inputs(
    sources: Sequence[Calibration], device: torch.device
) -> Generator[PassProgress, None, dict[tuple[str, str], float]]:
    """What ``distinctions_by`` says of every expert. One expert after another is loaded."""
    tasks = tasks_of(sources)
    loaded = Loaded(device)
    distinctions: dict[tuple[str, str], float] = {}
    for source in sources:
        for data, loading in source.tasks:
            distinctions |= distinctions_by(loaded.evaluator(data, loading), tasks)
        yield PassProgress(title=ASKING, done=len(distinctions), total=len(tasks) ** 2)
    return distinctions


def distinctions_by(expert: Evaluator, tasks: Sequence[TaskData]) -> dict[tuple[str, str], float]:
    """How well an expert tells apart the inputs of every task like its own, in nats.

    By its task's name and that of the inputs. Empty if its answers have no probabilities.
    """
    own_data = expert.data
    if expert.answers_numbers:
        return {}
    own_roles = set(own_data.examples[0].inputs)
    inputs_by_task: dict[str, list[list[Piece]]] = {}
    for data in tasks:
        if data.kind == own_data.kind and set(data.examples[0].inputs) == own_roles:
            inputs_by_task[data.name] = expert.answered_pieces(data.examples[:LOOKED_AT])
    all_inputs = itertools.chain.from_iterable(inputs_by_task.values())
    # What a model makes of padding is tried once for all tasks: it takes as long as an answer.
    padding = padding_of(expert, list(itertools.chain.from_iterable(all_inputs)))
    distinctions: dict[tuple[str, str], float] = {}
    for name, inputs in inputs_by_task.items():
        distinctions[own_data.name, name] = distinction(expert, inputs, padding)
    return distinctions


def warnings_about_inputs(
    prepared: Prepared,
    tasks: Sequence[TaskData],
    distinctions: Mapping[tuple[str, str], float],
) -> tuple[str, ...]:
    """The sentences of ``doubts``, and one on tasks without inputs."""
    sentences = doubts(tasks, distinctions)
    left_out = left_out_sentence(prepared)
    if left_out:
        return (*sentences, left_out)
    return sentences


def doubts(
    tasks: Sequence[TaskData], distinctions: Mapping[tuple[str, str], float]
) -> tuple[str, ...]:
    """Sentences on tasks whose inputs look like another's.

    A trained expert tells the inputs of its own task apart best. ``distinctions``: how well an
    expert does that, in nats, by the expert's task and the task of the inputs.
    """
    sentences = []
    doubted: set[str] = set()
    for first, second in itertools.combinations(tasks, 2):
        sentence = _shared_inputs(first, second) or _exchanged(
            first.name, second.name, distinctions
        )
        if sentence:
            sentences.append(sentence)
            doubted |= {first.name, second.name}
    for data in tasks:
        if data.name not in doubted and _is_no_better(data.name, distinctions):
            sentences.append(
                f"The expert of {plain(data.name)} tells the inputs of its task apart no better "
                f"than those of other tasks. {_ADVICE}"
            )
    return tuple(sentences)


def _shared_inputs(first: TaskData, second: TaskData) -> str:
    """A sentence on two tasks most of whose inputs are the same; empty for others."""
    ones = {_key(example.inputs) for example in first.examples}
    second_keys = {_key(example.inputs) for example in second.examples}
    shared = len(ones & second_keys)
    if 2 * shared <= min(len(ones), len(second_keys)):
        return ""
    return (
        f"{counted(shared, 'input', 'inputs')} of {plain(first.name)} are also inputs of "
        f"{plain(second.name)}. {_ADVICE}"
    )


def _exchanged(first: str, second: str, distinctions: Mapping[tuple[str, str], float]) -> str:
    """A sentence on two tasks whose experts do not prefer their own inputs; empty for others.

    The logarithm of d(1, 2) d(2, 1) / d(1, 1) d(2, 2) has neither what all answers of one expert
    nor what all answers to one task's inputs have in common.
    """
    if (first, second) not in distinctions or (second, first) not in distinctions:
        return ""
    logarithm = 0.0
    for expert, inputs in itertools.product((first, second), repeat=2):
        if expert == inputs:
            sign = -1
        else:
            sign = 1
        logarithm += sign * math.log(max(distinctions[expert, inputs], NOTHING))
    if logarithm <= ALIKE:
        return ""
    names = f"{plain(first)} and {plain(second)}"
    if logarithm > EXCHANGED:
        return (
            f"The inputs of {names} seem to be exchanged: each expert tells those of the other "
            f"task apart better than its own. {_ADVICE}"
        )
    return f"The inputs of {names} look alike to their experts. {_ADVICE}"


def _is_no_better(task: str, distinctions: Mapping[tuple[str, str], float]) -> bool:
    """Whether a task's expert tells its own inputs apart no better than those of two others."""
    of_other_inputs = []
    for (expert, inputs), value in distinctions.items():
        if expert == task and inputs != task:
            of_other_inputs.append(value)
    if len(of_other_inputs) < 2:
        return False
    mean = math.fsum(of_other_inputs) / len(of_other_inputs)
    return distinctions[task, task] < ABOVE_OTHERS * mean
