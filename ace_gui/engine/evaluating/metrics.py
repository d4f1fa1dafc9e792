"""Scores of answers, with their standard errors.

N examples.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ace_gui.recipe.tasks import Metric, TaskKind

RESAMPLES: Final = 200
"""Of the bootstrap, where a score has no standard error of closed form: it is good to 5 %."""

OUTSIDE: Final = "O"
"""The label of words that are no part of a name; F1 of words leaves it out."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """``each``: by example, what it adds: 1 or 0 for right or wrong (a share of the words), the
    negative log-likelihood of a token, the error of a number."""

    score: float
    standard_error: float
    each_N: NDArray[np.float64]


def measured(
    metric: Metric,
    kind: TaskKind,
    answers: Sequence[Any],
    targets: Sequence[Any],
    label_names: Sequence[str] = (),
) -> Measured:
    """Score answers against what they should be. A score that is not defined is NaN.

    Accuracy and exact match: the share that is right, with √(p(1 − p)/n). Perplexity:
    exp(Σ nll / Σ tokens) of answers (nll, tokens), with the standard error of the ratio by the
    delta method. F1 (of the label 1 where there are two labels, else the mean over the labels; of
    words: over all that are in a name), Matthews' correlation, Pearson's and Spearman's: by
    scikit-learn and SciPy, with the standard deviation of 200 seeded resamples of the examples.
    """
    if metric is Metric.PERPLEXITY:
        return _perplexity(answers)
    if kind is TaskKind.TOKEN_CLASSIFICATION:
        return _of_words(metric, answers, targets, label_names)
    if metric in (Metric.PEARSON, Metric.SPEARMAN):
        answer_N, target_N = np.asarray(answers, float), np.asarray(targets, float)
        compute = _SCORES[metric]
        each_N = np.abs(answer_N - target_N)
    elif metric is Metric.EXACT_MATCH:
        right_N = np.array([a.strip() == t.strip() for a, t in zip(answers, targets, strict=True)])
        return _share(right_N.astype(float))
    else:
        answer_N, target_N = np.asarray(answers), np.asarray(targets)
        each_N = (answer_N == target_N).astype(float)
        if metric is Metric.ACCURACY:
            return _share(each_N)
        compute = _f1(len(label_names)) if metric is Metric.F1 else _SCORES[metric]
    score = compute(target_N, answer_N)
    error = _bootstrap(lambda at: compute(target_N[at], answer_N[at]), len(answer_N))
    return Measured(score=score, standard_error=error, each_N=each_N)


def _share(each_N: NDArray[np.float64]) -> Measured:
    share = float(each_N.mean())
    return Measured(
        score=share, standard_error=math.sqrt(share * (1 - share) / len(each_N)), each_N=each_N
    )


def _perplexity(answers: Sequence[tuple[float, int]]) -> Measured:
    nll_N = np.array([nll for nll, _ in answers])
    tokens_N = np.array([tokens for _, tokens in answers], dtype=float)
    mean = float(nll_N.sum() / tokens_N.sum()) if tokens_N.sum() else math.nan
    count = len(nll_N)
    residual_N = nll_N - mean * tokens_N
    spread = float((residual_N**2).sum()) * count / max(count - 1, 1)
    error = math.sqrt(spread) / tokens_N.sum() if tokens_N.sum() else math.nan
    with np.errstate(over="ignore"):
        score = float(np.exp(mean))
    return Measured(
        score=score,
        standard_error=score * float(error),
        each_N=nll_N / np.maximum(tokens_N, 1),
    )


def _of_words(
    metric: Metric, answers: Sequence[Any], targets: Sequence[Any], label_names: Sequence[str]
) -> Measured:
    """Words of one sentence are no independent examples: sentences are resampled."""
    pairs = [(np.asarray(a), np.asarray(t)) for a, t in zip(answers, targets, strict=True)]
    each_N = np.array([float((a == t).mean()) if len(t) else 1.0 for a, t in pairs])
    named = [n for n, name in enumerate(label_names) if name != OUTSIDE]

    def compute(at: NDArray[np.int64]) -> float:
        answer_W = np.concatenate([pairs[n][0] for n in at])
        target_W = np.concatenate([pairs[n][1] for n in at])
        if metric is Metric.ACCURACY:
            return float((answer_W == target_W).mean()) if len(target_W) else math.nan
        from sklearn.metrics import f1_score

        return float(f1_score(target_W, answer_W, labels=named, average="micro", zero_division=0))

    score = compute(np.arange(len(pairs)))
    return Measured(score=score, standard_error=_bootstrap(compute, len(pairs)), each_N=each_N)


def _bootstrap(compute: Callable[[NDArray[np.int64]], float], count: int) -> float:
    generator = np.random.default_rng(0)
    draws = [compute(generator.integers(count, size=count)) for _ in range(RESAMPLES)]
    known = [value for value in draws if math.isfinite(value)]
    return float(np.std(known, ddof=1)) if len(known) > 1 else math.nan


_Compute = Callable[[NDArray[Any], NDArray[Any]], float]


def _f1(labels: int) -> _Compute:
    from sklearn.metrics import f1_score

    average = "binary" if labels == 2 else "macro"

    def compute(target_N: NDArray[Any], answer_N: NDArray[Any]) -> float:
        return float(f1_score(target_N, answer_N, average=average, zero_division=0))

    return compute


def _matthews(target_N: NDArray[Any], answer_N: NDArray[Any]) -> float:
    from sklearn.metrics import matthews_corrcoef

    if len(np.unique(target_N)) < 2 and len(np.unique(answer_N)) < 2:
        return 0.0
    return float(matthews_corrcoef(target_N, answer_N))


def _correlation(name: str) -> _Compute:
    def compute(target_N: NDArray[Any], answer_N: NDArray[Any]) -> float:
        from scipy import stats

        if len(target_N) < 2 or np.ptp(target_N) == 0 or np.ptp(answer_N) == 0:
            return math.nan
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nearly constant answers
            return float(getattr(stats, name)(target_N, answer_N).statistic)

    return compute


_SCORES: Final[dict[Metric, _Compute]] = {
    Metric.MATTHEWS: _matthews,
    Metric.PEARSON: _correlation("pearsonr"),
    Metric.SPEARMAN: _correlation("spearmanr"),
}
