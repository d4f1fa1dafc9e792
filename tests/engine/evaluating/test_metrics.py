"""Standard errors of the scores that follow from counts, against scikit-learn on each resample."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import f1_score, matthews_corrcoef

from ace_gui.engine.evaluating import metrics
from ace_gui.engine.evaluating.kinds import KINDS
from ace_gui.engine.evaluating.metrics import MetricResult, entities
from ace_gui.engine.evaluating.task_data import Example, Table, TaskData
from ace_gui.recipe.values import Metric, Task, TaskKind

LABELS = st.integers(2, 5)


@pytest.fixture(scope="module", autouse=True)
def _few_resamples() -> Iterator[None]:
    """The same for the scores and for what they are compared with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "RESAMPLES", 20)
        yield


def measured(
    metric: Metric,
    kind: TaskKind,
    answers: list,
    targets: list,
    names: Sequence[str] = (),
    **task: str,
) -> MetricResult:
    path = Path("data.csv")
    data = TaskData(
        task=Task(data=path, metric=metric, **task),
        kind=kind,
        metric=metric,
        columns={},
        table=Table(path=path, columns=(), rows=lambda _: iter(()), files=()),
        examples=(Example(row="", inputs={}),) * len(answers),
    )
    return KINDS[kind].judge(data, answers, targets, names)


def assert_spread(standard_error: float, draws: list[float]) -> None:
    expected = np.std(draws, ddof=1) if np.ptp(draws) > 1e-12 else np.nan
    assert standard_error == pytest.approx(expected, abs=1e-12, nan_ok=True)


def resamples(count: int) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.integers(count, size=count) for _ in range(metrics.RESAMPLES)]


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@settings(max_examples=15)
@given(st.data(), LABELS, st.integers(1, 30), st.sampled_from([Metric.F1, Metric.MATTHEWS]))
def test_of_labels(data: st.DataObject, labels: int, count: int, metric: Metric):
    drawn = arrays(np.int64, (2, count), elements=st.integers(0, labels - 1))
    answer_N, target_N = data.draw(drawn)
    average = "binary" if labels == 2 else "macro"

    def compute(at_N: np.ndarray) -> float:
        answers = answer_N[at_N]
        targets = target_N[at_N]
        if metric is Metric.F1:
            return float(f1_score(targets, answers, average=average, zero_division=0))
        return float(matthews_corrcoef(targets, answers))

    names = [str(n) for n in range(labels)]
    kind = TaskKind.TEXT_CLASSIFICATION
    measurement = measured(metric, kind, answer_N.tolist(), target_N.tolist(), names)
    assert measurement.score == pytest.approx(compute(np.arange(count)), abs=1e-12)
    assert_spread(measurement.standard_error, [compute(at_N) for at_N in resamples(count)])
    assert measurement.each_N.tolist() == (answer_N == target_N).tolist()


@settings(max_examples=15)
@given(st.data(), st.integers(1, 12), st.sampled_from([Metric.F1, Metric.ACCURACY]))
def test_of_words(data: st.DataObject, count: int, metric: Metric):
    """Sentences are resampled, and their words put together."""
    lengths = data.draw(st.lists(st.integers(1, 6), min_size=count, max_size=count))
    pairs = [data.draw(arrays(np.int64, (2, n), elements=st.integers(0, 3))) for n in lengths]
    names = ["O", "person", "place", "thing"]

    def compute(at_N: np.ndarray) -> float:
        answers, targets = np.concatenate([pairs[n] for n in at_N], axis=1)
        if metric is Metric.ACCURACY:
            return float((answers == targets).mean())
        f1 = f1_score(targets, answers, labels=[1, 2, 3], average="micro", zero_division=0)
        return float(f1)

    answers, targets = ([tuple(pair[n]) for pair in pairs] for n in (0, 1))
    measurement = measured(metric, TaskKind.TOKEN_CLASSIFICATION, answers, targets, names)
    assert measurement.score == pytest.approx(compute(np.arange(count)), abs=1e-12)
    assert_spread(measurement.standard_error, [compute(at_N) for at_N in resamples(count)])


@pytest.mark.parametrize("names", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("metric", [Metric.F1, Metric.MATTHEWS, Metric.ACCURACY])
@pytest.mark.parametrize("classes", [1, 2, 3, 5])
def test_labels_need_not_be_as_many_as_names(classes: int, names: int, metric: Metric):
    targets = [n % classes for n in range(20)]
    answers = [(n * n) % classes for n in range(20)]
    kind = TaskKind.TEXT_CLASSIFICATION
    measurement = measured(metric, kind, answers, targets, [str(n) for n in range(names)])
    expected = (np.array(answers) == targets).mean()
    if metric is Metric.F1:
        average = "binary" if names == 2 and classes <= 2 else "macro"
        expected = f1_score(targets, answers, average=average, zero_division=0)
    elif metric is Metric.MATTHEWS:
        expected = matthews_corrcoef(targets, answers) if classes > 1 else 0.0
    assert measurement.score == pytest.approx(expected)


@pytest.mark.parametrize("count", [1, 2, 10, 1000])
@pytest.mark.parametrize("right", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    ("metric", "kind"),
    [
        (Metric.ACCURACY, TaskKind.TEXT_CLASSIFICATION),
        (Metric.EXACT_MATCH, TaskKind.TEXT_TO_TEXT),
        (Metric.F1, TaskKind.TEXT_CLASSIFICATION),
        (Metric.MATTHEWS, TaskKind.TEXT_CLASSIFICATION),
        (Metric.ACCURACY, TaskKind.TOKEN_CLASSIFICATION),
        (Metric.F1, TaskKind.TOKEN_CLASSIFICATION),
        (Metric.PEARSON, TaskKind.REGRESSION),
        (Metric.SPEARMAN, TaskKind.REGRESSION),
    ],
)
def test_no_score_of_few_examples_is_certain(
    metric: Metric, kind: TaskKind, right: float, count: int
):
    """All right, or all wrong: the error is above 0 or not known, and never 0."""
    wrong = round((1 - right) * count)
    targets = [n % 2 for n in range(count)]
    answers = [1 - t if n < wrong else t for n, t in enumerate(targets)]
    if kind is TaskKind.TOKEN_CLASSIFICATION:
        targets, answers = ([(label,) * 3 for label in group] for group in (targets, answers))
    elif metric is Metric.EXACT_MATCH:
        targets = [str(t) for t in targets]
        answers = [(str(a), False) for a in answers]
    measurement = measured(metric, kind, answers, targets, ["O", "name"])
    assert measurement.standard_error != 0
    if kind is not TaskKind.TOKEN_CLASSIFICATION and metric in (
        Metric.ACCURACY,
        Metric.EXACT_MATCH,
    ):
        half = wilson(count, count - wrong)
        assert measurement.standard_error == pytest.approx(half)


def wilson(count: int, right: int) -> float:
    """Half of the interval of p with |p - share| = sqrt(p (1 - p) / n), by its quadratic."""
    low, high = np.sort(np.roots([1 + 1 / count, -(2 * right + 1) / count, (right / count) ** 2]))
    return float(high - low) / 2


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("O O", []),
        ("B-A I-A O", ["A 0 2"]),
        ("B-A B-A I-A", ["A 0 1", "A 1 3"]),
        ("I-A I-A O I-A", ["A 0 2", "A 3 4"]),
        ("B-A I-B I-B", ["A 0 1", "B 1 3"]),
        ("B-A I-A E-A S-A", ["A 0 3", "A 3 4"]),
        ("S-A S-A E-A", ["A 0 1", "A 1 2", "A 2 3"]),
        ("E-A I-A E-A", ["A 0 1", "A 1 3"]),
        ("O B-A-B I-A-B", ["A-B 1 3"]),
    ],
)
def test_entities_as_seqeval_finds_them(labels: str, expected: list[str]):
    spans = sorted(entities(labels.split()))
    assert [f"{kind} {start} {end}" for kind, start, end in spans] == expected


def test_f1_of_tagged_words_is_that_of_whole_entities():
    """Half an entity is none: 1 of 2 found ones is right, and 1 of 3 meant ones is found."""
    names = ["O", "B-A", "I-A"]
    target = [[1, 2, 0, 1], [1, 2]]
    answer = [[1, 0, 0, 1], [0, -1]]
    measurement = measured(Metric.F1, TaskKind.TOKEN_CLASSIFICATION, answer, target, names)
    assert measurement.score == pytest.approx(2 / 5)
    plain = measured(Metric.F1, TaskKind.TOKEN_CLASSIFICATION, answer, target, ["O", "A", "B"])
    assert plain.score == pytest.approx(4 / 7)
