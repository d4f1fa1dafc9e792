"""Scores of answers, with their standard errors. An undefined score is NaN.

F1, Matthews' correlation, Pearson's and Spearman's are computed by scikit-learn and SciPy; their
error is the standard deviation of 200 seeded resamples of the examples, NaN if all are alike.
Generated texts are compared in one normal form: Unicode NFKC, lower case, each run of white space
as one space, without white space around it and without a full stop at the end.
N examples, R resamples, W words.
"""

from __future__ import annotations

import math
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from ace_gui.errors import ResourceError
from ace_gui.recipe.task_kinds import Metric

if TYPE_CHECKING:
    from ace_gui.engine.evaluating.task_data import TaskData

RESAMPLES: Final = 200
"""Resamples of the bootstrap, for scores without a closed standard error: accurate to 5 %."""

_TAGGED: Final = re.compile(r"[BIES]-.")

OUTSIDE: Final = "O"
"""The label of words outside of names; F1 of words leaves it out."""


@dataclass(frozen=True, kw_only=True)
class MetricResult:
    """The score of some answers.

    ``each_N``: contribution of each example: 1 or 0 for right or wrong (a fraction of its words),
    the negative log-likelihood of a token, the error of a number.
    """

    score: float
    standard_error: float
    each_N: NDArray[np.float64]


def share(right: Iterable[bool]) -> MetricResult:
    """The share of examples that are right.

    The error is half the width of Wilson's interval of one standard deviation (E. B. Wilson, JASA
    22, 1927), which is not 0 if all are right.
    """
    each_N = np.array([float(is_correct) for is_correct in right])
    mean = float(each_N.mean())
    count = len(each_N)
    error = math.sqrt(mean * (1 - mean) / count + 1 / (4 * count**2)) / (1 + 1 / count)
    return MetricResult(score=mean, standard_error=error, each_N=each_N)


def perplexity(
    _data: object, answers: Sequence[tuple[float, int]], _targets: object, _names: object
) -> MetricResult:
    """exp(Σ nll / Σ tokens) of answers (nll, tokens).

    The error is that of the ratio, by the delta method.
    """
    nll_N = np.array([nll for nll, _ in answers])
    tokens_N = np.array([tokens for _, tokens in answers], dtype=float)
    if tokens_N.sum():
        mean = float(nll_N.sum() / tokens_N.sum())
    else:
        mean = math.nan
    count = len(nll_N)
    residual_N = nll_N - mean * tokens_N
    spread = float((residual_N**2).sum()) * count / max(count - 1, 1)
    if tokens_N.sum():
        error = math.sqrt(spread) / tokens_N.sum()
    else:
        error = math.nan
    with np.errstate(over="ignore"):
        score = float(np.exp(mean))
    return MetricResult(
        score=score, standard_error=score * float(error), each_N=nll_N / np.maximum(tokens_N, 1)
    )


def of_words(
    data: TaskData, answers: Sequence[Any], targets: Sequence[Any], label_names: Sequence[str]
) -> MetricResult:
    """Accuracy over all words, or F1 over all entities, or over words in a name.

    Words of one sentence are not independent, so sentences are resampled.
    """
    metric = data.metric
    pairs = [(np.asarray(a), np.asarray(t)) for a, t in zip(answers, targets, strict=True)]
    each_N = np.array([float((a == t).mean()) if len(t) else 1.0 for a, t in pairs])
    if metric is Metric.ACCURACY:
        part_N = np.array([(answer == target).sum() for answer, target in pairs])
        whole_N = np.array([len(target) for _, target in pairs])
    else:
        part_N, whole_N = np.array([_named(*pair, label_names) for pair in pairs]).T
    if metric is Metric.ACCURACY:
        undefined = math.nan
    else:
        undefined = 0.0

    def compute(at_N: NDArray[np.int64]) -> float:
        part = part_N[at_N].sum()
        total = whole_N[at_N].sum()
        if total:
            return float(part / total)
        return undefined

    return _resampled(compute, each_N)


def _named(
    answer_W: NDArray[Any], target_W: NDArray[Any], label_names: Sequence[str]
) -> tuple[int, int]:
    """2 TP and 2 TP + FP + FN; F1 over all sentences is the ratio of the sums.

    Counts entities if labels have the prefixes of BIO or BIOES, else words in a name.
    """
    if any(_TAGGED.match(name) for name in label_names):
        names = [*label_names, OUTSIDE]  # index −1: a truncated word, without an answer
        answered = entities([names[n] for n in answer_W])
        meant = entities([names[n] for n in target_W])
        return 2 * len(answered & meant), len(answered) + len(meant)
    named = [n for n, name in enumerate(label_names) if name != OUTSIDE]
    answered_W = np.isin(answer_W, named)
    meant_W = np.isin(target_W, named)
    right = int((meant_W & (answer_W == target_W)).sum())
    return 2 * right, int(answered_W.sum() + meant_W.sum())


def entities(labels: Sequence[str]) -> set[tuple[str, int, int]]:
    """Entities of a sentence, as (type, first word, word after the last).

    seqeval's default definition, which is conlleval's: I- or E- without a beginning starts an
    entity, and another type ends one. For BIO, BIOES and labels without a prefix.
    """
    spans: set[tuple[str, int, int]] = set()
    start = 0
    before = OUTSIDE
    kind = OUTSIDE
    for index, label in enumerate([*labels, OUTSIDE]):
        prefix, _, entity = label.partition("-") if _TAGGED.match(label) else ("I", "", label)
        if label == OUTSIDE:
            prefix = OUTSIDE
        new = prefix in ("B", "S", OUTSIDE) or before in ("E", "S", OUTSIDE) or entity != kind
        if new and before != OUTSIDE:
            spans.add((kind, start, index))
        if new:
            start = index
        before = prefix
        kind = entity
    return spans


def of_labels(
    data: TaskData, answers: Sequence[int], targets: Sequence[int], label_names: Sequence[str]
) -> MetricResult:
    """Accuracy, Matthews' correlation, or F1.

    F1 is that of the label 1 if there are two labels, otherwise the mean over the labels.
    """
    from sklearn import metrics

    answer_N = np.asarray(answers)
    target_N = np.asarray(targets)
    each_N = answer_N == target_N
    if data.metric is Metric.ACCURACY:
        return share(each_N)
    if len(label_names) == 2 and {*answers, *targets} <= {0, 1}:
        average = "binary"
    else:
        average = "macro"

    def compute(at_N: NDArray[np.int64]) -> float:
        answer = answer_N[at_N]
        target = target_N[at_N]
        if data.metric is Metric.F1:
            return float(metrics.f1_score(target, answer, average=average, zero_division=0))
        return float(metrics.matthews_corrcoef(target, answer))

    return _resampled(compute, each_N.astype(float))


def correlation(
    data: TaskData, answers: Sequence[float], targets: Sequence[float], _names: object
) -> MetricResult:
    """Pearson's or Spearman's correlation; NaN of constants. Each example has its error."""
    from scipy import stats

    statistic = {Metric.PEARSON: stats.pearsonr, Metric.SPEARMAN: stats.spearmanr}[data.metric]
    answer_N = np.asarray(answers, float)
    target_N = np.asarray(targets, float)

    def compute(at_N: NDArray[np.int64]) -> float:
        answer = answer_N[at_N]
        target = target_N[at_N]
        if len(target) < 2 or np.ptp(target) == 0 or np.ptp(answer) == 0:
            return math.nan
        return float(statistic(target, answer).statistic)

    return _resampled(compute, np.abs(answer_N - target_N))


def _resampled(
    compute: Callable[[NDArray[np.int64]], float], each_N: NDArray[np.float64]
) -> MetricResult:
    """A score of examples by their indices, with its standard deviation over bootstrap samples.

    The error is NaN if all samples are alike, as precision is then unknown.
    """
    count = len(each_N)
    generator = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a single label, and of nearly constant answers
        score = compute(np.arange(count))
        samples = (generator.integers(count, size=count) for _ in range(RESAMPLES))
        draws_R = np.array([compute(at_N) for at_N in samples])
    finite_R = draws_R[np.isfinite(draws_R)]
    if len(finite_R) > 1 and np.ptp(finite_R) > 0:
        error = float(np.std(finite_R, ddof=1))
    else:
        error = math.nan
    return MetricResult(score=score, standard_error=error, each_N=each_N)


# Generated texts

_LETTERS: Final = "A-Za-z\u00c0-\u024f\u0370-\u03ff\u0400-\u04ff"
"""Of scripts that divide words by spaces: Latin, Greek, Cyrillic."""

_NUMBER: Final = re.compile(
    rf"(?<![{_LETTERS}\d_])(?<!\d\.)"  # not within a word or a version, such as w14 or v1.5
    r"(?:(?<![\w)])[-+])?"  # a sign, not a subtraction or a range
    r"(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+)"
    r"(?:[eE][-+]?\d{1,4}\b)?"
)


_OVERLAPS: Final = {Metric.ROUGE_L: "torchmetrics", Metric.CHRF: "sacrebleu"}
"""Metrics of generated text that need a library, which is an optional extra."""


def normal(text: str) -> str:
    """A text in normal form."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).removesuffix(".")


def last_number(text: str) -> Decimal | None:
    """The last number of a text; commas between thousands are left out. None: there is none."""
    numbers = _NUMBER.findall(unicodedata.normalize("NFKC", text).replace("−", "-"))
    if numbers:
        return Decimal(numbers[-1].replace(",", ""))
    return None


def first_letter(text: str, letters: str) -> str:
    """The first of these letters that stands alone, as in "B", "(b)" or "B. Paris"; else empty.

    Capital letters come first: an article "a" is no choice if a capital letter follows.
    """
    for candidates in (letters, letters.lower()):
        if candidates:
            match = re.search(rf"(?<![\w'’])[{candidates}](?![\w'’])", text)
        else:
            match = None
        if match is not None:
            return match[0].upper()
    return ""


def require_overlap(metric: Metric) -> None:
    """Raise ResourceError if the library of ROUGE-L or chrF is missing."""
    package = _OVERLAPS.get(metric)
    if package is not None and find_spec(package) is None:
        raise ResourceError(
            f"The metric {metric.value} needs the Python package {package}; install it with "
            f"pip install {package}."
        )


def overlap(metric: Metric, answers: Sequence[str], targets: Sequence[str]) -> MetricResult:
    """The mean over the examples of ROUGE-L (the F-measure, without stemming) or sentence chrF.

    Both are between 0 and 1. ``each_N`` is 1 minus the score. ROUGE-L is torchmetrics', whose
    values are those of Google's rouge-score; chrF is sacrebleu's.
    """
    pairs = zip(answers, targets, strict=True)
    if metric is Metric.ROUGE_L:
        from torchmetrics.functional.text import rouge_score

        values = [rouge_score(*pair, rouge_keys="rougeL")["rougeL_fmeasure"] for pair in pairs]
    else:
        from sacrebleu.metrics import CHRF

        chrf = CHRF().sentence_score
        values = [chrf(answer, [target]).score / 100 for answer, target in pairs]
    score_N = np.array(values, dtype=float)
    if np.ptp(score_N) > 0:
        error = float(score_N.std(ddof=1)) / math.sqrt(len(values))
    else:
        error = math.nan
    return MetricResult(score=float(score_N.mean()), standard_error=error, each_N=1 - score_N)


def is_right(metric: Metric, answer: str, target: str, *, letters: str, pattern: str) -> bool:
    """Whether an answer is right. ``letters``: of the choices; ``pattern``: of the metric regex."""
    if metric is Metric.LAST_NUMBER:
        return last_number(answer) == last_number(target)
    if metric is Metric.CHOICE:
        return first_letter(answer, letters) == target
    if metric is Metric.REGEX:
        match = re.search(pattern, answer)
        return match is not None and normal(match[1] or "") == normal(target)
    answered = normal(answer)
    expected = normal(target)
    if metric is Metric.CONTAINS:
        match = re.search(rf"(?<!\w){re.escape(expected)}(?!\w)", answered)
        return bool(expected) and match is not None
    return answered == expected
