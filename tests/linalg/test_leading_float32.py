"""Leading triplets and polar factors in float32: their true errors beside the estimates."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from ace_gui.linalg.leading_float32 import (
    LeadingTriplets,
    PolarFactor,
    leading_in_float32,
    polar_in_float32,
)
from ace_gui.linalg.singular import leading_triplets, orthogonalised
from tests.benchmarks.experts import task_vector
from tests.helpers.ace_cases import decaying_deltas, low_rank_deltas, random_deltas

SAFETY = 2.0
ROUNDING = 2e-5
"""Of a basis whose estimate is smaller."""

SHAPES = [(60, 200), (200, 60), (128, 128), (1, 5), (5, 1)]
by_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


def matrices(shape: tuple[int, int]) -> list[Tensor]:
    rows, columns = shape
    generator = torch.Generator().manual_seed(rows)
    arrays = [
        random_deltas(1, rows, columns, 2.0, 0)[0],
        decaying_deltas(1, rows, columns, 30.0, 1.0, 2)[0],
    ]
    return [torch.from_numpy(array).float() for array in arrays] + [
        task_vector(rows, columns, 0.01, generator)
    ]


def outside(basis_NK: Tensor, expected_NK: Tensor) -> float:
    """‖(1 − Q Qᵀ) U‖_F: how far a basis is from the span of another one."""
    basis_NK = basis_NK.double()
    return float((basis_NK - expected_NK @ (expected_NK.T @ basis_NK)).norm())


def turned(leading: LeadingTriplets) -> float:
    """The estimate of ‖δU‖_F."""
    return float(leading.errors_K.sum().sqrt())


@by_shape
@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
def test_the_span_is_that_of_float64_up_to_the_estimate(
    shape: tuple[int, int], share: float
) -> None:
    k = max(1, int(share * min(shape)))
    for matrix in matrices(shape):
        leading = leading_in_float32(matrix.clone(), k)
        assert leading is not None
        exact = leading_triplets(matrix.double(), k)
        allowed = SAFETY * turned(leading) + ROUNDING
        assert outside(leading.triplets.u_OK, exact.u_OK) <= allowed
        assert outside(leading.triplets.vh_KI.T, exact.vh_KI.T) <= allowed
        found_s = leading.triplets.s_K.sort(descending=True).values
        torch.testing.assert_close(found_s, exact.s_K, rtol=5e-3, atol=0)
        norm = exact.s_K.norm()
        apart = (leading.triplets.product.double() - exact.product).norm()
        assert float(apart / norm) <= allowed


@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_the_scale_does_not_matter(scale: float) -> None:
    matrix = task_vector(60, 90, 1.0, torch.Generator().manual_seed(1))
    leading = leading_in_float32(matrix * scale, 20)
    plain = leading_in_float32(matrix.clone(), 20)
    assert leading is not None
    assert plain is not None
    torch.testing.assert_close(leading.triplets.s_K / scale, plain.triplets.s_K, rtol=1e-5, atol=0)
    assert turned(leading) == pytest.approx(turned(plain), rel=0.5, abs=1e-4)
    assert outside(leading.triplets.u_OK, plain.triplets.u_OK.double()) <= 1e-3


@pytest.mark.parametrize("gap", [0.0, 1e-7, 1e-5])
def test_a_cut_between_equal_values_has_a_large_error(gap: float) -> None:
    """The directions on either side of the cut may be mixed at will, and the estimate knows it."""
    generator = np.random.default_rng(4)
    left_vectors = np.linalg.qr(generator.standard_normal((40, 40)))[0]
    right = np.linalg.qr(generator.standard_normal((70, 40)))[0]
    values = np.linspace(2, 1, 40)
    values[10] = values[9] * (1 - gap)
    matrix = torch.from_numpy(left_vectors * values @ right.T).float()
    leading = leading_in_float32(matrix, 10)
    assert leading is not None
    if gap <= 1e-7:
        assert not turned(leading) < 1
    else:
        assert 0.01 < turned(leading) < 1


def test_float32_does_not_resolve_what_is_far_below_the_largest_value() -> None:
    low_rank = torch.from_numpy(low_rank_deltas(1, 30, 50, 4, 1.0, 5)[0]).float()
    assert leading_in_float32(low_rank.clone(), 5) is None
    assert leading_in_float32(low_rank.clone(), 4) is not None
    steep = torch.from_numpy(decaying_deltas(1, 30, 50, 1e4, 1.0, 6)[0]).float()
    assert leading_in_float32(steep.clone(), 30) is None


def side_by_side(rows: int, blocks: int, block: int, seed: int) -> Tensor:
    """Blocks of orthonormal columns, as float32."""
    generator = np.random.default_rng(seed)
    parts = [np.linalg.qr(generator.standard_normal((rows, block)))[0] for _ in range(blocks)]
    return torch.from_numpy(np.hstack(parts)).float()


def weights(columns: Tensor) -> Tensor:
    """Of every block the same, and steep, so that few columns decide."""
    return torch.linspace(0, 4, 30, dtype=torch.float64).neg().exp().repeat(columns.shape[1] // 30)


def weighted(factor: Tensor, exact: Tensor, weights_K: Tensor) -> float:
    return float(((factor.double() - exact) * weights_K).norm() / weights_K.norm())


def none_for(columns: Tensor) -> Tensor:
    return torch.zeros(columns.shape[1], dtype=torch.float64)


@pytest.mark.parametrize("rows", [91, 92, 120, 400])
def test_columns_become_the_nearest_orthonormal_ones(rows: int) -> None:
    """With nearly as many columns as rows, they are nearly dependent."""
    columns = side_by_side(rows, 3, 30, rows)
    weights_K = weights(columns)
    polar = polar_in_float32(columns, weights_K, none_for(columns), 30)
    assert isinstance(polar, PolarFactor)
    exact = orthogonalised(columns.double())
    assert weighted(polar.factor_NK, exact, weights_K) <= SAFETY * polar.error + ROUNDING
    assert polar.error < 0.02


@pytest.mark.parametrize("rows", [90, 100, 300])
def test_an_error_of_the_columns_is_in_the_estimate(rows: int) -> None:
    columns = side_by_side(rows, 3, 30, 1)
    weights_K = weights(columns)
    generator = torch.Generator().manual_seed(2)
    noise = torch.randn(columns.shape, generator=generator) * torch.linspace(0, 1e-4, 90)
    errors_K = noise.double().square().sum(dim=0)
    polar = polar_in_float32(columns + noise, weights_K, errors_K, 30)
    assert polar is not None
    apart = weighted(polar.factor_NK, orthogonalised(columns.double()), weights_K)
    assert apart / 3 <= polar.error <= 10 * apart


def test_dependent_columns_have_no_polar_factor_in_float32() -> None:
    columns = side_by_side(100, 2, 30, 3)
    doubled = torch.cat([columns, columns[:, :30]], dim=1)
    assert polar_in_float32(doubled, weights(doubled), none_for(doubled), 30) is None
    many = side_by_side(70, 3, 30, 4)
    assert polar_in_float32(many, weights(many), none_for(many), 30) is None
