"""The examples of a task: its kind and columns guessed, its rows read, sampled and checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

import numpy as np

from ace_gui.engine.evaluating.kinds import KINDS
from ace_gui.engine.evaluating.metrics import require_overlap
from ace_gui.engine.evaluating.open_table import open_table
from ace_gui.engine.evaluating.subjects import class_of
from ace_gui.engine.evaluating.task_data import (
    FILE_BYTES,
    INPUT_CELLS,
    Example,
    Half,
    Row,
    Table,
    TaskData,
    checked_cell,
    picture_of,
    refused,
    require_columns,
    usual_column,
)
from ace_gui.errors import TaskError
from ace_gui.recipe.task_kinds import IMAGE, LABEL, PAIR, TEXT, Metric, TaskKind
from ace_gui.recipe.values import Chat, Task
from ace_gui.steps import Steps, result_of

CHECKED_TOGETHER: Final = 32
"""Examples between two pauses, as checking a picture decodes it."""

_UNSET: Final = (None, Chat.AUTO, ())
_NO_TEXT: Final = frozenset(("id", "idx", "index", "guid", "uid", "split", "source_id"))


def read_task(
    task: Task, config: Mapping[str, Any], *, seed: int, half: Half | None = None
) -> Steps[TaskData]:
    """The task with its examples. ``config``: of the task's own model.

    The same seed draws the same examples if there is a limit. ``half``: only half of them. Raises
    TaskError, naming file and row.
    """
    table = open_table(task.data)
    data = _without_examples(task, table, kind_of(task, config, table))
    rows = drawn(table, table.rows(_wanted(data)), task.limit, seed)
    if half is not None:
        rows = _half(rows, half, seed)
    if not rows:
        if half is None:
            too_few = "There are no examples."
        else:
            too_few = "There are too few examples."
        raise refused(table.path, too_few)
    return replace(data, examples=(yield from _examples(data, rows)))


def read_calibration(
    task: Task, config: Mapping[str, Any], *, limit: int, seed: int, labelled: bool = False
) -> TaskData:
    """The task with its calibration inputs as examples; ``labelled``: with their labels.

    ``limit``: most inputs; the same seed draws the same ones. Raises TaskError, naming file and
    row, and if the task has none.
    """
    if task.calibration is None:
        raise TaskError(f"The task {task.title} has no `calibration` data.", key="calibration")
    kind = kind_of(task, config, open_table(task.data))
    table = open_table(task.calibration)
    data = _without_examples(task, table, kind, labelled=labelled)
    rows = drawn(table, table.rows(_wanted(data)), limit, seed)
    if not rows:
        raise refused(table.path, "There are no inputs.")
    return replace(data, examples=result_of(_examples(data, rows)))


def _without_examples(
    task: Task, table: Table, kind: TaskKind, *, labelled: bool = True
) -> TaskData:
    _require_settings(task, kind)
    return TaskData(
        task=task,
        kind=kind,
        metric=metric_of(task, kind),
        columns=columns_of(task, kind, table, labelled=labelled),
        table=table,
        examples=(),
    )


def _wanted(data: TaskData) -> list[str]:
    return list(chain.from_iterable(data.columns.values()))


def drawn(table: Table, rows: Iterable[Row], limit: int | None, seed: int) -> list[Row]:
    """A uniform sample of rows, in the file's order; it needs one pass and little memory.

    J. S. Vitter, Random Sampling with a Reservoir, ACM TOMS 11 (1985), Algorithm R.
    """
    generator = np.random.default_rng(seed)
    sample: list[tuple[int, Row]] = []
    size = 0
    for number, row in enumerate(rows):
        if limit is None or len(sample) < limit:
            sample.append((number, row))
            size += _bytes_of(row[1])
            if size > FILE_BYTES:
                sentence = f"The examples take more than {FILE_BYTES / 1e9:g} GB; set a limit."
                raise refused(table.path, sentence, row[0])
        elif (index := int(generator.integers(number + 1))) < limit:
            size += _bytes_of(row[1]) - _bytes_of(sample[index][1][1])
            sample[index] = (number, row)
    return [row for _, row in sorted(sample, key=lambda pair: pair[0])]


def _half(rows: Sequence[Row], half: Half, seed: int) -> list[Row]:
    """Every second example of a fixed shuffle, in the file's order."""
    shuffled = np.random.default_rng([seed, 1]).permutation(len(rows))
    return [rows[index] for index in sorted(shuffled[half.value :: 2])]


def _bytes_of(values: Any) -> int:
    if isinstance(values, str | bytes | tuple | list):
        if isinstance(values, str | bytes):
            inner = 0
        else:
            inner = sum(map(_bytes_of, values))
        return 64 + len(values) + inner
    if isinstance(values, dict):
        return 64 + sum(_bytes_of(value) for value in values.values())
    return 64


def _examples(data: TaskData, rows: Sequence[Row]) -> Steps[tuple[Example, ...]]:
    examples = []
    for row in rows:
        examples.append(_example(data, row))
        if len(examples) % CHECKED_TOGETHER == 0:
            yield
    return tuple(examples)


def _example(data: TaskData, row: Row) -> Example:
    """An example whose values have the right types. Raises TaskError."""
    where, values = row
    inputs: dict[str, Any] = {}
    start = 0
    for role, names in data.columns.items():
        cells = values[start : start + len(names)]
        start += len(names)
        if len(cells) == 1:
            value = cells[0]
        else:
            value = list(cells)
        if role == IMAGE:
            inputs[role] = picture_of(data.table.path, where, value)
            inputs[role].opened(small=True)
            continue
        if role == LABEL:
            check = KINDS[data.kind].label_cell
        else:
            check = INPUT_CELLS[role]
        inputs[role] = checked_cell(check, data.table, where, names[0], value)
    label = inputs.pop(LABEL, None)
    return Example(row=where, inputs=inputs, label=label)


def kind_of(task: Task, config: Mapping[str, Any], table: Table) -> TaskKind:
    """The kind given by the task, or else the one that suits the model's class and the data.

    Raises TaskError if the model cannot do it, or the kind is ambiguous.
    """
    name = class_of(config)
    kinds = kinds_of(config)
    if task.kind is not None:
        if task.kind not in kinds:
            raise TaskError(
                f"{task.title}: a model of the class {name or 'unknown'} does no "
                f"{task.kind.value}; choose another model, or another kind.",
                key="kind",
            )
        return task.kind
    if not kinds:
        raise TaskError(
            f"{task.title}: what a model of the class {name or 'unknown'} does is not known here; "
            "give the task a kind, and an expert that does it.",
            key="kind",
        )
    suiting = [kind for kind in kinds if KINDS[kind].suits(task, config, table.columns)]
    return (suiting or kinds)[0]


def kinds_of(config: Mapping[str, Any]) -> list[TaskKind]:
    """The kinds of tasks that a model can do."""
    return [kind for kind in KINDS if kind.does(class_of(config))]


def _require_settings(task: Task, kind: TaskKind) -> None:
    """Raise TaskError for a setting that the kind does not use, or that it needs."""
    name = task.title
    placeholder = kind.traits.placeholder
    unused = [key for key in kind.traits.unused if getattr(task, key) not in _UNSET]
    if task.pattern and task.metric is not Metric.REGEX:
        unused.append("pattern")
    if unused:
        raise TaskError(
            f"{name}: {kind.value} has no use for {unused[0]}; remove it.", key=unused[0]
        )
    if task.prompt is not None and placeholder not in task.prompt:
        raise TaskError(
            f"{name}: the prompt needs {placeholder}, where the text goes.", key="prompt"
        )
    if task.metric is not None:
        require_overlap(task.metric)
    if task.metric is Metric.REGEX and task.pattern is None:
        raise TaskError(f"{name}: the metric regex needs a pattern.", key="pattern")


def metric_of(task: Task, kind: TaskKind) -> Metric:
    """The task's metric, or else its kind's default. Raises TaskError for one of another kind."""
    offered_metrics = kind.traits.metrics
    if task.metric is not None and task.metric not in offered_metrics:
        offered = ", ".join(metric.value for metric in offered_metrics)
        raise TaskError(
            f"{task.title}: {task.metric.value} does not suit {kind.value}; choose {offered}.",
            key="metric",
        )
    return task.metric or offered_metrics[0]


def columns_of(
    task: Task, kind: TaskKind, table: Table, *, labelled: bool = True
) -> dict[str, tuple[str, ...]]:
    """The columns for each role of the kind: given by the task, or else recognised by name.

    ``labelled``: whether the right answers are needed as well. Raises TaskError if a column is
    missing or ambiguous.
    """
    traits = kind.traits
    chosen = _given_columns(task, kind, table, labelled=labelled)
    assigned = set(chain.from_iterable(chosen.values()))
    unassigned = [column for column in table.columns if column not in assigned]
    alone = TEXT in chosen
    for role in reversed(traits.roles):  # labels and pictures have typical names, texts do not
        if role == LABEL and not labelled:
            named = usual_column(LABEL, unassigned)
            unassigned = [column for column in unassigned if column != named]
        elif role not in chosen:
            match = usual_column(role, unassigned) or (_only(unassigned) if role == TEXT else None)
            if match is None:
                offered = ", ".join(map(repr, table.columns[:20]))
                raise refused(
                    table.path,
                    f"Choose which column is the {role} of {kind.value}: {offered}; in a recipe, "
                    f"as columns: {{{role}: NAME}}.",
                    setting=role,
                )
            chosen[role] = (match,)
            unassigned.remove(match)
    if alone or PAIR not in traits.optional:
        second = None
    else:
        second = usual_column(PAIR, unassigned)
    if second is None:
        return chosen
    return {**chosen, PAIR: (second,)}


def _given_columns(
    task: Task, kind: TaskKind, table: Table, *, labelled: bool
) -> dict[str, tuple[str, ...]]:
    """The columns given by the task. Raises TaskError."""
    roles = kind.traits.every_role
    chosen = {}
    for role, names in task.columns.items():
        if role not in roles:
            raise TaskError(
                f"{task.title}: {kind.value} has no use for {role!r} in columns; it knows "
                f"{', '.join(roles)}.",
                key="columns",
            )
        if role == LABEL and not labelled:
            continue
        chosen[role] = (names,) if isinstance(names, str) else tuple(names)
        require_columns(table.path, table.columns, chosen[role], role)
    _require_different(task, chosen)
    return chosen


def _require_different(task: Task, chosen: Mapping[str, tuple[str, ...]]) -> None:
    """Raise TaskError if a column has two roles: a model would be asked for what it is given."""
    roles: dict[str, str] = {}
    for role, names in chosen.items():
        for name in names:
            if roles.setdefault(name, role) != role:
                error = TaskError(
                    f"{task.title}: the column {name!r} is both {roles[name]} and {role}; choose "
                    "different columns.",
                    key="columns",
                )
                error.setting = role
                raise error


def _only(columns: Sequence[str]) -> str | None:
    candidates = [column for column in columns if column.lower() not in _NO_TEXT]
    if len(candidates) == 1:
        return candidates[0]
    return None
