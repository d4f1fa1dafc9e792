"""√s in float32: against decompositions in float64, with the error that it says it has."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ace_gui.linalg import root_spectrum as module
from ace_gui.linalg import singular
from ace_gui.linalg.eigenvectors import Eigen, eigenvectors
from ace_gui.linalg.root_spectrum import RootSpectrum, root_spectrum
from ace_gui.linalg.singular import noise_floor
from ace_gui.methods.shared.after import changed_after
from ace_gui.methods.shared.experts import Merged
from ace_gui.methods.shared.tolerance import tolerance_of_experts

Array = NDArray[np.float64]
SHAPES = [(96, 96), (48, 160), (160, 48), (1, 20), (20, 1)]
LIMITS = [1e-2, 1e-3, 2e-4]


def noisy(rng: np.random.Generator, m: int, n: int) -> Array:
    """A few strong directions over the rounding of 16-bit weights."""
    rank = max(1, min(m, n) // 20)
    strong = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n))
    noise = rng.standard_normal((m, n))
    return strong / np.linalg.norm(strong) + 0.1 * noise / np.linalg.norm(noise)


def decaying(rng: np.random.Generator, m: int, n: int) -> Array:
    rank = min(m, n)
    left_vectors, _ = np.linalg.qr(rng.standard_normal((m, rank)))
    right, _ = np.linalg.qr(rng.standard_normal((n, rank)))
    return left_vectors * np.geomspace(1, 1e-5, rank) @ right.T


def centred(rng: np.random.Generator, m: int, n: int) -> Array:
    """Without a mean over outputs, so that a direction is zero."""
    matrix = noisy(rng, m, n)
    return matrix - matrix.mean(axis=0) if m > 1 else matrix


def deficient(rng: np.random.Generator, m: int, n: int) -> Array:
    """As adapters leave it."""
    rank = max(1, min(m, n) // 8)
    return rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n))


def heavy(rng: np.random.Generator, m: int, n: int) -> Array:
    """Singular values 1, 1/2, 1/3 …"""
    rank = min(m, n)
    left_vectors, _ = np.linalg.qr(rng.standard_normal((m, rank)))
    right, _ = np.linalg.qr(rng.standard_normal((n, rank)))
    return left_vectors / np.arange(1, rank + 1) @ right.T


def with_small_values(*shares: float) -> Callable[[np.random.Generator, int, int], Array]:
    """Noise, whose smallest singular values are these shares of the largest.

    So small that the squares are blurred in float32, but larger than the floor.
    """

    def make(rng: np.random.Generator, m: int, n: int) -> Array:
        left_vectors, values, right = np.linalg.svd(rng.standard_normal((m, n)), False)
        if len(values) > len(shares):
            values[-len(shares) :] = np.multiply(shares, values[0])
        return left_vectors * values @ right

    return make


MATRICES: dict[str, Callable[[np.random.Generator, int, int], Array]] = {
    "noisy": noisy,
    "decaying": decaying,
    "centred": centred,
    "deficient": deficient,
    "heavy": heavy,
    "small-value": with_small_values(1e-4),
    "smaller-value": with_small_values(1e-5),
    "small-values": with_small_values(3e-4, 1e-4, 3e-5, 1e-5),
    "noise": lambda rng, m, n: rng.standard_normal((m, n)),
    "tiny": lambda rng, m, n: 1e-30 * noisy(rng, m, n),
    "huge": lambda rng, m, n: 1e30 * noisy(rng, m, n),
}


def made(name: str, shape: tuple[int, int], seed: int = 0) -> torch.Tensor:
    matrix = MATRICES[name](np.random.default_rng(seed), *shape)
    return torch.from_numpy(matrix).float()


def expected(matrix: torch.Tensor, floor: float) -> Array:
    left_vectors, values, right = np.linalg.svd(matrix.double().numpy(), full_matrices=False)
    roots = np.where(values > floor, np.sqrt(values), 0)
    return left_vectors * (roots * np.linalg.norm(values) / np.linalg.norm(roots)) @ right


def floor_of(matrix: torch.Tensor) -> float:
    """That of ``changed_after`` for a matrix in float32."""
    return noise_floor(3e-6 * float(matrix.double().norm()), tuple(matrix.shape))


def rooted(matrix: torch.Tensor, limit: float) -> RootSpectrum | None:
    return root_spectrum(matrix, floor_of(matrix), limit)


def distance(result: torch.Tensor, exact: Array) -> float:
    """As a share of the exact norm."""
    return float(np.linalg.norm(result.double().numpy() - exact) / np.linalg.norm(exact))


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("seed", range(2))
def test_its_error_is_within_the_limit_and_at_most_what_it_says(
    name: str, shape: tuple[int, int], limit: float, seed: int
) -> None:
    matrix = made(name, shape, seed)
    if not matrix.any():
        pytest.skip("a single row without its mean is zero")
    result = rooted(matrix, limit)
    if result is None:
        return
    assert result.error <= limit
    assert distance(result.matrix_OI, expected(matrix, floor_of(matrix))) <= result.error
    norm = float(matrix.double().norm())
    assert float(result.matrix_OI.double().norm()) == pytest.approx(norm, rel=1e-5)


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("shape", SHAPES[1:3], ids=str)
@pytest.mark.parametrize("name", ["noisy", "noise", "heavy", "deficient", "tiny", "huge"])
def test_it_is_exact_enough_for_most_matrices(
    name: str, shape: tuple[int, int], limit: float
) -> None:
    assert rooted(made(name, shape), limit) is not None


@pytest.mark.parametrize(("name", "limit"), [("heavy", 3e-4), ("decaying", 3e-3)])
def test_small_directions_are_decomposed_again(
    name: str, limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix = made(name, (160, 160))
    assert rooted(matrix, limit) is not None
    monkeypatch.setattr(module, "LEVELS", 1)
    assert rooted(matrix, limit) is None


def test_a_limit_below_float32_is_refused() -> None:
    assert rooted(made("noisy", (48, 160)), 1e-6) is None


def test_singular_values_before_and_after() -> None:
    matrix = made("noisy", (48, 160))
    result = root_spectrum(matrix, 0.0, 1e-2)
    assert result is not None
    values = np.linalg.svd(matrix.double().numpy(), compute_uv=False)
    np.testing.assert_allclose(result.before_R.numpy(), values, rtol=1e-3)
    after = np.linalg.svd(result.matrix_OI.double().numpy(), compute_uv=False)
    np.testing.assert_allclose(np.sort(result.after_R.numpy()), after[::-1], rtol=1e-3)


@pytest.fixture
def decomposed(monkeypatch: pytest.MonkeyPatch) -> list[torch.dtype]:
    """The dtypes of matrices that are decomposed."""
    dtypes = list[torch.dtype]()

    def counted(matrix: torch.Tensor) -> Eigen:
        dtypes.append(matrix.dtype)
        return eigenvectors(matrix)

    for user in (module, singular):
        monkeypatch.setattr(user, "eigenvectors", counted)
    return dtypes


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_steps_after_the_method_use_it_where_weights_have_16_bits(
    dtype: torch.dtype, decomposed: list[torch.dtype]
) -> None:
    delta = made("centred", (96, 64))
    base = torch.ones(96, 64)
    tolerance = tolerance_of_experts([dtype] * 3, [1.0] * 3, 70.0)
    exact = changed_after(Merged(delta=delta.clone()), [], [], base, spectrum=0.5).delta
    decomposed.clear()
    result = changed_after(
        Merged(delta=delta.clone()), [], [], base, spectrum=0.5, tolerance=tolerance
    ).delta
    coarse = tolerance.rounding > 0
    assert set(decomposed) == {torch.float32 if coarse else torch.float64}
    error = float((result - exact).norm() / exact.norm())
    assert error <= 0.8 * tolerance.relative(1.0)
    assert coarse or torch.equal(result, exact)


def test_what_is_not_exact_enough_is_decomposed_in_float64(
    decomposed: list[torch.dtype], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SAFETY", 1e6)
    delta = made("centred", (96, 96))
    base = torch.ones(96, 96)
    tolerance = tolerance_of_experts([torch.bfloat16] * 3, [1.0] * 3, 70.0)
    exact = changed_after(Merged(delta=delta.clone()), [], [], base, spectrum=0.5).delta
    decomposed.clear()
    result = changed_after(
        Merged(delta=delta.clone()), [], [], base, spectrum=0.5, tolerance=tolerance
    ).delta
    assert decomposed[0] == torch.float32
    assert decomposed[-1] == torch.float64
    assert torch.equal(result, exact)
