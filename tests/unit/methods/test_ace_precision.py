"""Float32 where it is enough: held to the oracle, and to the published script in float32."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from ace_gui.methods.ace import AceParameters, ace
from ace_gui.methods.ace_scan import LARGEST_SINGLE_CONDITION, precision, scan, shares_of
from ace_gui.methods.experts import WeightedExperts
from tests.benchmarks.literal import literal_ace
from tests.helpers import ace_oracle as oracle
from tests.helpers.ace_cases import (
    Array,
    decaying_deltas,
    low_rank_deltas,
    random_deltas,
    spread,
)

LARGEST_ERROR = 1e-5
HOMOGENEOUS, HETEROGENEOUS = 100.0, 0.0

by_shape = pytest.mark.parametrize(("m", "n"), [(24, 96), (64, 64), (96, 24)])
by_spectrum = pytest.mark.parametrize(
    "make",
    [
        pytest.param(random_deltas, id="flat"),
        pytest.param(
            lambda T, m, n, norms, seed: low_rank_deltas(T, m, n, 4, norms, seed), id="thin"
        ),
        pytest.param(
            lambda T, m, n, norms, seed: decaying_deltas(T, m, n, 1e4, norms, seed), id="decaying"
        ),
    ],
)
Make = Callable[[int, int, int, float | Array, int], Array]


def single(deltas: Array) -> list[torch.Tensor]:
    return [torch.from_numpy(delta).float() for delta in deltas]


def condition(deltas: list[torch.Tensor], epsilon: float) -> float:
    """Of S in the homogeneous regime."""
    centred = [(delta - delta.mean(dim=0)).double() for delta in deltas]
    total = sum(torch.linalg.matrix_norm(tilde.T @ tilde, 2) for tilde in centred)
    return 1 + float(total) / (len(deltas) * epsilon)


def errors(deltas: list[torch.Tensor], epsilon: float, tau: float) -> tuple[float, float]:
    """Relative errors of our result, and of the published procedure in float32."""
    exact = np.array([delta.double().numpy() for delta in deltas])
    expected = oracle.ace_oracle(exact, epsilon=epsilon, tau=tau).merged
    ours = ace(deltas, [1.0] * len(deltas), AceParameters(epsilon=epsilon, tau=tau)).delta
    literal = literal_ace(deltas, epsilon=epsilon, tau=tau)
    found, published = (
        oracle.relative_error(result.double().numpy(), expected) for result in (ours, literal)
    )
    return found, published


@by_shape
@by_spectrum
@pytest.mark.parametrize("wanted", [1.5, 20.0, 65.0, 99.0, 1e3, 1e5])
def test_no_conditioning_makes_it_worse_than_the_published_procedure(
    make: Make, m: int, n: int, wanted: float
) -> None:
    deltas = single(make(6, m, n, 0.3, m))
    epsilon = condition(deltas, 1.0) - 1
    found, published = errors(deltas, epsilon / wanted, HOMOGENEOUS)
    assert found <= LARGEST_ERROR
    assert found <= published


@by_shape
@by_spectrum
def test_refinement_is_never_worse_than_the_published_procedure(make: Make, m: int, n: int) -> None:
    deltas = single(make(6, m, n, spread(6, 10), m))
    found, published = errors(deltas, 1e-5, HETEROGENEOUS)
    assert found <= LARGEST_ERROR
    assert found <= published


@by_spectrum
@pytest.mark.parametrize("wanted", [1.1, 30.0, 65.0, 101.0, 1e4])
def test_float32_only_where_the_system_is_well_conditioned(make: Make, wanted: float) -> None:
    deltas = single(make(5, 40, 30, 0.3, 1))
    epsilon = (condition(deltas, 1.0) - 1) / (wanted - 1)
    assert condition(deltas, epsilon) == pytest.approx(wanted)
    first = scan(WeightedExperts(deltas, [1.0] * 5), epsilon)
    chosen = precision(first, shares_of(first, epsilon, heterogeneous=False))
    assert chosen == (torch.float32 if wanted < LARGEST_SINGLE_CONDITION else torch.float64)


def test_task_vectors_in_float64_are_summed_in_float64() -> None:
    deltas = [torch.from_numpy(delta) for delta in random_deltas(3, 8, 6, 0.1, 2)]
    for given, dtype in (
        (deltas, torch.float64),
        ([deltas[0].float(), *deltas[1:]], torch.float64),
        ([delta.float() for delta in deltas], torch.float32),
        ([delta.bfloat16() for delta in deltas], torch.float32),
    ):
        first = scan(WeightedExperts(given, [1.0] * 3), 1.0)
        assert precision(first, shares_of(first, 1.0, heterogeneous=False)) == dtype


def test_the_global_setting_for_products_does_not_matter() -> None:
    deltas = single(random_deltas(4, 64, 96, 0.3, 3))
    parameters = AceParameters(epsilon=4e-2, tau=HOMOGENEOUS)
    usual = ace(deltas, [1.0] * 4, parameters).delta
    torch.set_float32_matmul_precision("medium")
    try:
        assert torch.equal(ace(deltas, [1.0] * 4, parameters).delta, usual)
    finally:
        torch.set_float32_matmul_precision("highest")
