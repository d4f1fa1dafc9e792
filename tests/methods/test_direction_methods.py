"""Limits and departures of methods on lengths and angles."""

import math

import numpy as np
import pytest

from ace_gui.errors import MethodError
from tests.helpers import method_oracles as oracle
from tests.helpers.ace_cases import random_deltas
from tests.helpers.method_cases import (
    assert_close,
    base_of,
    experts,
    merged,
    norm,
    run,
    tensor_cases,
)

CASES = tensor_cases()


def test_model_stock_goes_from_the_base_to_the_mean_with_the_angle() -> None:
    delta = experts(1)[0]
    same = np.array([delta, 2 * delta, 3 * delta])
    assert_close(merged("model_stock", same), 2 * delta)
    apart = np.array([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]])
    assert np.abs(merged("model_stock", apart)).max() < 1e-12


def test_model_stock_keeps_the_base_where_experts_point_apart() -> None:
    outcome = run("model_stock", CASES["single"][[0, 0]] * np.array([1, -1])[:, None, None])
    assert not outcome.delta.any()
    assert "stays as in the base" in outcome.diagnostics.notes[0]


def test_slerp_ends_at_the_experts_and_keeps_their_length() -> None:
    deltas = random_deltas(2, 8, 9, 0.7, 12)
    assert_close(merged("slerp", deltas, t=0.0), deltas[0], 1e-6)
    assert_close(merged("slerp", deltas, t=1.0), deltas[1], 1e-6)
    for t in (0.2, 0.5, 0.9):
        assert norm(merged("slerp", deltas, t=t)) == pytest.approx(0.7, rel=1e-5)


def test_slerp_goes_straight_between_parallel_experts() -> None:
    delta = experts(1)[0]
    for second in (3 * delta, -delta):
        pair = np.array([delta, second])
        task_vector = merged("slerp", pair, t=0.25)
        np.testing.assert_allclose(task_vector, 0.75 * delta + 0.25 * second, atol=1e-6)


@pytest.mark.parametrize("name", ["slerp", "nuslerp"])
@pytest.mark.parametrize("T", [1, 3])
def test_slerp_needs_two_experts(name: str, T: int) -> None:
    with pytest.raises(MethodError, match=f"but there are {T}; choose two"):
        run(name, experts(T))


def test_the_karcher_mean_of_two_is_halfway_on_the_arc() -> None:
    deltas = random_deltas(2, 8, 9, 0.7, 13)
    assert_close(merged("karcher", deltas), merged("slerp", deltas, t=0.5))


def test_at_the_karcher_mean_the_pulls_of_all_experts_cancel() -> None:
    deltas = experts(5)
    point = merged("karcher", deltas, iterations=100, tolerance=1e-9)
    point /= norm(point)
    pull = np.zeros_like(point)
    for delta in deltas:
        unit = delta / norm(delta)
        angle = math.acos(np.sum(unit * point))
        pull += angle / math.sin(angle) * (unit - math.cos(angle) * point)
    assert norm(pull) < 1e-5
    near = merged("multislerp", deltas)
    assert_close(merged("karcher", deltas, iterations=0), near, 1e-7)


def test_from_a_change_to_none_the_angle_is_a_right_one() -> None:
    delta = experts(1)[0]
    for name in ("slerp", "nuslerp"):
        task_vector = merged(name, np.array([delta, 0 * delta]))
        assert_close(task_vector, math.sqrt(0.5) * delta)


def test_columns_are_the_rows_of_the_transposed_matrix() -> None:
    deltas = experts(2)
    turned = merged("nuslerp", deltas.transpose(0, 2, 1), row_wise=True)
    assert_close(merged("nuslerp", deltas, column_wise=True), turned.T)


def test_directions_that_cancel_have_no_mean() -> None:
    delta = experts(1)[0]
    cancel = np.array([delta, -0.5 * delta, -0.5 * delta])
    for name, deltas in (("karcher", cancel[:2]), ("multislerp", cancel)):
        with pytest.raises(MethodError, match="no mean direction"):
            run(name, deltas, weights=[2.0, 1.0, 1.0][: len(deltas)] if len(deltas) > 2 else None)
    assert_close(merged("multislerp", cancel[:2]), 0.25 * delta)
    with pytest.raises(MethodError, match="weights of at least 0"):
        run("karcher", cancel, weights=[1.0, -1.0, 1.0])


def test_multislerp_counts_experts_that_changed_nothing_in_the_mean_norm() -> None:
    delta = experts(1)[0]
    assert_close(merged("multislerp", np.array([delta, 0 * delta])), 0.5 * delta)
    task_vector = merged("multislerp", experts(2), weights=[2.0, 2.0], normalize=False)
    assert_close(task_vector, 4 * merged("multislerp", experts(2)))


@pytest.mark.parametrize("name", ["karcher", "multislerp"])
def test_means_of_whole_weights(name: str) -> None:
    """The base is one of the points; what is returned is the change from it."""
    deltas = experts(3)
    base = base_of(deltas[0].shape)
    points = np.array([base, *(delta + base for delta in deltas)])
    shares = np.array([2.0, 1.0, 1.0, 0.5])
    expected = (
        oracle.karcher(points, shares, 10)
        if name == "karcher"
        else oracle.multislerp(points, shares)
    )
    options = {"points": "weights", "base_weight": 2.0}
    task_vector = merged(name, deltas, weights=[1.0, 1.0, 0.5], **options)
    assert norm(task_vector + base - expected) < 1e-6 * norm(expected)
    alone = merged(name, deltas, points="weights", base_weight=0.0)
    expert_points = points[1:]
    ones = np.ones(3)
    karcher = name == "karcher"
    expected = (
        oracle.karcher(expert_points, ones, 10)
        if karcher
        else oracle.multislerp(expert_points, ones)
    )
    assert norm(alone + base - expected) < 1e-6 * norm(expected)


def test_model_stock_row_by_row() -> None:
    deltas = experts(3)
    task_vector = merged("model_stock", deltas, filter_wise=True)
    expected = np.array([oracle.model_stock(deltas[:, row]) for row in range(deltas.shape[1])])
    assert_close(task_vector, expected)
    vectors = deltas[:, 0]
    assert_close(merged("model_stock", vectors, filter_wise=True), oracle.model_stock(vectors))
    opposite = run("model_stock", np.array([deltas[0], -deltas[0]]), filter_wise=True)
    assert not opposite.delta.any()
    assert "12 of 12 rows" in opposite.diagnostics.notes[0]
