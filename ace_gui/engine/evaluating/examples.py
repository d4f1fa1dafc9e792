"""The examples of a task: read, sampled if there are many, and checked one by one."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import numpy as np

from ace_gui.engine.evaluating.data.images import Picture, picture_of
from ace_gui.engine.evaluating.data.open_table import open_table
from ace_gui.engine.evaluating.data.table import FILE_BYTES, Row, Table, refused
from ace_gui.engine.evaluating.kinds import (
    CHOICES,
    IMAGE,
    LABEL,
    PAIR,
    TEXT,
    TOKENS,
    columns_of,
    kind_of,
    metric_of,
)
from ace_gui.errors import TaskError
from ace_gui.formatting import shown
from ace_gui.recipe.tasks import Metric, Task, TaskKind
from ace_gui.steps import Steps, result_of

CHECKED_TOGETHER: Final = 32
"""Examples between two pauses, as checking a picture decodes it."""


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


def read_task(
    task: Task,
    name: str,
    config: Mapping[str, Any],
    *,
    limit: int | None,
    seed: int,
    half: Half | None = None,
) -> Steps[TaskData]:
    """The task with its examples. ``config``: of the task's own model.

    ``limit``: most examples, besides the task's own limit. The same seed draws the same ones.
    ``half``: only one half of these. Raises TaskError, naming file and row.
    """
    table = open_table(task.data)
    kind = kind_of(task, config, table)
    columns = columns_of(task, kind, table)
    limits = [most for most in (limit, task.limit) if most is not None]
    wanted = [column for names in columns.values() for column in names]
    rows = drawn(table, table.rows(wanted), min(limits, default=None), seed)
    if half is not None:
        rows = _half(rows, half, seed)
    if not rows:
        too_few = "There are no examples." if half is None else "There are too few examples."
        raise refused(table.path, too_few)
    return TaskData(
        task=task,
        name=name,
        kind=kind,
        metric=metric_of(task, kind),
        columns=columns,
        table=table,
        examples=(yield from _examples(table, kind, columns, rows)),
    )


def read_calibration(
    task: Task,
    name: str,
    config: Mapping[str, Any],
    *,
    limit: int,
    seed: int,
    labelled: bool = False,
) -> TaskData:
    """The task with its calibration inputs as examples; ``labelled``: with their labels.

    ``limit``: most inputs; the same seed draws the same ones. Raises TaskError, naming file and
    row, and if the task has none.
    """
    if task.calibration is None:
        raise TaskError(f"The task {name} has no `calibration` data.", key="calibration")
    kind = kind_of(task, config, open_table(task.data))
    table = open_table(task.calibration)
    columns = columns_of(task, kind, table, labelled=labelled)
    rows = drawn(table, table.rows([c for names in columns.values() for c in names]), limit, seed)
    if not rows:
        raise refused(table.path, "There are no inputs.")
    return TaskData(
        task=task,
        name=name,
        kind=kind,
        metric=metric_of(task, kind),
        columns=columns,
        table=table,
        examples=result_of(_examples(table, kind, columns, rows)),
    )


def drawn(table: Table, rows: Iterable[Row], limit: int | None, seed: int) -> list[Row]:
    """A uniform sample of rows, in the file's order; it needs one pass and little memory.

    J. S. Vitter, Random Sampling with a Reservoir, ACM TOMS 11 (1985), Algorithm R.
    """
    generator = np.random.default_rng(seed)
    kept: list[tuple[int, Row]] = []
    size = 0
    for number, row in enumerate(rows):
        if limit is None or len(kept) < limit:
            kept.append((number, row))
            size += _bytes_of(row[1])
            if size > FILE_BYTES:
                sentence = f"The examples take more than {FILE_BYTES / 1e9:g} GB; set a limit."
                raise refused(table.path, sentence, row[0])
        elif (index := int(generator.integers(number + 1))) < limit:
            size += _bytes_of(row[1]) - _bytes_of(kept[index][1][1])
            kept[index] = (number, row)
    return [row for _, row in sorted(kept, key=lambda pair: pair[0])]


def _half(rows: Sequence[Row], half: Half, seed: int) -> list[Row]:
    """Every second example of a fixed shuffle, in the file's order."""
    shuffled = np.random.default_rng([seed, 1]).permutation(len(rows))
    return [rows[index] for index in sorted(shuffled[half.value :: 2])]


def _bytes_of(values: Any) -> int:
    if isinstance(values, str | bytes | tuple | list):
        inner = 0 if isinstance(values, str | bytes) else sum(map(_bytes_of, values))
        return 64 + len(values) + inner
    if isinstance(values, dict):
        return 64 + sum(_bytes_of(value) for value in values.values())
    return 64


def _examples(
    table: Table, kind: TaskKind, columns: Mapping[str, tuple[str, ...]], rows: Sequence[Row]
) -> Steps[tuple[Example, ...]]:
    found = []
    for row in rows:
        found.append(_example(table, kind, columns, row))
        if len(found) % CHECKED_TOGETHER == 0:
            yield
    return tuple(found)


def _example(
    table: Table, kind: TaskKind, columns: Mapping[str, tuple[str, ...]], row: Row
) -> Example:
    """An example whose values have the right types. Raises TaskError."""
    where, values = row
    given: dict[str, Any] = {}
    start = 0
    for role, names in columns.items():
        cells = values[start : start + len(names)]
        start += len(names)
        value = cells[0] if len(cells) == 1 else list(cells)
        check = _label_check(kind) if role == LABEL else _CHECKS[role]
        given[role] = check(table, where, names[0], value)
    label = given.pop(LABEL, None)
    return Example(row=where, given=given, label=label)


_Check = Callable[[Table, str, str, Any], Any]


def _text(table: Table, row: str, column: str, value: Any) -> str:
    if not isinstance(value, str):
        raise refused(table.path, f"The column {column!r} has {shown(value)}, not a text.", row)
    return value


def _texts(table: Table, row: str, column: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, dict) and isinstance(value.get("text"), list):
        value = value["text"]  # choices with letters
    if not isinstance(value, list | tuple) or not value:
        sentence = f"The column {column!r} has {shown(value)}, not a list of texts."
        raise refused(table.path, sentence, row)
    return tuple(_text(table, row, column, each) for each in value)


def _picture(table: Table, row: str, _column: str, value: Any) -> Picture:
    found = picture_of(table.path, row, value)
    found.opened(small=True)
    return found


def _number(table: Table, row: str, column: str, value: Any) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise refused(table.path, f"The column {column!r} has {shown(value)}, not a number.", row)
    return found


def _label(table: Table, row: str, column: str, value: Any) -> Any:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return value
    raise refused(table.path, f"The column {column!r} has {shown(value)}, not a label.", row)


def _tags(table: Table, row: str, column: str, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        sentence = f"The column {column!r} has {shown(value)}, not a label for each word."
        raise refused(table.path, sentence, row)
    return tuple(_label(table, row, column, each) for each in value)


_CHECKS: Final[Mapping[str, _Check]] = {
    TEXT: _text,
    PAIR: _text,
    CHOICES: _texts,
    TOKENS: _texts,
    IMAGE: _picture,
}


def _label_check(kind: TaskKind) -> _Check:
    special: Mapping[TaskKind, _Check] = {
        TaskKind.REGRESSION: _number,
        TaskKind.TEXT_TO_TEXT: _text,
        TaskKind.TOKEN_CLASSIFICATION: _tags,
    }
    return special.get(kind, _label)
