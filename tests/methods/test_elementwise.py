"""Weight averaging and task arithmetic."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ace_gui.errors import MethodError
from ace_gui.methods.linear import LinearParameters, linear
from ace_gui.methods.task_arithmetic import TaskArithmeticParameters, task_arithmetic

shapes = st.sampled_from([(), (1,), (5,), (3, 4), (2, 3, 4, 1), (0, 3)])
counts = st.integers(min_value=1, max_value=8)
weights_of = st.floats(min_value=0.1, max_value=3.0)


def random_tensors(T: int, shape: tuple[int, ...], dtype: torch.dtype = torch.float32):
    generator = torch.Generator().manual_seed(T)
    return [torch.randn(shape, generator=generator).to(dtype) for _ in range(T)]


def mean(deltas: list[torch.Tensor], weights: list[float]) -> torch.Tensor:
    return linear(deltas, weights, LinearParameters()).delta


def added(deltas: list[torch.Tensor], weights: list[float], scaling: float) -> torch.Tensor:
    return task_arithmetic(deltas, weights, TaskArithmeticParameters(scaling=scaling)).delta


@given(counts, shapes, st.data())
@settings(deadline=None, max_examples=40, derandomize=True)
def test_both_are_their_formulas(T: int, shape: tuple[int, ...], data: st.DataObject) -> None:
    weights = data.draw(st.lists(weights_of, min_size=T, max_size=T))
    deltas = random_tensors(T, shape)
    total = sum(
        (w * d.double() for w, d in zip(weights, deltas, strict=True)),
        torch.zeros(shape, dtype=torch.float64),
    )
    torch.testing.assert_close(mean(deltas, weights), (total / sum(weights)).float())
    torch.testing.assert_close(added(deltas, weights, 0.7), (0.7 * total).float())


def test_one_expert_comes_back_exactly() -> None:
    delta = random_tensors(1, (4, 5))[0]
    assert torch.equal(mean([delta], [1.0]), delta)
    assert torch.equal(added([delta], [1.0], 1.0), delta)


@given(counts)
@settings(deadline=None, max_examples=8, derandomize=True)
def test_a_scaling_of_one_over_T_gives_the_mean(T: int) -> None:
    deltas = random_tensors(T, (6, 3))
    torch.testing.assert_close(added(deltas, [1.0] * T, 1 / T), mean(deltas, [1.0] * T))


def test_a_common_factor_of_the_weights_does_not_change_the_mean() -> None:
    deltas = random_tensors(3, (6, 3))
    torch.testing.assert_close(mean(deltas, [2.0, 4.0, 6.0]), mean(deltas, [1.0, 2.0, 3.0]))
    torch.testing.assert_close(added(deltas, [2.0] * 3, 0.5), added(deltas, [1.0] * 3, 1.0))


def test_a_negative_scaling_subtracts() -> None:
    deltas = random_tensors(2, (3, 3))
    assert torch.equal(added(deltas, [1.0, 1.0], -1.0), -added(deltas, [1.0, 1.0], 1.0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_result_is_float32_and_the_inputs_untouched(dtype: torch.dtype) -> None:
    deltas = random_tensors(3, (4, 4), dtype)
    before = [delta.clone() for delta in deltas]
    for result in (mean(deltas, [1.0] * 3), added(deltas, [1.0] * 3, 1.0)):
        assert result.dtype == torch.float32
        exact = sum(delta.double() for delta in deltas)
        torch.testing.assert_close(result.double() / result.norm(), exact / exact.norm())
    assert all(torch.equal(one, two) for one, two in zip(deltas, before, strict=True))


def test_many_small_contributions_are_not_lost() -> None:
    deltas = [torch.full((3,), 1e-3)] * 20
    torch.testing.assert_close(mean(deltas, [1.0] * 20), deltas[0], rtol=1e-6, atol=0)


def test_weights_that_sum_to_zero_have_no_mean() -> None:
    with pytest.raises(MethodError, match="sum to zero"):
        mean(random_tensors(2, (2,)), [1.0, -1.0])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("weight", [1.0, 0.0])
def test_a_non_finite_task_vector_is_named(bad: float, weight: float) -> None:
    deltas = random_tensors(3, (2, 2))
    deltas[2][1, 1] = bad
    for merge in (mean, lambda d, w: added(d, w, 1.0)):
        with pytest.raises(MethodError, match="Task vector 3 of 3 holds NaN or Inf"):
            merge(deltas, [1.0, 1.0, weight])


def test_a_sum_beyond_float32_is_refused() -> None:
    with pytest.raises(MethodError, match="range of float32"):
        added([torch.full((2,), 3e38)] * 2, [1.0, 1.0], 1.0)


@pytest.mark.parametrize(
    ("deltas", "weights", "words"),
    [
        ([], [], "nothing to merge"),
        ([torch.ones(2)], [1.0, 1.0], "1 experts but 2 weights"),
        ([torch.ones(2)], [math.nan], "NaN or infinite"),
        ([torch.ones(2), torch.ones(1)], [1.0, 1.0], r"Task vector 2 has shape \(1,\)"),
    ],
)
def test_what_cannot_be_merged_is_refused(
    deltas: list[torch.Tensor], weights: list[float], words: str
) -> None:
    for merge in (mean, lambda d, w: added(d, w, 1.0)):
        with pytest.raises(MethodError, match=words):
            merge(deltas, weights)
