"""Scores of answers, with their standard errors.

N examples, K labels, R resamples.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ace_gui.recipe.tasks import Metric, TaskKind

RESAMPLES: Final = 200
"""Resamples of the bootstrap, for scores without a closed standard error: accurate to 5 %."""

_TAGGED: Final = re.compile(r"[BIES]-.")

OUTSIDE: Final = "O"
"""The label of words outside of names; F1 of words leaves it out."""


@dataclass(frozen=True, kw_only=True)
class MetricResult:
    """The score of some answers.

    ``each``: by example, its contribution: 1 or 0 for right or wrong (a fraction of its words), the
    negative log-likelihood of a token, the error of a number.
    """

    score: float
    standard_error: float
    each_N: NDArray[np.float64]


def measured(
    metric: Metric,
    kind: TaskKind,
    answers: Sequence[Any],
    targets: Sequence[Any],
    label_names: Sequence[str] = (),
) -> MetricResult:
    """Score answers by the right ones. An undefined score is NaN.

    Accuracy and exact match: the share that is right, with half the width of Wilson's interval of
    one standard deviation (E. B. Wilson, JASA 22, 1927), which is not 0 where all are right.
    Perplexity: exp(Σ nll / Σ tokens) of answers (nll, tokens), with the standard error of the ratio
    by the delta method. F1 (of the label 1 where there are two labels, else the mean over the
    labels; of words: over all entities, or words in a name), Matthews' correlation, Pearson's and
    Spearman's: by scikit-learn and SciPy, with the standard deviation of 200 seeded resamples of
    the examples; NaN where all resamples are alike.
    """
    if metric is Metric.PERPLEXITY:
        return _perplexity(answers)
    if kind is TaskKind.TOKEN_CLASSIFICATION:
        return _of_words(metric, answers, targets, label_names)
    if metric in (Metric.PEARSON, Metric.SPEARMAN):
        return _correlation(metric, np.asarray(answers, float), np.asarray(targets, float))
    if metric is Metric.EXACT_MATCH:
        right_N = np.array([a.strip() == t.strip() for a, t in zip(answers, targets, strict=True)])
        return _share(right_N.astype(float))
    answer_N, target_N = np.asarray(answers), np.asarray(targets)
    if metric is Metric.ACCURACY:
        return _share((answer_N == target_N).astype(float))
    return _of_labels(metric, answer_N, target_N, len(label_names))


def _share(each_N: NDArray[np.float64]) -> MetricResult:
    share, count = float(each_N.mean()), len(each_N)
    error = math.sqrt(share * (1 - share) / count + 1 / (4 * count**2)) / (1 + 1 / count)
    return MetricResult(score=share, standard_error=error, each_N=each_N)


def _perplexity(answers: Sequence[tuple[float, int]]) -> MetricResult:
    nll_N = np.array([nll for nll, _ in answers])
    tokens_N = np.array([tokens for _, tokens in answers], dtype=float)
    mean = float(nll_N.sum() / tokens_N.sum()) if tokens_N.sum() else math.nan
    count = len(nll_N)
    residual_N = nll_N - mean * tokens_N
    spread = float((residual_N**2).sum()) * count / max(count - 1, 1)
    error = math.sqrt(spread) / tokens_N.sum() if tokens_N.sum() else math.nan
    with np.errstate(over="ignore"):
        score = float(np.exp(mean))
    return MetricResult(
        score=score,
        standard_error=score * float(error),
        each_N=nll_N / np.maximum(tokens_N, 1),
    )


def _of_words(
    metric: Metric, answers: Sequence[Any], targets: Sequence[Any], label_names: Sequence[str]
) -> MetricResult:
    """Words of one sentence are not independent, so sentences are resampled."""
    pairs = [(np.asarray(a), np.asarray(t)) for a, t in zip(answers, targets, strict=True)]
    each_N = np.array([float((a == t).mean()) if len(t) else 1.0 for a, t in pairs])
    if metric is Metric.ACCURACY:
        part_N = np.array([(answer == target).sum() for answer, target in pairs])
        whole_N = np.array([len(target) for _, target in pairs])
    else:
        part_N, whole_N = np.array([_named(*pair, label_names) for pair in pairs]).T
    sums_R2 = np.array(
        [(part_N[at_N].sum(), whole_N[at_N].sum()) for at_N in _resamples(len(pairs))]
    )
    score = float(_ratio(part_N.sum(), whole_N.sum(), metric))
    return MetricResult(
        score=score,
        standard_error=_spread(_ratio(sums_R2[:, 0], sums_R2[:, 1], metric)),
        each_N=each_N,
    )


def _named(
    answer_W: NDArray[Any], target_W: NDArray[Any], label_names: Sequence[str]
) -> tuple[int, int]:
    """2 TP and 2 TP + FP + FN; F1 over all sentences is the ratio of the sums.

    Of entities if labels have the prefixes of BIO or BIOES, else of words in a name.
    """
    if any(_TAGGED.match(name) for name in label_names):
        names = [*label_names, OUTSIDE]  # index −1: a truncated word, without an answer
        answered, meant = (entities([names[n] for n in each_W]) for each_W in (answer_W, target_W))
        return 2 * len(answered & meant), len(answered) + len(meant)
    named = [n for n, name in enumerate(label_names) if name != OUTSIDE]
    answered_W, meant_W = np.isin(answer_W, named), np.isin(target_W, named)
    right = int((meant_W & (answer_W == target_W)).sum())
    return 2 * right, int(answered_W.sum() + meant_W.sum())


def entities(labels: Sequence[str]) -> set[tuple[str, int, int]]:
    """Entities of a sentence, as (type, first word, word after the last).

    seqeval's default definition, which is conlleval's: I- or E- without a beginning starts an
    entity, and another type ends one. For BIO, BIOES and labels without a prefix.
    """
    found: set[tuple[str, int, int]] = set()
    start, before, kind = 0, OUTSIDE, OUTSIDE
    for index, label in enumerate([*labels, OUTSIDE]):
        prefix, _, own = label.partition("-") if _TAGGED.match(label) else ("I", "", label)
        prefix = OUTSIDE if label == OUTSIDE else prefix
        new = prefix in ("B", "S", OUTSIDE) or before in ("E", "S", OUTSIDE) or own != kind
        if new and before != OUTSIDE:
            found.add((kind, start, index))
        if new:
            start = index
        before, kind = prefix, own
    return found


def _ratio(part: Any, whole: Any, metric: Metric) -> NDArray[np.float64]:
    """The ratio; NaN without examples, as accuracy and F1 are undefined."""
    none = math.nan if metric is Metric.ACCURACY else 0.0
    return np.where(whole > 0, part / np.maximum(whole, 1), none)


def _of_labels(
    metric: Metric, answer_N: NDArray[Any], target_N: NDArray[Any], labels: int
) -> MetricResult:
    """F1 and Matthews' correlation, computed from the confusion matrix."""
    from sklearn import metrics

    known_K, index_2N = np.unique([target_N, answer_N], return_inverse=True)
    count = len(known_K)
    pair_N = index_2N.reshape(2, -1)[0] * count + index_2N.reshape(2, -1)[1]
    confusion_RKK = np.array(
        [
            np.bincount(pair_N[at_N], minlength=count**2).reshape(count, count)
            for at_N in _resamples(len(pair_N))
        ]
    )
    if metric is Metric.MATTHEWS:
        score = metrics.matthews_corrcoef(target_N, answer_N) if count > 1 else 0.0
        resampled_R = matthews(confusion_RKK)
    elif labels == 2 and {*known_K.tolist()} <= {0, 1}:
        score = metrics.f1_score(target_N, answer_N, zero_division=0)
        resampled_R = f1(confusion_RKK)[:, known_K == 1].sum(axis=1)
    else:
        score = metrics.f1_score(target_N, answer_N, average="macro", zero_division=0)
        own_RK = f1(confusion_RKK)
        seen_RK = confusion_RKK.sum(axis=1) + confusion_RKK.sum(axis=2) > 0
        resampled_R = own_RK.sum(axis=1) / seen_RK.sum(axis=1)
    each_N = (answer_N == target_N).astype(float)
    return MetricResult(score=float(score), standard_error=_spread(resampled_R), each_N=each_N)


def f1(confusion_RKK: NDArray[np.int64]) -> NDArray[np.float64]:
    """F1 of each label, R × K, from confusion matrices (target × answer).

    0 for a label that never occurs.
    """
    right_RK = np.diagonal(confusion_RKK, axis1=1, axis2=2)
    both_RK = confusion_RKK.sum(axis=1) + confusion_RKK.sum(axis=2)
    found_RK: NDArray[np.float64] = 2 * right_RK / np.maximum(both_RK, 1)
    return found_RK


def matthews(confusion_RKK: NDArray[np.int64]) -> NDArray[np.float64]:
    """Matthews' correlation for K labels, from confusion matrices (target × answer).

    0 for constants. Source: J. Gorodkin, Computational Biology and Chemistry 28, 2004, equation 8.
    """
    count_R = confusion_RKK.sum(axis=(1, 2)).astype(float)
    right_R = np.trace(confusion_RKK, axis1=1, axis2=2)
    target_RK, answer_RK = confusion_RKK.sum(axis=2), confusion_RKK.sum(axis=1)
    covariance_R = right_R * count_R - (target_RK * answer_RK).sum(axis=1)
    spread_R = (count_R**2 - (target_RK**2).sum(axis=1)) * (count_R**2 - (answer_RK**2).sum(axis=1))
    found_R: NDArray[np.float64] = np.where(
        spread_R > 0, covariance_R / np.sqrt(np.maximum(spread_R, 1)), 0.0
    )
    return found_R


def _correlation(
    metric: Metric, answer_N: NDArray[np.float64], target_N: NDArray[np.float64]
) -> MetricResult:
    from scipy import stats

    statistic = {Metric.PEARSON: stats.pearsonr, Metric.SPEARMAN: stats.spearmanr}[metric]

    def compute(target_N: NDArray[np.float64], answer_N: NDArray[np.float64]) -> float:
        if len(target_N) < 2 or np.ptp(target_N) == 0 or np.ptp(answer_N) == 0:
            return math.nan
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nearly constant answers
            return float(statistic(target_N, answer_N).statistic)

    draws = [compute(target_N[at_N], answer_N[at_N]) for at_N in _resamples(len(answer_N))]
    return MetricResult(
        score=compute(target_N, answer_N),
        standard_error=_spread(np.array(draws)),
        each_N=np.abs(answer_N - target_N),
    )


def _resamples(count: int) -> Iterator[NDArray[np.int64]]:
    """R bootstrap samples of the indices of examples, drawn with replacement."""
    generator = np.random.default_rng(0)
    for _ in range(RESAMPLES):
        yield generator.integers(count, size=count)


def _spread(draws_R: NDArray[np.float64]) -> float:
    """The standard deviation; NaN if all resamples are equal, as precision is then unknown."""
    known = draws_R[np.isfinite(draws_R)]
    return float(np.std(known, ddof=1)) if len(known) > 1 and np.ptp(known) > 0 else math.nan
