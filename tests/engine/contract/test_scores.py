"""Means and shares of scores: one that is missing never makes a model better."""

import itertools
import math

import pytest

from ace_gui.engine.contract.scored import (
    CENTRED,
    LESS_IS_BETTER,
    TaskScore,
    means,
    normalised,
    share_of_way,
)
from ace_gui.engine.inspecting.tune_parameters import objective
from ace_gui.errors import TaskError
from ace_gui.recipe.values import Metric

NOT_FINITE = (math.nan, math.inf, -math.inf)


def score(model: str, task: str, value: float, **more: object) -> TaskScore:
    reported = {"metric": "pearson", "n": 9, "standard_error": 0.01, **more}
    return TaskScore(model=model, task=task, score=value, **reported)


def shared(model: str, task: str, value: float, expert: float, metric: str) -> TaskScore:
    share = normalised(metric, value, expert, 0.01)
    return score(model, task, value, metric=metric, normalised=share)


@pytest.mark.parametrize("metric", Metric)
@pytest.mark.parametrize("bad", NOT_FINITE)
@pytest.mark.parametrize("with_experts", [True, False])
def test_a_score_that_is_not_finite_leaves_no_mean(metric: Metric, bad: float, with_experts: bool):
    made = [
        shared("merged", task, value, 0.8 if with_experts else math.nan, metric.value)
        for task, value in (("one", bad), ("two", 0.6))
    ]
    (mean,) = means(made)
    assert (mean.score, mean.normalised, mean.undefined) == (None, None, ("one",))
    assert any("one" in said for said in mean.remarks)
    assert made[0].record()["score"] is None
    assert made[0].text == "undefined"
    with pytest.raises(TaskError, match="one"):
        objective(made)


@pytest.mark.parametrize("metric", Metric)
@pytest.mark.parametrize("expert", [-0.5, 0.0, math.nan, math.inf, 0.007])
def test_a_task_whose_expert_is_no_measure_is_named(metric: Metric, expert: float):
    value = -0.08 if metric.value in CENTRED else 0.4
    made = [
        shared("merged", "one", value, expert, metric.value),
        shared("merged", "two", 0.9, 0.8, metric.value),
    ]
    (mean,) = means(made)
    is_measure = math.isfinite(expert) and expert > (0.02 if metric.value in CENTRED else 0)
    if metric.value in LESS_IS_BETTER:
        is_measure = math.isfinite(expert)
    assert (mean.normalised is not None) == is_measure
    assert mean.unmeasured == (() if is_measure else ("one",))
    assert mean.score == pytest.approx((value + 0.9) / 2)
    assert any("one" in said for said in mean.remarks) != is_measure


def test_a_task_without_an_expert_is_named():
    made = [shared("merged", "one", 0.5, 1.0, "accuracy"), score("merged", "two", 0.5)]
    (mean,) = means(made)
    assert (mean.normalised, mean.unmeasured) == (None, ("two",))
    (alone,) = means(made[1:])  # nobody asked for shares
    assert alone.remarks == ()


@pytest.mark.parametrize("metric", Metric)
def test_the_way_from_the_base_to_the_expert(metric: Metric):
    base, expert = (9.0, 3.0) if metric.value in LESS_IS_BETTER else (-0.1, 0.7)
    for share in (-0.5, 0.0, 0.25, 1.0, 1.5):
        value = base + share * (expert - base)
        assert share_of_way(metric.value, value, base, expert) == pytest.approx(share)
        assert share_of_way(metric.value, value, expert, base) is None
    for three in itertools.product((0.3, *NOT_FINITE), (0.1, *NOT_FINITE), (0.9, *NOT_FINITE)):
        way_share = share_of_way("accuracy", *three)
        assert (way_share is None) == (not all(map(math.isfinite, three)))


def test_the_mean_way_is_of_all_tasks():
    made = [
        score("base", "one", 0.2),
        score("base", "two", 0.4),
        score("a", "one", 0.6, own=True),
        score("b", "two", 0.8, own=True),
        score("merged", "one", 0.4),
        score("merged", "two", 0.5),
    ]
    base, experts, merged = means(made)
    assert (base.gain, experts.gain) == (0, 1)
    assert merged.gain == pytest.approx((0.5 + 0.25) / 2)
    made[3] = score("b", "two", 0.3, own=True)
    assert [mean.gain for mean in means(made)] == [None] * 3
