import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ace_gui.errors import MethodError
from ace_gui.linalg.heterogeneity import NO_CHANGE, heterogeneity
from ace_gui.linalg.passes import energy

ordinary = st.floats(min_value=1e-4, max_value=1e-1)  # log energies stay clear of zero


def test_energy_is_the_squared_frobenius_norm_of_any_shape_and_dtype() -> None:
    values = [3.0, -4.0, 12.0, 0.0]
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        assert energy(torch.tensor(values, dtype=dtype)) == pytest.approx(169.0)
        assert energy(torch.tensor(values, dtype=dtype).reshape(1, 2, 2)) == pytest.approx(169.0)


def test_energy_does_not_overflow_where_float16_would() -> None:
    assert energy(torch.full((4,), 60000.0, dtype=torch.float16)) == pytest.approx(4 * 60000.0**2)


def test_energy_of_numbers_too_large_to_square_is_infinite() -> None:
    assert energy(torch.tensor([1e200], dtype=torch.float64)) == math.inf


@given(ordinary, ordinary)
@settings(deadline=None, max_examples=50, derandomize=True)
def test_gamma_of_two_experts_has_a_closed_form(first: float, second: float) -> None:
    log_first = math.log(first)
    log_second = math.log(second)
    spread = heterogeneity([first, second])
    assert spread.gamma == pytest.approx(
        2 * ((log_first - log_second) / (log_first + log_second)) ** 2, rel=1e-6, abs=1e-12
    )


@given(st.lists(ordinary, min_size=2, max_size=20), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=50, derandomize=True)
def test_gamma_does_not_depend_on_the_order_of_experts(energies: list[float], random) -> None:
    shuffled = random.sample(energies, len(energies))
    assert heterogeneity(shuffled).gamma == pytest.approx(heterogeneity(energies).gamma)


def test_the_variance_is_unbiased() -> None:
    spread = heterogeneity([math.exp(-2.0), math.exp(-4.0), math.exp(-6.0)])
    assert spread.gamma == pytest.approx(4.0 / 16.0, rel=1e-6)
    assert spread.mean_log_energy == pytest.approx(-4.0)


def test_gamma_depends_on_the_common_scale_and_explodes_near_unit_energy() -> None:
    energies = [0.9, 1.0, 1.2]
    near = heterogeneity(energies).gamma
    far = heterogeneity([1e-3 * value for value in energies]).gamma
    assert near is not None
    assert far is not None
    assert near > 1e3 * far


def test_identical_unit_energies_are_homogeneous() -> None:
    assert heterogeneity([1.0, 1.0, 1.0]).gamma == 0.0


def test_experts_without_a_change_are_left_out_of_gamma() -> None:
    with_zeros = heterogeneity([0.0, 0.01, 1e-14, 0.05])
    assert with_zeros.counted == (1, 3)
    assert with_zeros.left_out == (0, 2)
    assert with_zeros.gamma == heterogeneity([0.01, 0.05]).gamma


def test_the_border_of_no_change_is_relative_to_the_median() -> None:
    energies = [2.0 * NO_CHANGE, 1.0, 1.0]
    assert heterogeneity(energies).counted == (0, 1, 2)
    assert heterogeneity([0.5 * NO_CHANGE, 1.0, 1.0]).left_out == (0,)
    assert heterogeneity([1e30 * value for value in energies]).counted == (0, 1, 2)


@pytest.mark.parametrize("energies", [[], [0.0], [0.0, 0.0], [0.3], [0.0, 0.3]])
def test_fewer_than_two_experts_have_no_gamma(energies: list[float]) -> None:
    spread = heterogeneity(energies)
    assert spread.gamma is None
    assert len(spread.counted) == sum(value > 0 for value in energies)
    assert (spread.mean_log_energy is None) == (not spread.counted)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_non_finite_energy_names_the_expert(bad: float) -> None:
    with pytest.raises(MethodError, match="Task vector 2 of 3"):
        heterogeneity([1.0, bad, 1.0])
