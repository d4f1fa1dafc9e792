"""Standard errors of the scores that follow from counts, against scikit-learn on each resample."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import f1_score, matthews_corrcoef

from ace_gui.engine.evaluating.metrics import RESAMPLES, measured
from ace_gui.recipe.tasks import Metric, TaskKind

LABELS = st.integers(2, 5)


def resamples(count: int) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.integers(count, size=count) for _ in range(RESAMPLES)]


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@settings(max_examples=15, deadline=None)
@given(st.data(), LABELS, st.integers(1, 30), st.sampled_from([Metric.F1, Metric.MATTHEWS]))
def test_of_labels(data: st.DataObject, labels: int, count: int, metric: Metric) -> None:
    drawn = arrays(np.int64, (2, count), elements=st.integers(0, labels - 1))
    answer_N, target_N = data.draw(drawn)
    average = "binary" if labels == 2 else "macro"

    def compute(at_N: np.ndarray) -> float:
        answers, targets = answer_N[at_N], target_N[at_N]
        if metric is Metric.F1:
            return float(f1_score(targets, answers, average=average, zero_division=0))
        return float(matthews_corrcoef(targets, answers))

    names = [str(n) for n in range(labels)]
    kind = TaskKind.TEXT_CLASSIFICATION
    found = measured(metric, kind, answer_N.tolist(), target_N.tolist(), names)
    assert found.score == pytest.approx(compute(np.arange(count)), abs=1e-12)
    expected = np.std([compute(at_N) for at_N in resamples(count)], ddof=1)
    assert found.standard_error == pytest.approx(expected, abs=1e-12)
    assert found.each_N.tolist() == (answer_N == target_N).tolist()


@settings(max_examples=15, deadline=None)
@given(st.data(), st.integers(1, 12), st.sampled_from([Metric.F1, Metric.ACCURACY]))
def test_of_words(data: st.DataObject, count: int, metric: Metric) -> None:
    """Sentences are resampled, and their words put together."""
    lengths = data.draw(st.lists(st.integers(1, 6), min_size=count, max_size=count))
    pairs = [data.draw(arrays(np.int64, (2, n), elements=st.integers(0, 3))) for n in lengths]
    names = ["O", "person", "place", "thing"]

    def compute(at_N: np.ndarray) -> float:
        answers, targets = np.concatenate([pairs[n] for n in at_N], axis=1)
        if metric is Metric.ACCURACY:
            return float((answers == targets).mean())
        found = f1_score(targets, answers, labels=[1, 2, 3], average="micro", zero_division=0)
        return float(found)

    answers, targets = ([tuple(pair[n]) for pair in pairs] for n in (0, 1))
    found = measured(metric, TaskKind.TOKEN_CLASSIFICATION, answers, targets, names)
    assert found.score == pytest.approx(compute(np.arange(count)), abs=1e-12)
    expected = np.std([compute(at_N) for at_N in resamples(count)], ddof=1)
    assert found.standard_error == pytest.approx(expected, abs=1e-12)
