"""The examples of a task, and the checks of their cells."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from ace_gui.engine.evaluating.data.images import Picture, picture_of
from ace_gui.engine.evaluating.data.table import Table, refused
from ace_gui.formatting import shown
from ace_gui.recipe.tasks import Metric, Task, TaskKind

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
    name: str
    kind: TaskKind
    metric: Metric
    columns: Mapping[str, tuple[str, ...]]
    table: Table
    examples: tuple[Example, ...]

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


Cell = Callable[[Table, str, str, Any], Any]
"""Checks a value of a row and a column, and returns it as the example has it. Raises TaskError."""


def text_cell(table: Table, row: str, column: str, value: Any) -> str:
    """A text."""
    if not isinstance(value, str):
        raise refused(table.path, f"The column {column!r} has {shown(value)}, not a text.", row)
    return value


def texts_cell(table: Table, row: str, column: str, value: Any) -> tuple[str, ...]:
    """Several texts: the words of a sentence, or the choices of a question."""
    if isinstance(value, dict) and isinstance(value.get("text"), list):
        value = value["text"]  # choices with letters
    if not isinstance(value, list | tuple) or not value:
        sentence = f"The column {column!r} has {shown(value)}, not a list of texts."
        raise refused(table.path, sentence, row)
    return tuple(text_cell(table, row, column, each) for each in value)


def _picture_cell(table: Table, row: str, _column: str, value: Any) -> Picture:
    found = picture_of(table.path, row, value)
    found.opened(small=True)
    return found


def number_cell(table: Table, row: str, column: str, value: Any) -> float:
    """A finite number."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise refused(table.path, f"The column {column!r} has {shown(value)}, not a number.", row)
    return found


def label_cell(table: Table, row: str, column: str, value: Any) -> Any:
    """A label: a text or a number."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return value
    raise refused(table.path, f"The column {column!r} has {shown(value)}, not a label.", row)


def labels_cell(table: Table, row: str, column: str, value: Any) -> tuple[Any, ...]:
    """A label for each word."""
    if not isinstance(value, list | tuple):
        sentence = f"The column {column!r} has {shown(value)}, not a label for each word."
        raise refused(table.path, sentence, row)
    return tuple(label_cell(table, row, column, each) for each in value)


INPUT_CELLS: Final[Mapping[str, Cell]] = {
    TEXT: text_cell,
    PAIR: text_cell,
    CHOICES: texts_cell,
    TOKENS: texts_cell,
    IMAGE: _picture_cell,
}
"""The check of each role but the label, whose check depends on the kind."""
