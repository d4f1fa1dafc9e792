"""The figures of a spectrum, each against its definition on a matrix in float64."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ace_gui.engine.contract.matrix_figures import (
    condition_number,
    cumulative_energy,
    effective_rank,
    leading,
    numerical_rank,
    spectral_figures,
)

Array = NDArray[np.float64]
shapes = st.tuples(st.integers(1, 24), st.integers(1, 24), st.integers(0, 2**31))


def matrix(m: int, n: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((m, n)) * rng.uniform(0.01, 1.0, n)


@given(shapes)
@settings(max_examples=40)
def test_every_figure_is_that_of_the_matrix(shape: tuple[int, int, int]):
    given_MN = matrix(*shape)
    sigma = np.linalg.svd(given_MN, compute_uv=False)
    figures = spectral_figures(sigma)
    gram = given_MN.T @ given_MN if shape[1] <= shape[0] else given_MN @ given_MN.T
    values = np.sort(np.linalg.eigvalsh(gram))[::-1].clip(0)
    assert figures.frobenius == pytest.approx(np.linalg.norm(given_MN))
    assert figures.nuclear == pytest.approx(np.linalg.norm(given_MN, "nuc"))
    assert figures.spectral == pytest.approx(np.linalg.norm(given_MN, 2))
    assert figures.rank == np.linalg.matrix_rank(given_MN, rtol=1e-7)
    assert figures.stable_rank == pytest.approx(np.trace(gram) / values[0])
    shares = [value / math.fsum(sigma) for value in sigma]
    entropy = -math.fsum(share * math.log(share) for share in shares if share > 0)
    assert effective_rank(sigma) == pytest.approx(math.exp(entropy))
    assert 1 - 1e-9 <= effective_rank(sigma) <= len(sigma) + 1e-9
    top = math.ceil(len(sigma) * 5 / 100)
    assert figures.top_energy == pytest.approx(values[:top].sum() / values.sum())
    for count, percent in zip(figures.directions, (90, 95, 99), strict=True):
        energy = percent / 100 * values.sum()
        assert values[:count].sum() >= energy * (1 - 1e-12)
        assert values[: count - 1].sum() < energy * (1 + 1e-12)


def test_directions_below_the_rounding_of_float32_do_not_count():
    sigma = np.array([2.0, 1.0, 2e-6, 1e-9, 0.0])
    assert numerical_rank(sigma) == 3
    assert condition_number(sigma) == pytest.approx(1e6)


def test_the_zero_matrix_has_figures_too():
    figures = spectral_figures(np.zeros(7))
    assert (figures.frobenius, figures.nuclear, figures.rank, figures.directions) == (
        0,
        0,
        0,
        (0, 0, 0),
    )
    assert (figures.effective_rank, figures.stable_rank) == (0, 0)
    assert math.isnan(figures.condition)
    assert math.isnan(figures.top_energy)
    assert np.isnan(cumulative_energy(np.zeros(7))).all()


@pytest.mark.parametrize("directions", range(1, 1000, 7))
def test_the_leading_directions_are_counted_without_rounding(directions: int):
    assert leading(directions) == -(-directions * 5 // 100)
