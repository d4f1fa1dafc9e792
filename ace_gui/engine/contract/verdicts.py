"""Two models on the same examples: which were lost and gained, and whether chance explains it.

N examples. For most metrics an example counts 1 if it is right and 0 if it is wrong; for some it
has a loss, of which less is better.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ace_gui.engine.contract.scored import LOSSES, AnswerVerdict, TaskScore


def verdicts(
    metric: str, model_N: NDArray[np.float64], other_N: NDArray[np.float64]
) -> NDArray[np.int64]:
    """The Verdict of each example; for a loss, whether it grew or fell."""
    verdict_N = np.full(len(model_N), int(AnswerVerdict.BOTH_RIGHT))
    if metric in LOSSES:
        verdict_N[model_N > other_N] = AnswerVerdict.LOST
        verdict_N[model_N < other_N] = AnswerVerdict.GAINED
        return verdict_N
    wrong_N = model_N < 1
    other_wrong_N = other_N < 1
    verdict_N[wrong_N & ~other_wrong_N] = AnswerVerdict.LOST
    verdict_N[~wrong_N & other_wrong_N] = AnswerVerdict.GAINED
    verdict_N[wrong_N & other_wrong_N] = AnswerVerdict.BOTH_WRONG
    return verdict_N


@dataclass(frozen=True, kw_only=True)
class Paired:
    """The result of a paired test.

    ``first``, ``second``: number of examples on which only that model does better. ``p``:
    probability that two equal models differ by as much or more by chance. ``n``: number of all
    examples.
    """

    first: int
    second: int
    n: int
    p: float


def paired(pairs: Iterable[tuple[TaskScore, TaskScore]]) -> Paired | None:
    """Two models on the same examples of some tasks.

    None if there are no examples, or if right/wrong and losses are mixed. Right or wrong: McNemar's
    exact test, binomial with ½ on the examples on which they differ (Q. McNemar, Psychometrika 12,
    1947). Losses: the mean difference divided by its standard error, normal.
    """
    usable = [(a, b) for a, b in pairs if len(a.each_N) == len(b.each_N) > 0]
    kinds = {a.metric in LOSSES for a, _ in usable}
    if len(kinds) != 1:
        return None
    verdict_N = np.concatenate([verdicts(a.metric, a.each_N, b.each_N) for a, b in usable])
    worse = int((verdict_N == AnswerVerdict.LOST).sum())
    better = int((verdict_N == AnswerVerdict.GAINED).sum())
    if kinds == {True}:
        p = _z_test(np.concatenate([a.each_N - b.each_N for a, b in usable]))
    else:
        p = _mcnemar(better, worse)
    return Paired(first=better, second=worse, n=len(verdict_N), p=p)


def _mcnemar(better: int, worse: int) -> float:
    """2 Σ_{k ≤ min} C(n, k) 2⁻ⁿ of n differing examples. It uses logarithms, as n may be large."""
    count = better + worse
    fewer = min(better, worse)
    if count == 0:
        return 1.0
    steps = np.arange(fewer, dtype=float)
    logs = np.concatenate([[0.0], np.cumsum(np.log((count - steps) / (steps + 1)))])
    return min(1.0, 2 * float(np.exp(logs - count * math.log(2)).sum()))


def _z_test(difference_N: NDArray[np.float64]) -> float:
    mean = float(difference_N.mean())
    if len(difference_N) < 2 or mean == 0:
        return 1.0
    error = float(difference_N.std(ddof=1)) / math.sqrt(len(difference_N))
    if error > 0:
        return math.erfc(abs(mean) / error / math.sqrt(2))
    return 0.0


def in_words(paired: Paired | None, first: str, second: str, metrics: Sequence[str]) -> str:
    """The test in plain words."""
    if paired is None and 0 < sum(metric in LOSSES for metric in metrics) < len(metrics):
        return "Some tasks count right answers and others losses, so no single test covers both."
    if paired is None:
        return "These two have no examples in common on which they could be compared."
    if set(metrics) <= LOSSES:
        does = "has the smaller loss"
    else:
        does = "alone is right"
    counts = (
        f"Of {paired.n} examples, {first} {does} on {paired.first} and {second} on {paired.second}."
    )
    if paired.p >= 0.05:
        return f"{counts} Two equal models differ as much {_often(paired.p)}: not significant."
    return f"{counts} Two equal models differ as much {_often(paired.p)}: significant."


def _often(p: float) -> str:
    if p < 0.001:
        return "less than once in 1000 times (p < 0.001)"
    if p < 0.05:
        return f"once in {round(1 / p)} times (p = {p:.2g})"
    return f"{100 * p:.0f} times in 100 (p = {p:.2g})"
