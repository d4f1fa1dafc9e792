"""Tasks, examples and answers for display: plain values, without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ace_gui.recipe.tasks import Metric, Task, TaskKind

if TYPE_CHECKING:  # an empty window does not need it
    import numpy as np
    from numpy.typing import NDArray

    from ace_gui.engine.contract.scored.verdicts import Verdict


@dataclass(frozen=True, kw_only=True)
class ShownExample:
    """One example for display.

    ``row``: its row in the file. ``texts``: the model's inputs by role. ``picture``: H × W × 3,
    uint8, reduced in size. ``label``: the correct answer.
    """

    row: str
    texts: tuple[tuple[str, str], ...] = ()
    picture: NDArray[np.uint8] | None = field(default=None, compare=False, repr=False)
    label: str = ""


@dataclass(frozen=True, kw_only=True)
class TaskDescribed:
    """A task as it would be scored: its inferred settings and first examples.

    ``expert``: the owner of the task. ``kinds``, ``metrics``: possible choices; ``table_columns``:
    all columns of its data; ``columns``: the columns used, by role; ``roles``: roles required by
    its kind, ``optional``: further ones it can use. ``count``: number of examples. ``fault``: a
    sentence on an error, with file and row; the other fields are then filled as far as known.
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

    ``counts``: all examples by verdict; ``examples``: the first of them, or those that differ most
    if there is no right or wrong.
    """

    task: str
    kind: TaskKind
    metric: Metric
    model: str
    other: str
    counts: Mapping[Verdict, int]
    examples: Mapping[Verdict, tuple[ComparedExample, ...]]


@dataclass(frozen=True, kw_only=True)
class TryInput:
    """One text or picture for models to answer.

    ``task``: determines the head and the kind of answer; its data are read only if ``row`` names
    one of its examples. Otherwise ``text`` (``pair``: the second of two) or ``picture`` is given.
    All models write text with the same ``seed``; ``temperature`` 0: always the likeliest token.
    ``questions``: the earlier ones of a conversation, ``answers``: by model, its answers to these;
    only models with a chat template see them.
    """

    task: Task
    row: str = ""
    text: str = ""
    pair: str = ""
    picture: Path | None = None
    seed: int = 0
    temperature: float = 0.0
    most_tokens: int = 120
    questions: tuple[str, ...] = ()
    answers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TriedBegun:
    """``model`` is being loaded: ``base``, an expert's name, or the path of a merge's store."""

    model: str


@dataclass(frozen=True, kw_only=True)
class TriedText:
    """The next piece of text that ``model`` writes."""

    model: str
    piece: str


@dataclass(frozen=True, kw_only=True)
class Tried:
    """``model`` has answered.

    ``shares``: by label, largest first; they add up to 1. ``words``: an answer that is not a label.
    ``error``: why it could not answer. ``chat``: whether it wrote in its chat template.
    """

    model: str
    shares: tuple[tuple[str, float], ...] = ()
    words: str = ""
    error: str = ""
    chat: bool = False
