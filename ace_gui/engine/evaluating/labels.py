"""The labels of a head, and the label of an example's answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ace_gui.errors import TaskError
from ace_gui.formatting import listing
from ace_gui.recipe.tasks import Task


@dataclass(frozen=True, kw_only=True)
class Labels:
    """``ids``: index in the head by each name that data may use for a label.

    ``allowed``: indices that can be answers, in order.
    """

    ids: Mapping[str, int]
    allowed: tuple[int, ...]

    def index_of(self, value: object, names: Sequence[str] = ()) -> int | None:
        """The head's index of an example's label; None for a label that the head lacks.

        ``names``: the names of the numbers in its column.
        """
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int | str):
            return None
        if isinstance(value, int) and 0 <= value < len(names):
            named = self.ids.get(names[value].casefold())
            value = value if named is None else named
        index = self.ids.get(value.strip().casefold()) if isinstance(value, str) else value
        if index is None and isinstance(value, str) and _is_number(value):
            index = int(value)
        return index if index in self.allowed else None


def _is_number(text: str) -> bool:
    digits = text.strip()
    return digits.isascii() and digits.isdigit() and len(digits) < 10


def head_labels(config: Mapping[str, Any]) -> list[str]:
    """The labels of a config's head, by index. Two if the config does not define them."""
    label_names = config.get("id2label")
    if isinstance(label_names, Mapping):
        try:
            named = {int(index): str(name) for index, name in label_names.items()}
            return [named[index] for index in range(len(named))]
        except (ValueError, KeyError):
            pass
    count = config.get("num_labels", 2)
    count = count if isinstance(count, int) and 0 < count < 1_000_000 else 2
    return [f"LABEL_{index}" for index in range(count)]


def labels_of(task: Task, config: Mapping[str, Any]) -> Labels:
    """The labels of a head that belong to the task. Raises TaskError."""
    names = head_labels(config)
    ids = {name.casefold(): index for index, name in enumerate(names)}
    everything = tuple(range(len(names)))
    if not task.labels:
        return Labels(ids=ids, allowed=everything)
    asked = [label.casefold() for label in task.labels]
    if all(label in ids for label in asked):
        return Labels(ids=ids, allowed=tuple(ids[label] for label in asked))
    if len(asked) == len(names):
        return Labels(ids={label: n for n, label in enumerate(asked)}, allowed=everything)
    unknown = [label for label in task.labels if label.casefold() not in ids]
    raise TaskError(
        f"{task.title}: the labels {listing(unknown)} are not among the head's, {listing(names)}; "
        "name some of these, or all of them in the data's words and the head's order.",
        key="labels",
    )


def answer_labels(task: Task, config: Mapping[str, Any]) -> list[str]:
    """What each label of a head is called in answers: in the data's words if the task has them.

    A prefix common to all labels of the task is removed (``digits/7``: 7). Raises TaskError.
    """
    names = head_labels(config)
    if len(task.labels) == len(names):
        names = list(task.labels)
    prefixes = {names[index].rpartition("/")[0] for index in labels_of(task, config).allowed}
    shared = f"{prefixes.pop()}/" if len(prefixes) == 1 else ""
    return [name.removeprefix(shared) for name in names]
