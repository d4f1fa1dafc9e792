"""√s in float32: against decompositions in float64, with the error that it says it has."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ace_gui.linalg import root_spectrum as module
from ace_gui.linalg.root_spectrum import root_spectrum, worth_trying
from ace_gui.linalg.singular import noise_floor
from ace_gui.methods.shared.after import changed_after
from ace_gui.methods.shared.experts import Merged
from ace_gui.methods.shared.tolerance import of_experts

Array = NDArray[np.float64]
SHAPES = [(96, 96), (48, 160), (160, 48), (1, 20), (20, 1)]


def noisy(rng: np.random.Generator, m: int, n: int) -> Array:
    """A few strong directions over the rounding of 16-bit weights."""
    rank = max(1, min(m, n) // 20)
    strong = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n))
    noise = rng.standard_normal((m, n))
    return strong / np.linalg.norm(strong) + 0.1 * noise / np.linalg.norm(noise)


def decaying(rng: np.random.Generator, m: int, n: int) -> Array:
    rank = min(m, n)
    left, _ = np.linalg.qr(rng.standard_normal((m, rank)))
    right, _ = np.linalg.qr(rng.standard_normal((n, rank)))
    return left * np.geomspace(1, 1e-5, rank) @ right.T


def centred(rng: np.random.Generator, m: int, n: int) -> Array:
    """Without a mean over outputs, so that a direction is zero."""
    matrix = noisy(rng, m, n)
    return matrix - matrix.mean(axis=0) if m > 1 else matrix


def deficient(rng: np.random.Generator, m: int, n: int) -> Array:
    """As adapters leave it."""
    rank = max(1, min(m, n) // 8)
    return rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n))


MATRICES: dict[str, Callable[[np.random.Generator, int, int], Array]] = {
    "noisy": noisy,
    "decaying": decaying,
    "centred": centred,
    "deficient": deficient,
    "tiny": lambda rng, m, n: 1e-30 * noisy(rng, m, n),
    "huge": lambda rng, m, n: 1e30 * noisy(rng, m, n),
}


def made(name: str, shape: tuple[int, int], seed: int = 0) -> torch.Tensor:
    matrix = MATRICES[name](np.random.default_rng(seed), *shape)
    return torch.from_numpy(matrix).float()


def expected(matrix: torch.Tensor, floor: float) -> Array:
    left, values, right = np.linalg.svd(matrix.double().numpy(), full_matrices=False)
    roots = np.where(values > floor, np.sqrt(values), 0)
    return left * (roots * np.linalg.norm(values) / np.linalg.norm(roots)) @ right


def floor_of(matrix: torch.Tensor) -> float:
    """That of ``changed_after`` for a matrix in float32."""
    return noise_floor(3e-6 * float(matrix.double().norm()), tuple(matrix.shape))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("seed", range(3))
def test_its_error_is_at_most_what_it_says(name: str, shape: tuple[int, int], seed: int) -> None:
    matrix = made(name, shape, seed)
    floor = floor_of(matrix)
    found = root_spectrum(matrix, floor)
    wanted = expected(matrix, floor)
    error = np.linalg.norm(found.matrix_OI.double().numpy() - wanted) / np.linalg.norm(wanted)
    assert error <= found.error + 1e-6  # what is rounded in float32 anyway
    assert float(found.matrix_OI.double().norm()) == pytest.approx(
        float(matrix.double().norm()), rel=1e-5
    )


@pytest.mark.parametrize("shape", SHAPES[:3], ids=str)
@pytest.mark.parametrize("name", ["noisy", "centred", "deficient"])
def test_it_does_not_say_much_more_than_its_error(name: str, shape: tuple[int, int]) -> None:
    found = root_spectrum(made(name, shape), floor_of(made(name, shape)))
    assert found.error < 0.02  # 16-bit experts allow about this much


def test_singular_values_before_and_after() -> None:
    matrix = made("noisy", (48, 160))
    found = root_spectrum(matrix, 0.0)
    values = np.linalg.svd(matrix.double().numpy(), compute_uv=False)
    np.testing.assert_allclose(found.before_R.numpy(), values, rtol=1e-3)
    after = np.linalg.svd(found.matrix_OI.double().numpy(), compute_uv=False)
    np.testing.assert_allclose(np.sort(found.after_R.numpy()), after[::-1], rtol=1e-3)


@pytest.mark.parametrize(
    ("norm", "rounding", "taken"),
    [(1.0, 0.1, True), (1.0, 1e-3, False), (1.0, 0.0, False), (0.0, 0.1, False)],
)
def test_whether_it_is_tried(norm: float, rounding: float, taken: bool) -> None:
    assert worth_trying(norm, rounding, (1024, 2816), 0.1 * rounding) == taken
    assert not worth_trying(float("nan"), rounding, (1024, 2816), 0.1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_steps_after_the_method_use_it_where_weights_have_16_bits(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = list[torch.dtype]()
    decompose = torch.linalg.eigh

    def counted(matrix: torch.Tensor) -> object:
        calls.append(matrix.dtype)
        return decompose(matrix)

    monkeypatch.setattr(torch.linalg, "eigh", counted)
    delta = made("centred", (96, 64))
    base = torch.ones(96, 64)
    tolerance = of_experts([dtype] * 3, [1.0] * 3, 70.0)
    wanted = changed_after(Merged(delta=delta.clone()), [], [], base, spectrum=0.5).delta
    calls.clear()
    found = changed_after(
        Merged(delta=delta.clone()), [], [], base, spectrum=0.5, tolerance=tolerance
    ).delta
    coarse = tolerance.rounding > 0
    assert calls == [torch.float32 if coarse else torch.float64]
    error = float((found - wanted).norm() / wanted.norm())
    assert error <= 0.8 * tolerance.relative(1.0)
    assert coarse or torch.equal(found, wanted)


def test_what_is_not_exact_enough_is_decomposed_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXPECTED", 0.0)  # is always tried
    delta = made("decaying", (64, 64))
    base = torch.ones(64, 64)
    tolerance = of_experts([torch.bfloat16] * 3, [1.0] * 3, 1.0)
    wanted = changed_after(Merged(delta=delta.clone()), [], [], base, spectrum=0.5).delta
    found = changed_after(
        Merged(delta=delta.clone()), [], [], base, spectrum=0.5, tolerance=tolerance
    ).delta
    assert torch.equal(found, wanted)
