"""How good a model is at a task: plain values, nothing of torch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # an empty window does without
    import numpy as np
    from numpy.typing import NDArray


def _of_no_example() -> NDArray[np.float64]:
    import numpy as np

    return np.empty(0)


LESS_IS_BETTER: Final = frozenset({"perplexity"})
EXPERTS: Final = "experts"
"""The line of a table in which every expert does its own task."""


@dataclass(frozen=True, kw_only=True)
class TaskScore:
    """``model``: base, an expert's name, or a folder as it was given. ``n``: examples.

    ``normalised``: the share of what the task's own expert reaches; None where none owns it, or
    its own score is no measure. ``own``: the model is that expert. ``each_N``: by example, what it
    adds to the score.
    """

    model: str
    task: str
    metric: str
    score: float
    n: int
    standard_error: float
    normalised: float | None = None
    own: bool = False
    each_N: NDArray[np.float64] = field(default_factory=_of_no_example, compare=False, repr=False)

    def record(self) -> dict[str, object]:
        """As ``evaluate --json`` has it; JSON has no NaN."""
        return {
            "model": self.model,
            "task": self.task,
            "metric": self.metric,
            "score": _finite(self.score),
            "n": self.n,
            "standard_error": _finite(self.standard_error),
            "normalised": _finite(self.normalised),
        }


@dataclass(frozen=True, kw_only=True)
class MeanScore:
    """Unweighted means of a model over all tasks; None where it was not tried on all of them, where
    metrics differ, or one is not normalised."""

    model: str
    score: float | None
    normalised: float | None

    def record(self) -> dict[str, object]:
        """As ``evaluate --json`` has it."""
        return {"model": self.model, "score": self.score, "normalised": self.normalised}


def normalised(metric: str, score: float, expert: float) -> float | None:
    """The share of what the expert reaches: above 1 is better than it; None without a measure."""
    best, own = (score, expert) if metric in LESS_IS_BETTER else (expert, score)
    if not (math.isfinite(best) and math.isfinite(own) and best > 0):
        return None
    return own / best


def means(scores: Sequence[TaskScore]) -> tuple[MeanScore, ...]:
    """A mean for every model; all experts, each on its own task, are one of them."""
    tasks = dict.fromkeys(each.task for each in scores)
    models = dict.fromkeys(line_of(each) for each in scores)
    return tuple(
        _mean(model, len(tasks), [each for each in scores if line_of(each) == model])
        for model in models
    )


def line_of(score: TaskScore) -> str:
    """The line of a table on which a score stands: experts on their own tasks share one."""
    return EXPERTS if score.own else score.model


def _mean(model: str, tasks: int, scores: Sequence[TaskScore]) -> MeanScore:
    whole = len({each.task for each in scores}) == tasks == len(scores)
    alike = len({each.metric in LESS_IS_BETTER for each in scores}) == 1
    return MeanScore(
        model=model,
        score=_mean_of(each.score for each in scores) if whole and alike else None,
        normalised=_mean_of(each.normalised for each in scores) if whole else None,
    )


def _mean_of(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    count = len(list(known))
    return sum(known) / count if count else None


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value
