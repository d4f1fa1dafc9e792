"""Other singular values for a matrix, against its full decomposition in float64."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from ace_gui.linalg import singular
from ace_gui.linalg.singular import direction_count, shape_spectrum_, shaping_memory
from tests.helpers.live_memory import LiveMemory
from tests.helpers.method_cases import orthogonal
from tests.helpers.method_oracles import reshaped

Array = NDArray[np.float64]

SHAPES = [(1, 1), (1, 6), (6, 1), (5, 8), (8, 5), (40, 40), (24, 92)]
SHARES = [1.0, 0.3, 1e-6]
POWERS = [0.0, 0.3, 0.5, 1.0, 1.5, 4.0]
NOISE = 3e-6


@pytest.fixture
def few_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The widest is multiplied in three parts."""
    monkeypatch.setattr(singular, "COLUMNS_AT_A_TIME", 32)


def spread(shape: tuple[int, int], sigma: Array, seed: int = 0) -> Array:
    """A matrix with these leading singular values."""
    small = min(shape)
    values = np.zeros(small)
    values[: len(sigma)] = sigma[:small]
    return orthogonal(shape[0], seed)[:, :small] * values @ orthogonal(shape[1], seed + 1)[:small]


def cases(shape: tuple[int, int]) -> dict[str, Array]:
    small = min(shape)
    return {
        "random": np.random.default_rng(1).standard_normal(shape),
        "geometric": spread(shape, np.geomspace(1, 1e-4, small)),
        "clusters": spread(shape, np.repeat([3.0, 1e-2], (small + 1) // 2)),
        "deficient": spread(shape, np.linspace(2, 1, max(1, small // 3))),
        "zero": np.zeros(shape),
        "tiny": 1e-30 * np.random.default_rng(2).standard_normal(shape),
        "huge": 1e30 * np.random.default_rng(3).standard_normal(shape),
    }


def is_clear(matrix: Array, share: float) -> bool:
    """Whether it is decided by the matrix which directions are the leading ones."""
    sigma = np.append(np.linalg.svd(matrix, compute_uv=False), 0.0)
    last, following = sigma[direction_count(share, matrix.shape) - 1 :][:2]
    return bool(last == 0 or last - following > 1e-9 * sigma[0] or last < 1e-9 * sigma[0])


def shaped(matrix: Array, share: float = 1.0, power: float = 1.0, noise: float = NOISE) -> Array:
    noise *= float(np.linalg.norm(matrix))
    return shape_spectrum_(
        torch.tensor(matrix), share=share, power=power, noise=noise
    ).matrix_OI.numpy()


@pytest.mark.usefixtures("few_columns")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_against_the_decomposition(shape: tuple[int, int]) -> None:
    for name, matrix in cases(shape).items():
        size = float(np.linalg.norm(matrix))
        clear = [share for share in SHARES if is_clear(matrix, share)]
        for share, power in itertools.product(clear, POWERS):
            outcome = shaped(matrix, share, power)
            expected = reshaped(matrix, share, power, NOISE * size)
            wrong = np.linalg.norm(outcome - expected)
            assert wrong <= 1e-8 * np.linalg.norm(expected), (name, share, power)


@pytest.mark.usefixtures("few_columns")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_properties(shape: tuple[int, int]) -> None:
    left_rotation = orthogonal(shape[0], 5)
    right = orthogonal(shape[1], 6)
    for name, matrix in cases(shape).items():
        size = np.linalg.norm(matrix)
        assert np.linalg.norm(shaped(matrix) - matrix) <= 1e-12 * size
        sigma = np.linalg.svd(matrix, compute_uv=False)
        elsewhere = left_rotation @ matrix @ right
        clear = [share for share in SHARES if is_clear(matrix, share)]
        for share, power in itertools.product(SHARES, POWERS):
            outcome = shaped(matrix, share, power)
            values = sigma[: direction_count(share, shape)]
            assert np.linalg.norm(outcome) == pytest.approx(np.linalg.norm(values), rel=1e-8), name
            assert np.linalg.matrix_rank(outcome, rtol=1e-9) <= direction_count(share, shape)
            near = {"rtol": 0, "atol": 2e-8 * max(size, 1e-300)}  # Either is within 1e-8.
            turned = shaped(elsewhere, share, power)
            if share in clear:
                np.testing.assert_allclose(turned, left_rotation @ outcome @ right, **near)
                np.testing.assert_allclose(shaped(matrix.T, share, power), outcome.T, **near)
                np.testing.assert_allclose(shaped(3 * matrix, share, power), 3 * outcome, **near)


@pytest.mark.parametrize("power", [0.0, 0.1, 0.5])
def test_rounding_is_not_raised(power: float) -> None:
    """A matrix of rank 4 with the rounding of float32: as without it."""
    exact = spread((96, 128), np.array([4.0, 3.0, 2.0, 1.0]))
    coarse = exact.astype(np.float32).astype(np.float64)
    outcome = shaped(coarse, power=power)
    expected = reshaped(exact, 1.0, power, 0.0)
    assert np.linalg.norm(outcome - expected) <= 1e-6 * np.linalg.norm(expected)


@pytest.mark.parametrize("shape", [(128, 512), (256, 256), (512, 128)], ids=str)
def test_the_singular_values_that_are_told(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    before: Tensor = torch.linalg.svdvals(matrix)
    made = shape_spectrum_(matrix.clone(), share=0.5, power=0.5, noise=0.0)
    torch.testing.assert_close(made.before_R, before)
    torch.testing.assert_close(
        made.after_R[: len(before) // 2], torch.linalg.svdvals(made.matrix_OI)[: len(before) // 2]
    )
    assert not made.after_R[len(before) // 2 :].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(128, 2048), (256, 256), (2048, 128)], ids=str)
def test_the_memory_is_what_is_said(shape: tuple[int, int], dtype: torch.dtype) -> None:
    matrix = torch.randn(shape, dtype=dtype)
    with LiveMemory() as memory:
        shape_spectrum_(matrix, share=0.5, power=0.5, noise=0.0)
    assert memory.peak <= 8 * shaping_memory(shape) <= 4 * memory.peak
