"""Tasks, examples and answers as people see them: plain values, nothing of torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ace_gui.recipe.tasks import Metric, Task, TaskKind

if TYPE_CHECKING:  # an empty window does without
    import numpy as np
    from numpy.typing import NDArray

    from ace_gui.engine.contract.scored.verdicts import Verdict


@dataclass(frozen=True, kw_only=True)
class ShownExample:
    """``row``: where it stands in its file. ``texts``: by role, what the model reads. ``picture``:
    H × W × 3, uint8, not large. ``label``: what the answer should be."""

    row: str
    texts: tuple[tuple[str, str], ...] = ()
    picture: NDArray[np.uint8] | None = field(default=None, compare=False, repr=False)
    label: str = ""


@dataclass(frozen=True, kw_only=True)
class TaskDescribed:
    """A task as it would be scored: what is guessed for it, and its first examples.

    ``expert``: whose task it is. ``kinds``, ``metrics``: what it can be; ``table_columns``: of its
    data; ``columns``: by role those that are read; ``roles``: what its kind needs, ``optional``:
    what it can use besides. ``count``: of examples. ``fault``: a sentence that says what is wrong,
    with file and row; then the rest is as far as it is known.
    """

    task: Task
    expert: str | None = None
    kinds: tuple[TaskKind, ...] = ()
    kind: TaskKind | None = None
    metrics: tuple[Metric, ...] = ()
    metric: Metric | None = None
    table_columns: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    count: int = 0
    examples: tuple[ShownExample, ...] = ()
    fault: str = ""


@dataclass(frozen=True, kw_only=True)
class ComparedExample:
    """``answer``: the model's; ``other``: that of the model it is compared with."""

    example: ShownExample
    answer: str
    other: str


@dataclass(frozen=True, kw_only=True)
class ExamplesCompared:
    """The examples of one task on which ``model`` and ``other`` differ, or both fail.

    ``counts``: of all of a verdict; ``examples``: the first of them, where there is no right or
    wrong those that differ most.
    """

    task: str
    kind: TaskKind
    metric: Metric
    model: str
    other: str
    counts: Mapping[Verdict, int]
    examples: Mapping[Verdict, tuple[ComparedExample, ...]]


@dataclass(frozen=True, kw_only=True)
class TriedBegun:
    """``model`` is being loaded: ``base``, an expert's name, or the path of a merge's store."""

    model: str


@dataclass(frozen=True, kw_only=True)
class TriedText:
    """More of what ``model`` writes."""

    model: str
    piece: str


@dataclass(frozen=True, kw_only=True)
class Tried:
    """``model`` has answered. ``shares``: by label, largest first; they add up to 1. ``words``: an
    answer that is no label. ``error``: why it could not answer."""

    model: str
    shares: tuple[tuple[str, float], ...] = ()
    words: str = ""
    error: str = ""
