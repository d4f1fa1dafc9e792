"""The right answers in the form in which the model gives its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ace_gui.engine.evaluating.data.table import refused
from ace_gui.engine.evaluating.examples import Example, TaskData
from ace_gui.engine.evaluating.kinds import CHOICES, TOKENS
from ace_gui.engine.evaluating.labels import Labels, head_labels, labels_of
from ace_gui.errors import TaskError
from ace_gui.formatting import listing, shown
from ace_gui.recipe.tasks import TaskKind

_CLASSES = (TaskKind.IMAGE_CLASSIFICATION, TaskKind.TEXT_CLASSIFICATION)


def targets_of(data: TaskData, config: Mapping[str, Any]) -> list[Any]:
    """The right answer of each example.

    It is an index in the head (a tuple for words), an index of choices or labels, a number, or a
    text; None if the text itself is predicted.

    ``config``: of the model with its head. Raises TaskError for an unknown label.
    """
    if data.kind in _CLASSES:
        labels = labels_of(data.task, config)
        return [_label(data, example, example.label, labels, config) for example in data.examples]
    if data.kind is TaskKind.TOKEN_CLASSIFICATION:
        labels = labels_of(data.task, config)
        return [_word_indices(data, example, labels, config) for example in data.examples]
    if data.kind is TaskKind.MULTIPLE_CHOICE:
        return [_choice(data, example) for example in data.examples]
    if data.kind is TaskKind.CLIP_ZERO_SHOT:
        names = zero_shot_labels(data)
        return [names.index(_zero_shot_label(data, example)) for example in data.examples]
    return [example.label for example in data.examples]


def zero_shot_labels(data: TaskData) -> list[str]:
    """The possible labels of pictures: given by the task, or all labels in the data, sorted."""
    if data.task.labels:
        return list(data.task.labels)
    return sorted({_zero_shot_label(data, example) for example in data.examples})


def _zero_shot_label(data: TaskData, example: Example) -> str:
    value, names = example.label, data.label_names
    if isinstance(value, int) and 0 <= value < len(names):
        value = names[value]
    known = data.task.labels
    if isinstance(value, int) and 0 <= value < len(known):
        value = known[value]
    if not isinstance(value, str) or (known and value not in known):
        problem = (
            "is no label of the task" if known else "is no name of a label; add labels to the task"
        )
        raise refused(data.table.path, f"{shown(value)} {problem}.", example.row)
    return value


def _label(
    data: TaskData, example: Example, value: Any, labels: Labels, config: Mapping[str, Any]
) -> int:
    index = labels.index_of(value, data.label_names)
    if index is None:
        raise _unknown(data, example, value, data.task.labels or head_labels(config))
    return index


def _unknown(data: TaskData, example: Example, value: Any, known: Sequence[str]) -> TaskError:
    sentence = (
        f"The label {shown(value)} is not among the head's, {listing(known)}; correct it, or "
    )
    return refused(
        data.table.path, f"{sentence}say in the task which labels there are.", example.row
    )


def _word_indices(
    data: TaskData, example: Example, labels: Labels, config: Mapping[str, Any]
) -> tuple[int, ...]:
    words = example.given[TOKENS]
    if len(words) != len(example.label):
        sentence = f"There are {len(words)} words, but {len(example.label)} labels."
        raise refused(data.table.path, sentence, example.row)
    return tuple(_label(data, example, value, labels, config) for value in example.label)


def _choice(data: TaskData, example: Example) -> int:
    """The index of a choice: given as a number from 0, a letter, or the text of the choice."""
    value, choices = example.label, example.given[CHOICES]
    text = value.strip() if isinstance(value, str) else ""
    index = value if isinstance(value, int) else -1
    if text in choices:
        index = choices.index(text)
    elif text.isascii() and text.isdigit() and len(text) < 10:
        index = int(text)
    elif len(text) == 1 and "A" <= text.upper() <= "Z":
        index = ord(text.upper()) - ord("A")
    if not 0 <= index < len(choices):
        sentence = f"The label {shown(value)} is none of the {len(choices)} choices, from 0 or A."
        raise refused(data.table.path, sentence, example.row)
    return index
