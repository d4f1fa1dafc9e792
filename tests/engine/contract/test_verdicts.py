"""What a model lost and gained, and the paired tests against SciPy's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ace_gui.engine.contract.scored import AnswerVerdict, TaskScore
from ace_gui.engine.contract.verdicts import in_words, paired, verdicts


def score(values: list[float], metric: str = "accuracy", task: str = "digits") -> TaskScore:
    each_N = np.array(values, dtype=float)
    return TaskScore(
        model="a",
        task=task,
        metric=metric,
        score=float(each_N.mean()),
        n=len(values),
        standard_error=0.0,
        each_N=each_N,
    )


def test_each_example_is_lost_gained_or_neither():
    model = np.array([1, 0, 1, 0.0])
    reference = np.array([1, 1, 0, 0.5])
    kinds = [
        AnswerVerdict.BOTH_RIGHT,
        AnswerVerdict.LOST,
        AnswerVerdict.GAINED,
        AnswerVerdict.BOTH_WRONG,
    ]
    assert verdicts("accuracy", model, reference).tolist() == kinds
    worse = verdicts("perplexity", np.array([2.0, 1.0]), np.array([1.0, 2.0])).tolist()
    assert worse == [AnswerVerdict.LOST, AnswerVerdict.GAINED]


@given(better=st.integers(0, 400), worse=st.integers(0, 400), same=st.integers(0, 9))
def test_right_or_wrong_is_mcnemars_exact_test(better: int, worse: int, same: int):
    first = score([1.0] * better + [0.0] * worse + [1.0] * (same + 1))
    second = score([0.0] * better + [1.0] * worse + [1.0] * (same + 1))
    comparison = paired([(first, second)])
    assert (comparison.first, comparison.second, comparison.n) == (
        better,
        worse,
        better + worse + same + 1,
    )
    count = better + worse
    expected = stats.binomtest(better, count, 0.5).pvalue if count else 1.0
    assert comparison.p == pytest.approx(expected, rel=1e-8, abs=1e-12)


def test_losses_are_compared_by_their_mean_difference():
    generator = np.random.default_rng(0)
    a = generator.normal(size=400)
    b = generator.normal(size=400) + 0.15
    comparison = paired([(score(a.tolist(), "perplexity"), score(b.tolist(), "perplexity"))])
    statistic = stats.ttest_rel(a, b).statistic
    assert comparison.p == pytest.approx(2 * stats.norm.sf(abs(statistic)), rel=1e-9)
    assert comparison.first == int((a < b).sum())


def test_examples_of_several_tasks_count_together_and_kinds_do_not_mix():
    right = score([1.0] * 6)
    wrong = score([0.0] * 6)
    comparison = paired([(right, wrong), (replace(right, task="b"), replace(wrong, task="b"))])
    assert comparison.first == 12
    assert (
        paired([(right, wrong), (score([1.0], "perplexity"), score([2.0], "perplexity"))]) is None
    )
    assert paired([(right, score([1.0]))]) is None  # not the same examples


def test_the_sentence_says_whether_the_difference_is_significant():
    clear = in_words(paired([(score([1.0] * 20), score([0.0] * 20))]), "ACE", "TIES", ["accuracy"])
    assert clear.startswith("Of 20 examples, ACE alone is right on 20 and TIES on 0.")
    assert clear.endswith(": significant.")
    even = in_words(paired([(score([1, 0, 1.0]), score([0, 1, 1.0]))]), "ACE", "TIES", ["accuracy"])
    assert "100 times in 100" in even
    assert even.endswith("not significant.")
    assert "no examples in common" in in_words(None, "ACE", "TIES", [])
    assert "no examples" not in in_words(None, "ACE", "TIES", ["accuracy", "perplexity"])
