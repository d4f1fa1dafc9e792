"""Centring, solving, polar factors and spectra, each against its definition."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ace_gui.errors import MethodError
from ace_gui.linalg.passes import centre_
from ace_gui.linalg.polar import TopPolar, top_polars
from ace_gui.linalg.singular import MOST_PROJECTED, singular_values
from ace_gui.linalg.solve import right_divide_

sizes = st.integers(min_value=1, max_value=12)


def with_spectrum(values: list[float], m: int, n: int, seed: int = 0) -> torch.Tensor:
    """A matrix of given singular values in random bases."""
    rng = np.random.default_rng(seed)
    r = len(values)
    u = np.linalg.qr(rng.standard_normal((m, r)))[0]
    v = np.linalg.qr(rng.standard_normal((n, r)))[0]
    return torch.from_numpy(u * np.array(values) @ v.T)


def top_polar(matrix: torch.Tensor, k: int, noise: float = 0.0) -> TopPolar:
    return top_polars(matrix[None], k, [noise])[0]


def literal_polar(matrix: torch.Tensor, k: int) -> torch.Tensor:
    u, _, vh = torch.linalg.svd(matrix, full_matrices=False)
    return u[:, :k] @ vh[:k]


@given(sizes, sizes)
@settings(deadline=None, max_examples=30, derandomize=True)
def test_centring_removes_the_mean_row(m: int, n: int) -> None:
    delta = torch.randn(m, n, dtype=torch.float64, generator=torch.Generator().manual_seed(m * n))
    given_rows = delta.clone()
    mean = centre_(delta)
    torch.testing.assert_close(delta.sum(dim=0), torch.zeros(n, dtype=torch.float64))
    torch.testing.assert_close(delta + mean, given_rows)


def positive_definite(n: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(n, n, dtype=torch.float64, generator=generator)
    return root @ root.T + torch.eye(n, dtype=torch.float64)


@pytest.mark.parametrize(("k", "n"), [(1, 1), (5, 3), (4, 192), (3, 193), (200, 450)])
@pytest.mark.parametrize("batch", [1, 3])
def test_right_divide_solves_from_the_right(k: int, n: int, batch: int) -> None:
    matrix = torch.stack([positive_definite(n, 100 * k + n + b) for b in range(batch)])
    generator = torch.Generator().manual_seed(k)
    numerators = [
        torch.randn(batch, r, n, dtype=torch.float64, generator=generator) for r in (k, 1)
    ]
    quotients = [numerator.clone() for numerator in numerators]
    assert right_divide_(matrix.clone(), *quotients) == [0] * batch
    for quotient, numerator in zip(quotients, numerators, strict=True):
        torch.testing.assert_close(quotient @ matrix, numerator)


@pytest.mark.parametrize("n", [6, 450])
def test_a_singular_matrix_is_divided_by_in_its_range(n: int) -> None:
    """The pivot of exactly zero comes in the last block, when the others are factorised."""
    generator = torch.Generator().manual_seed(1)
    matrix = positive_definite(n, n)
    matrix[n - 2] = matrix[:, n - 2] = 0
    numerator = torch.randn(1, 3, n, dtype=torch.float64, generator=generator) @ matrix
    quotient = numerator.clone()
    assert right_divide_(matrix[None].clone(), quotient) == [1]
    torch.testing.assert_close(quotient @ matrix, numerator)
    inverse = torch.linalg.pinv(matrix, hermitian=True)
    torch.testing.assert_close(quotient, numerator @ inverse)


@pytest.mark.parametrize("n", [6, 450])
@pytest.mark.parametrize("singular", [{1}, {0, 2}, {0, 1, 2}])
def test_singular_matrices_do_not_touch_the_others_of_their_batch(
    n: int, singular: set[int]
) -> None:
    """Of one the factorisation fails at once, of the others in the last block."""
    matrix = torch.stack([positive_definite(n, n + b) for b in range(3)])
    for b in singular:
        lost = 0 if b == 2 else n - 1
        matrix[b, lost] = matrix[b, :, lost] = 0
    generator = torch.Generator().manual_seed(2)
    numerator = torch.randn(3, 4, n, dtype=torch.float64, generator=generator) @ matrix
    quotient = numerator.clone()
    assert right_divide_(matrix.clone(), quotient) == [int(b in singular) for b in range(3)]
    for b in range(3):
        alone = numerator[b : b + 1].clone()
        right_divide_(matrix[b : b + 1].clone(), alone)
        torch.testing.assert_close(quotient[b], alone[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("where", [(0, 3), (3, 0), (2, 2)])
def test_a_value_that_is_not_finite_is_seen_wherever_it_is(where: tuple[int, int]) -> None:
    matrix = torch.eye(4, dtype=torch.float64).repeat(2, 1, 1)
    matrix[(1, *where)] = torch.nan
    with pytest.raises(MethodError, match="not finite"):
        right_divide_(matrix, torch.ones(2, 1, 4, dtype=torch.float64))


@pytest.mark.parametrize(("m", "n"), [(6, 15), (15, 6), (9, 9), (1, 5), (5, 1)])
def test_top_polar_is_that_of_a_full_decomposition(m: int, n: int) -> None:
    r = min(m, n)
    matrix = with_spectrum(list(np.linspace(3, 1, r)), m, n)
    for k in range(1, r + 1):
        polar = top_polar(matrix, k)
        torch.testing.assert_close(polar.factor_OI, literal_polar(matrix, k))
        assert polar.mean == pytest.approx(np.linspace(3, 1, r)[:k].mean())
        assert polar.rank == k


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([1.0, 1e-2, 1e-3, 1e-5, 1e-7, 0.5e-7], id="small"),
        pytest.param([1e5, 1.1, 1.0, 0.99, 0.98, 0.97], id="spike over a flat bulk"),
        pytest.param([1.0, 0.5, 0.25, 0.25 * (1 - 1e-8), 0.1, 0.1], id="close pair at the cut"),
    ],
)
def test_top_polar_stays_accurate_where_a_gram_matrix_does_not(values: list[float]) -> None:
    u_and_v = with_spectrum([1.0] * 6, 8, 20, seed=3)
    matrix = with_spectrum(values, 8, 20, seed=3)
    assert u_and_v.shape == matrix.shape
    for k in range(1, 5):
        expected = with_spectrum([1.0] * k + [0.0] * (6 - k), 8, 20, seed=3)
        error = torch.linalg.norm(top_polar(matrix, k).factor_OI - expected)
        assert float(error) < 1e-6


def test_directions_at_or_below_the_noise_are_left_out() -> None:
    matrix = with_spectrum([1.0, 0.5, 1e-6, 1e-7], 7, 5)
    polar = top_polar(matrix, 4, noise=1e-5)
    assert polar.rank == 2
    assert polar.weakest == pytest.approx(0.5)
    assert polar.mean == pytest.approx((1.5 + 1.1e-6) / 4)
    torch.testing.assert_close(polar.factor_OI, literal_polar(matrix, 2))
    assert top_polar(matrix, 4, noise=1e-9).rank == 4


def test_a_rank_deficient_matrix_gives_a_partial_isometry() -> None:
    matrix = with_spectrum([2.0, 1.0], 6, 9)
    factor = top_polar(matrix, 5).factor_OI
    torch.testing.assert_close(factor, literal_polar(matrix, 2))
    torch.testing.assert_close(factor @ factor.T @ factor, factor)


@pytest.mark.parametrize("turn", [False, True])
def test_of_a_batch_each_has_the_polar_factor_that_it_has_alone(turn: bool) -> None:
    """One by the Gram matrix, one by the other way, one of less than full rank."""
    spectra = ([3.0, 2.0, 1.0, 0.5], [1e5, 1.1, 1.0, 0.99], [2.0, 1.0])
    matrices = torch.stack([with_spectrum(values, 8, 20, seed=3) for values in spectra])
    batch = matrices.mT if turn else matrices
    noises = [0.0, 1e-12, 1e-5]
    for polar, matrix, noise in zip(top_polars(batch, 3, noises), batch, noises, strict=True):
        alone = top_polar(matrix, 3, noise)
        torch.testing.assert_close(polar.factor_OI, alone.factor_OI)
        assert (polar.mean, polar.rank, polar.weakest) == pytest.approx(
            (alone.mean, alone.rank, alone.weakest)
        )


def test_the_zero_matrix_has_an_empty_polar_factor() -> None:
    polar = top_polar(torch.zeros(3, 4, dtype=torch.float64), 2)
    assert polar.rank == 0
    assert polar.mean == 0.0
    assert not polar.factor_OI.any()


@pytest.mark.parametrize(("m", "n"), [(6, 15), (15, 6), (8, 8), (1, 4)])
def test_singular_values_hold_small_ones_too(m: int, n: int) -> None:
    spectrum = list(np.geomspace(1, 1e-12, min(m, n)))
    values = singular_values(with_spectrum(spectrum, m, n))
    assert values.dtype == torch.float64
    np.testing.assert_allclose(values.numpy(), spectrum, rtol=1e-2, atol=1e-15)


@pytest.mark.parametrize("least", [1e-1, 1.1e-5, 0.9e-5, 1e-8])
def test_singular_values_are_right_to_plotting_precision(least: float) -> None:
    spectrum = list(np.geomspace(1, least, 20))
    values = singular_values(with_spectrum(spectrum, 20, 45, seed=2))
    np.testing.assert_allclose(values.numpy(), spectrum, rtol=1e-5)


@pytest.mark.parametrize("few", [1, 5, MOST_PROJECTED, MOST_PROJECTED + 1])
@pytest.mark.parametrize("wide", [False, True])
def test_few_small_singular_values_are_found_beside_the_others(few: int, wide: bool) -> None:
    """As many as are projected, down to an empty direction, and one too many."""
    small = [*np.geomspace(0.9e-5, 1e-9, few - 1), 0.0]
    spectrum = [*np.geomspace(1, 1.1e-5, 140 - few), *small]
    matrix = with_spectrum(spectrum, 140, 190, seed=5)
    values = singular_values(matrix if wide else matrix.T)
    np.testing.assert_allclose(values.numpy(), spectrum, rtol=1e-5, atol=1e-10)
    assert bool((values[:-1] >= values[1:]).all())


def test_singular_values_of_a_float32_matrix_are_those_of_its_numbers() -> None:
    matrix = torch.randn(7, 11, generator=torch.Generator().manual_seed(4))
    expected = np.linalg.svd(matrix.double().numpy(), compute_uv=False)
    np.testing.assert_allclose(singular_values(matrix).numpy(), expected, rtol=1e-12)
