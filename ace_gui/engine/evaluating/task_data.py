"""The examples of a task, the checks of their cells, and the labels of heads."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from ace_gui.engine.evaluating.data.images import Picture
from ace_gui.engine.evaluating.data.table import Table, refused
from ace_gui.errors import TaskError
from ace_gui.formatting import listing, shown
from ace_gui.recipe.values import Metric, Task, TaskKind

TEXT, PAIR, LABEL, IMAGE, CHOICES, TOKENS = "text", "pair", "label", "image", "choices", "tokens"
"""Roles of columns."""


@dataclass(frozen=True, kw_only=True)
class Example:
    """``row``: its row in the data.

    ``given``: the model's inputs by role: texts, tokens, a picture.

    ``label``: the right answer, as in the data.
    """

    row: str
    given: Mapping[str, Any]
    label: Any = None


class Half(Enum):
    """Disjoint halves of a task's examples: one for searching values, one for the final score."""

    SEARCHED = 0
    REPORTED = 1


@dataclass(frozen=True, kw_only=True)
class TaskData:
    """A task with its examples and inferred settings."""

    task: Task
    kind: TaskKind
    metric: Metric
    columns: Mapping[str, tuple[str, ...]]
    table: Table
    examples: tuple[Example, ...]

    @property
    def name(self) -> str:
        """The task's name."""
        return self.task.title

    @property
    def label_names(self) -> Sequence[str]:
        """The names of the numbers in the label column, if known."""
        return self.table.names.get(self.columns.get(LABEL, ("",))[0], ())

    def content(self) -> str:
        """SHA-256 of the examples, pictures included.

        A file's modification time may not show a change. Raises TaskError if a picture can no
        longer be read.
        """
        digest = hashlib.sha256(repr(tuple(self.label_names)).encode("utf-8", "surrogatepass"))
        for example in self.examples:
            given = {
                role: value.digest() if isinstance(value, Picture) else value
                for role, value in example.given.items()
            }
            text = repr((example.row, given, example.label))
            digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
        return digest.hexdigest()


Cell = Callable[[Any], Any]
"""Checks a value and returns it as the example has it.

Raises ValueError with what is wanted, and the value.
"""


def text_cell(value: Any) -> str:
    """A text."""
    if not isinstance(value, str):
        raise ValueError("a text", value)
    return value


def texts_cell(value: Any) -> tuple[str, ...]:
    """Several texts: the words of a sentence, or the choices of a question."""
    if isinstance(value, dict) and isinstance(value.get("text"), list):
        value = value["text"]  # choices with letters
    if not isinstance(value, list | tuple) or not value:
        raise ValueError("a list of texts", value)
    return tuple(map(text_cell, value))


def number_cell(value: Any) -> float:
    """A finite number."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise ValueError("a number", value)
    return found


def label_cell(value: Any) -> Any:
    """A label: a text or a number."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return value
    raise ValueError("a label", value)


def labels_cell(value: Any) -> tuple[Any, ...]:
    """A label for each word."""
    if not isinstance(value, list | tuple):
        raise ValueError("a label for each word", value)
    return tuple(map(label_cell, value))


INPUT_CELLS: Final[Mapping[str, Cell]] = {
    TEXT: text_cell,
    PAIR: text_cell,
    CHOICES: texts_cell,
    TOKENS: texts_cell,
}
"""The check of each role but the label, whose check depends on the kind, and pictures."""


def checked_cell(check: Cell, table: Table, row: str, column: str, value: Any) -> Any:
    """The value as an example has it. Raises TaskError."""
    try:
        return check(value)
    except ValueError as error:
        wanted, found = error.args
        sentence = f"The column {column!r} has {shown(found)}, not {wanted}."
        raise refused(table.path, sentence, row) from None


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
        if index is None and isinstance(value, str):
            index = whole_number(value)
        return index if index in self.allowed else None


def whole_number(text: str) -> int | None:
    """A number of up to nine digits alone in a text."""
    digits = text.strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else None


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
