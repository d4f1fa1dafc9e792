"""Scores of models on tasks, their routes, examples and tuned parameters, for display.

Plain values, without torch. L layers, T experts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from ace_gui.field_info import is_wide
from ace_gui.formatting import counted, value_text
from ace_gui.recipe import Recipe
from ace_gui.recipe.task_kinds import Metric, TaskKind
from ace_gui.recipe.values import ParameterValue, Task

if TYPE_CHECKING:  # an empty window does not need it
    import numpy as np
    from numpy.typing import NDArray


def _of_no_example() -> NDArray[np.float64]:
    import numpy as np

    return np.empty(0)


LESS_IS_BETTER: Final = frozenset(metric.value for metric in Metric if metric.traits.less_is_better)
CENTRED: Final = frozenset(metric.value for metric in Metric if metric.traits.is_centred)
"""Metrics whose chance level is 0; a ratio to a score near 0 is meaningless."""

LOSSES: Final = frozenset(metric.value for metric in Metric if metric.traits.of_losses)
"""Metrics that give each example a loss instead of right or wrong."""

BASE: Final = "base"
EXPERTS: Final = "experts"
"""Name of the table row that shows every expert on its own task."""


@dataclass(frozen=True, kw_only=True)
class TaskScore:
    """One score."""

    model: str
    """"base", an expert's name, or a folder."""
    task: str
    """The task's title."""
    metric: str
    """The metric's name."""
    score: float
    """Its value."""
    n: int
    """Number of examples."""
    standard_error: float
    """Of the score; NaN if unknown."""
    normalised: float | None = None
    """Share of the score of the task's own expert; None if it has none, or if that score is too
    small to compare with.
    """
    own: bool = False
    """Whether the model is that expert."""
    each_N: NDArray[np.float64] = field(default_factory=_of_no_example, compare=False, repr=False)
    """Each example's contribution to the score."""
    chat: bool | None = None
    """Whether prompts were in the chat template; None: the model gets no prompts."""
    cut: int = 0
    """Number of examples with a cut answer or input."""
    cut_words: int = 0
    """Labelled words among these that have no answer."""
    chance: float | None = None
    """What answers at random reach; None if it is not known, or for other metrics than accuracy."""

    @property
    def text(self) -> str:
        """The score with its standard error, where they are defined."""
        if not math.isfinite(self.score):
            return "undefined"
        error = self.standard_error
        return f"{self.score:.4g}" + (f" ± {error:.2g}" if math.isfinite(error) else "")

    def record(self) -> dict[str, object]:
        """The dict of ``evaluate --json``, in which NaN is null.

        ``chat`` and ``chance`` are left out if None, ``cut`` and ``cut_words`` if 0.
        """
        optional: dict[str, object] = {"chat": self.chat, "chance": self.chance}
        optional |= {"cut": self.cut or None, "cut_words": self.cut_words or None}
        return {
            "model": self.model,
            "task": self.task,
            "metric": self.metric,
            "score": finite_or_none(self.score),
            "n": self.n,
            "standard_error": finite_or_none(self.standard_error),
            "normalised": finite_or_none(self.normalised),
            **{key: value for key, value in optional.items() if value is not None},
        }


def score_from(record: Mapping[str, Any]) -> TaskScore:
    """The score of a ``record``. Raises KeyError, TypeError and ValueError for another dict."""
    normalised = record["normalised"]
    return TaskScore(
        model=str(record["model"]),
        task=str(record["task"]),
        metric=str(record["metric"]),
        score=_number_or_nan(record["score"]),
        n=int(record["n"]),
        standard_error=_number_or_nan(record["standard_error"]),
        normalised=None if normalised is None else float(normalised),
        own=normalised == 1.0,  # an expert's score as a share of its own
        chance=record.get("chance"),
    )


def _number_or_nan(value: float | None) -> float:
    if value is None:
        return math.nan
    return float(value)


@dataclass(frozen=True, kw_only=True)
class MeanScore:
    """Unweighted means of a model over all tasks."""

    model: str
    """As in ``TaskScore``."""
    score: float | None
    """Mean score; None if the model was not scored on all tasks, if metrics differ in direction, or
    if a score is not finite.
    """
    normalised: float | None
    """Mean share of the experts' scores; None if a task has none."""
    gain: float | None = None
    """Mean share of the way from the base's score to the expert's; None if the base or an expert
    was not scored, or an expert is not better.
    """
    undefined: tuple[str, ...] = ()
    """Tasks whose score is NaN or infinite."""
    unmeasured: tuple[str, ...] = ()
    """Tasks with a finite score but without a share; empty if no expert was scored."""

    def record(self) -> dict[str, object]:
        """The dict of ``evaluate --json``."""
        return asdict(self)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Why a mean is missing, one sentence each."""
        lines = []
        if self.undefined:
            tasks = ", ".join(self.undefined)
            lines.append(f"The score of {self.model} on {tasks} is undefined or infinite: no mean.")
        if self.unmeasured:
            tasks = ", ".join(self.unmeasured)
            lines.append(
                f"No mean share of the experts: no expert belongs to {tasks}, or its own score is "
                "not clearly above 0."
            )
        return tuple(lines)


def normalised(metric: str, score: float, expert: float, error: float = 0.0) -> float | None:
    """The share of the expert's score; above 1 is better than the expert.

    None if the scores cannot be compared, as with an expert's correlation within two standard
    errors of 0. ``error``: standard error of the expert's score.
    """
    divisor, dividend = (score, expert) if metric in LESS_IS_BETTER else (expert, score)
    if metric in CENTRED and math.isfinite(error):
        least = 2 * error
    else:
        least = 0.0
    if not (math.isfinite(divisor) and math.isfinite(dividend) and divisor > least):
        return None
    return dividend / divisor


def share_of_way(metric: str, score: float, base: float, expert: float) -> float | None:
    """The fraction of the way from the base's score to the expert's.

    0 at the base, 1 at the expert. None if the expert is not better than the base, or a score is
    not finite.
    """
    if metric in LESS_IS_BETTER:
        way = base - expert
    else:
        way = expert - base
    if not (math.isfinite(score) and math.isfinite(way) and way > 0):
        return None
    return (score - base) / (expert - base)


def means(scores: Sequence[TaskScore]) -> tuple[MeanScore, ...]:
    """A mean for every model; the experts on their own tasks count as one model."""
    tasks = dict.fromkeys(score.task for score in scores)
    models = dict.fromkeys(line_of(score) for score in scores)
    base = {score.task: score.score for score in scores if line_of(score) == BASE}
    experts = {score.task: score.score for score in scores if line_of(score) == EXPERTS}
    rows = []
    for model in models:
        scores_of_model = [score for score in scores if line_of(score) == model]
        rows.append(_mean(model, len(tasks), scores_of_model, base, experts))
    return tuple(rows)


def remarks(scores: Sequence[TaskScore]) -> tuple[str, ...]:
    """Remarks for a reader of these scores, one sentence each: ``missing``, then ``notes``."""
    return (*missing(scores), *notes(scores))


def missing(scores: Sequence[TaskScore]) -> tuple[str, ...]:
    """Why means of these scores are missing, one sentence each."""
    return tuple(dict.fromkeys(remark for mean in means(scores) for remark in mean.remarks))


def notes(scores: Sequence[TaskScore]) -> tuple[str, ...]:
    """Which prompts language models got, and how many answers were cut, one sentence each."""
    return (*_chat_notes(scores), *(_cut_note(score) for score in scores if score.cut))


def _chat_notes(scores: Sequence[TaskScore]) -> Iterator[str]:
    for task in dict.fromkeys(score.task for score in scores):
        prompted = [score for score in scores if score.task == task and score.chat is not None]
        with_chat = ", ".join(dict.fromkeys(score.model for score in prompted if score.chat))
        without = ", ".join(dict.fromkeys(score.model for score in prompted if not score.chat))
        if with_chat and without:
            yield f"On {task}, {with_chat} got the chat template, {without} the plain prompt."
        elif prompted:
            if with_chat:
                how = "its chat template"
            else:
                how = "plain prompts, without a chat template"
            yield f"On {task}, every model got {how}."


def _cut_note(score: TaskScore) -> str:
    of = f"{score.model} on {score.task}: {score.cut} of {score.n}"
    if score.cut_words:
        words = counted(score.cut_words, "word counts", "words count")
        return f"{of} examples are cut at the model's limit; {words} as wrong there."
    return f"{of} answers or prompts are cut at their limit; raise max_new_tokens if it is low."


def line_of(score: TaskScore) -> str:
    """The table row of a score; experts on their own tasks share one row."""
    if score.own:
        return EXPERTS
    return score.model


def _mean(
    model: str,
    tasks: int,
    scores: Sequence[TaskScore],
    base: Mapping[str, float],
    experts: Mapping[str, float],
) -> MeanScore:
    complete = len({score.task for score in scores}) == tasks == len(scores)
    alike = len({score.metric in LESS_IS_BETTER for score in scores}) == 1
    ways = []
    for score in scores:
        of_base = base.get(score.task, math.nan)
        of_expert = experts.get(score.task, math.nan)
        ways.append(share_of_way(score.metric, score.score, of_base, of_expert))
    shares = [score.normalised for score in scores]
    unmeasured = []
    if experts or any(share is not None for share in shares):
        for score in scores:
            if score.normalised is None and math.isfinite(score.score):
                unmeasured.append(score.task)
    return MeanScore(
        model=model,
        score=_mean_of(score.score for score in scores) if complete and alike else None,
        normalised=_mean_of(shares) if complete else None,
        gain=_mean_of(ways) if complete else None,
        undefined=tuple(score.task for score in scores if not math.isfinite(score.score)),
        unmeasured=tuple(unmeasured),
    )


def _mean_of(values: Iterable[float | None]) -> float | None:
    """The mean; None if a value is missing, as a mean of the rest would look like that of all."""
    numbers = [math.nan if value is None else value for value in values]
    if numbers:
        mean = sum(numbers) / len(numbers)
    else:
        mean = math.nan
    return finite_or_none(mean)


def finite_or_none(value: float | None) -> float | None:
    """The value for JSON, which has no number for NaN and infinity."""
    if value is None or not math.isfinite(value):
        return None
    return value


WHOLE: Final = "whole model"
"""Layer name of a router that serves the whole model."""


@dataclass(frozen=True, kw_only=True)
class TaskRoutes:
    """The weights that a model's routers gave to the experts, averaged over a task's examples."""

    model: str
    """The model's folder."""
    task: str
    """The task's title."""
    owner: str | None
    """The expert of the task; None if it has none."""
    layers: tuple[str, ...]
    """Where the routers are."""
    experts: tuple[str, ...]
    """Their names."""
    share_LT: tuple[tuple[float, ...], ...]
    """By layer and expert; each row adds up to the router's total."""
    n: int
    """Number of examples."""
    seconds: float
    """Mean time of the model per example."""
    plain_seconds: float
    """The same without its modules."""
    module_bytes: int
    """Size of the modules."""

    @property
    def mean_T(self) -> tuple[float, ...]:
        """The shares averaged over the layers."""
        columns = zip(*self.share_LT, strict=True)
        return tuple(sum(column) / len(self.layers) for column in columns)

    def record(self) -> dict[str, object]:
        """A JSON-compatible dict."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class RoutesFound:
    """The routes of all models; empty if no model has a router."""

    routes: tuple[TaskRoutes, ...]


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
    """A task as it would be scored: its inferred settings and first examples."""

    task: Task
    """As it was given."""
    expert: str | None = None
    """The owner of the task; None if it has none."""
    kinds: tuple[TaskKind, ...] = ()
    """Possible kinds."""
    kind: TaskKind | None = None
    """Its kind; None if unknown."""
    metrics: tuple[Metric, ...] = ()
    """Possible metrics."""
    metric: Metric | None = None
    """Its metric; None if unknown."""
    table_columns: tuple[str, ...] = ()
    """All columns of its data."""
    roles: tuple[str, ...] = ()
    """Roles required by its kind."""
    optional: tuple[str, ...] = ()
    """Further roles that it can use."""
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The columns used, by role."""
    count: int = 0
    """Number of examples."""
    chance: float | None = None
    """The score of answers at random; None if it is not known."""
    examples: tuple[ShownExample, ...] = ()
    """The first examples."""
    fault: str = ""
    """A sentence on an error, with file and row; the other fields are then filled as far as known.
    Empty without one.
    """
    wrong: str = ""
    """The setting to be changed, or the role of a column; empty if it is none of these."""
    fitting: tuple[str, ...] = ()
    """If its labels are wrong, the experts whose labels fit the data."""


class AnswerVerdict(IntEnum):
    """How an example changed from one model to another."""

    BOTH_RIGHT = 0
    LOST = 1
    GAINED = 2
    BOTH_WRONG = 3


@dataclass(frozen=True, kw_only=True)
class ComparedExample:
    """``answer``: the model's; ``other``: that of the model it is compared with."""

    example: ShownExample
    answer: str
    other: str


@dataclass(frozen=True, kw_only=True)
class ExamplesCompared:
    """The examples of one task on which two models differ, or both fail."""

    task: str
    """The task's title."""
    kind: TaskKind
    """Of the task."""
    metric: Metric
    """Of the task."""
    model: str
    """The first model, a merge."""
    other: str
    """The second model."""
    counts: Mapping[AnswerVerdict, int]
    """All examples by verdict."""
    examples: Mapping[AnswerVerdict, tuple[ComparedExample, ...]]
    """The first of them, or those that differ most if there is no right or wrong."""


@dataclass(frozen=True, kw_only=True)
class ParameterRange:
    """A parameter of the recipe's method, searched from ``low`` to ``high``."""

    name: str
    low: float
    high: float

    def is_logarithmic(self, *, declared: bool) -> bool:
        """Whether its values are searched and drawn on a logarithmic scale.

        ``declared``: whether the parameter is of that kind.
        """
        return is_wide(self.low, self.high) or (declared and self.low > 0)


def usual_merges(parameters: int) -> int:
    """The number of merges in a search of so many parameters, if nobody chooses another."""
    if parameters <= 1:
        return 9
    return 25


@dataclass(frozen=True, kw_only=True)
class TunePoint:
    """One merge of the search."""

    parameters: Mapping[str, ParameterValue]
    """The values tried."""
    index: int
    """From 0."""
    of: int
    """Number of merges of the search."""
    score: float | None
    """The objective, on the half of the data used for the search: the mean share of the experts'
    scores, or the mean score; None if this merge failed.
    """
    seconds: float
    """Of merging and scoring."""
    error: str = ""
    """Why it failed; empty if it did not."""


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """The result of a search."""

    points: tuple[TunePoint, ...]
    """All merges of the search."""
    best: TunePoint
    """One of ``points``."""
    scores: tuple[TaskScore, ...]
    """Of that merge on the other half of the data."""
    before: tuple[TaskScore, ...]
    """Of the original recipe on the same half."""
    seconds: float
    """Of everything."""
    recipe: Recipe
    """With the chosen values, and with those that followed from the base model."""

    @property
    def compared(self) -> tuple[TaskScore, ...]:
        """``before`` and ``scores``, as the models "as it was" and "chosen"."""
        before = (replace(score, model="as it was") for score in self.before)
        return (*before, *(replace(score, model="chosen") for score in self.scores))


def values_of(point: TunePoint) -> str:
    """``scaling 0.8, tau 0.3``."""
    return ", ".join(f"{name} {value_text(value)}" for name, value in point.parameters.items())


def how_chosen(tuned: Tuned) -> str:
    """A note for the recipe: how its values were chosen, and what that means for its scores."""
    tasks = ", ".join(score.task for score in tuned.scores)
    return (
        f"{values_of(tuned.best)}, the best of {len(tuned.points)} merges on half of the data of "
        f"{tasks}; scores on these data are no longer scores on unseen data"
    )
