"""Several layers merged together: each as if it were alone, whatever becomes of the others."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from ace_gui.errors import MethodError
from ace_gui.methods.ace import AceParameters, ace, ace_batch, float32_check
from ace_gui.methods.method import MethodInput
from ace_gui.methods.shared.experts import Merged
from tests.helpers import ace_oracle as oracle
from tests.helpers.ace_cases import Array, CountedDeltas, low_rank_deltas, random_deltas, spread

SHAPES = [(8, 48), (12, 40), (24, 30), (40, 12)]
LARGEST_ERROR = 1e-5

by_shape = pytest.mark.parametrize(("m", "n"), SHAPES)


def layer(deltas: Array, weights: Sequence[float] | None = None) -> MethodInput:
    tensors = [torch.from_numpy(delta).float() for delta in deltas]
    return MethodInput(tensors, list(weights or [1.0] * len(tensors)))


def assert_same(outcome: Merged, alone: Merged) -> None:
    """To the rounding of float32, in which they come; and the same words."""
    error = float((outcome.delta - alone.delta).norm())
    assert error <= 1e-6 * float(alone.delta.norm())
    for name in ("left_out", "heterogeneous", "notes", "warnings"):
        assert getattr(outcome.diagnostics, name) == getattr(alone.diagnostics, name)
    for name in ("energies", "gamma", "ridge_mass", "condition", "refinement_cosine"):
        mine = getattr(outcome.diagnostics, name)
        expected = getattr(alone.diagnostics, name)
        assert mine == (None if expected is None else pytest.approx(expected, rel=1e-6))


def assert_each_as_alone(layers: Sequence[MethodInput], parameters: AceParameters) -> list[Merged]:
    together = ace_batch(layers, parameters)
    for outcome, (deltas, weights, *_) in zip(together, layers, strict=True):
        assert_same(outcome, ace(deltas, weights, parameters))
    return together


@by_shape
def test_both_regimes_in_one_batch(m: int, n: int) -> None:
    """The oracle too; sums in float32 for some, in float64 for others."""
    same = [random_deltas(4, m, n, norm, seed) for seed, norm in enumerate((0.05, 0.6))]
    apart = [random_deltas(4, m, n, spread(4, ratio), 9) for ratio in (40, 90, 1000)]
    rounded = [deltas.astype(np.float32).astype(float) for deltas in (same[0], *apart, same[1])]
    parameters = AceParameters(epsilon=2e-4, tau=0.1)
    together = assert_each_as_alone(list(map(layer, rounded)), parameters)
    regimes = [outcome.diagnostics.heterogeneous for outcome in together]
    assert regimes == [False, True, True, True, False]
    for outcome, deltas in zip(together, rounded, strict=True):
        expected = oracle.ace_oracle(deltas, epsilon=2e-4, tau=0.1).merged
        error = oracle.relative_error(outcome.delta.double().numpy(), expected)
        assert error <= LARGEST_ERROR


@by_shape
@pytest.mark.parametrize("tau", [0.0, 100.0])
def test_an_expert_left_out_of_one_layer_only(m: int, n: int, tau: float) -> None:
    layers = [layer(random_deltas(4, m, n, spread(4, 10), seed)) for seed in range(3)]
    layers[1][0][2].zero_()
    together = assert_each_as_alone(layers, AceParameters(tau=tau))
    assert [outcome.diagnostics.left_out for outcome in together] == [(), (2,), ()]


def test_layers_with_one_expert_left_or_none_in_a_batch() -> None:
    layers = [layer(random_deltas(3, 8, 6, spread(3, 10), seed)) for seed in range(4)]
    for deltas in (layers[1][0], layers[2][0][1:]):
        for delta in deltas:
            delta.zero_()
    together = assert_each_as_alone(layers, AceParameters(tau=0.0))
    assert not together[1].delta.any()
    assert torch.equal(together[2].delta, layers[2][0][0])


def test_no_layer_with_a_change() -> None:
    together = assert_each_as_alone([layer(np.zeros((3, 4, 5)))] * 2, AceParameters())
    assert not any(outcome.delta.any() for outcome in together)


@pytest.mark.parametrize("tau", [0.0, 100.0])
def test_weights_of_its_own_for_each_layer(tau: float) -> None:
    deltas = random_deltas(3, 10, 14, spread(3, 10), 1)
    layers = [layer(deltas), layer(deltas, [0.5, 2.0, -1.0]), layer(deltas, [1.0, 0.0, 1.0])]
    assert_each_as_alone(layers, AceParameters(tau=tau, scaling=0.7))


def test_a_system_that_only_one_layer_has_singular() -> None:
    sound = random_deltas(2, 6, 20, 1.0, 9)
    layers = [layer(sound), layer(low_rank_deltas(2, 6, 20, 1, 1e6, 9)), layer(2 * sound)]
    together = ace_batch(layers, AceParameters(epsilon=1e-10, tau=100.0))
    singular = [
        any("numerically singular" in warning for warning in outcome.diagnostics.warnings)
        for outcome in together
    ]
    assert singular == [False, True, False]
    for outcome, deltas in zip(together, (sound, None, 2 * sound), strict=True):
        if deltas is not None:
            rounded = deltas.astype(np.float32).astype(float)
            expected = oracle.ace_oracle(rounded, epsilon=1e-10, tau=100.0).merged
            error = oracle.relative_error(outcome.delta.double().numpy(), expected)
            assert error <= LARGEST_ERROR


def near_rank_one(T: int, m: int, n: int, epsilon: float, condition: float) -> Array:
    """Rounding errors of equal sign add up, so that the probes reject float32."""
    rng = np.random.default_rng(3)
    deltas = np.sign(rng.standard_normal((m, 1))) * (1 + 0.01 * rng.random((T, m, n)))
    proxies = sum(np.linalg.norm(oracle.proxy(delta), 2) for delta in deltas)
    return deltas * np.sqrt(condition * T * epsilon / proxies)


def test_sums_in_float32_that_only_one_layer_has_to_take_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(float32_check, "ROUNDING", 1e-8)  # expects too little of an error
    epsilon = 1e-2
    sound = random_deltas(8, 48, 64, 0.3, 5)
    by_layer = [sound, near_rank_one(8, 48, 64, epsilon, 80.0), 0.5 * sound]
    layers = [
        MethodInput(CountedDeltas(deltas), weights) for deltas, weights, *_ in map(layer, by_layer)
    ]
    parameters = AceParameters(epsilon=epsilon, tau=100.0)
    ace_batch(layers, parameters)
    assert [set(deltas.reads.values()) for deltas, *_ in layers] == [{2}, {3}, {2}]
    assert_each_as_alone(layers, parameters)


def test_of_experts_left_out_nothing_is_read_again() -> None:
    layers = [layer(random_deltas(4, 12, 10, spread(4, 10), seed)) for seed in range(2)]
    layers[1][0][2].zero_()
    counted = [MethodInput(CountedDeltas(deltas), weights) for deltas, weights, *_ in layers]
    ace_batch(counted, AceParameters(tau=0.0))
    assert dict(counted[0][0].reads) == dict.fromkeys(range(4), 2)
    assert dict(counted[1][0].reads) == {0: 2, 1: 2, 2: 1, 3: 2}


@pytest.mark.parametrize("tau", [0.0, 100.0])
def test_a_batch_of_one_is_the_layer_itself(tau: float) -> None:
    deltas, weights, *_ = layer(random_deltas(4, 24, 30, spread(4, 10), 1))
    parameters = AceParameters(tau=tau)
    (outcome,) = ace_batch([MethodInput(deltas, weights)], parameters)
    alone = ace(deltas, weights, parameters)
    assert torch.equal(outcome.delta, alone.delta)
    assert outcome.diagnostics == alone.diagnostics


def test_without_directions_to_refine() -> None:
    layers = [layer(random_deltas(4, 3, 40, spread(4, 10), seed)) for seed in range(2)]
    for outcome in assert_each_as_alone(layers, AceParameters(tau=0.0)):
        assert any("No refinement" in note for note in outcome.diagnostics.notes)


def test_float64_for_one_layer_only() -> None:
    by_layer = [random_deltas(3, 8, 6, 0.1, seed) for seed in range(2)]
    exact = [torch.from_numpy(delta) for delta in by_layer[1]]
    layers = [layer(by_layer[0]), MethodInput(exact, [1.0] * 3)]
    assert_each_as_alone(layers, AceParameters(epsilon=1.0, tau=100.0))


def test_a_layer_that_is_not_finite_is_refused() -> None:
    layers = [layer(random_deltas(3, 5, 4, 0.1, seed)) for seed in range(3)]
    layers[1][0][2][4, 0] = torch.nan
    with pytest.raises(MethodError, match="Task vector 3 of 3 holds NaN or Inf"):
        ace_batch(layers, AceParameters())
