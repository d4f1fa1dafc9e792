"""What must hold of ACE whatever the numbers: symmetries, limits, meaning of the prior.

The limits are those of the paper's appendix B.1, with centred task vectors and centred traces.
"""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ace_gui.methods.ace import AceParameters, ace
from ace_gui.methods.shared.experts import Merged
from tests.helpers import ace_oracle as oracle
from tests.helpers.ace_cases import Array, random_deltas, spread

HOMOGENEOUS = 100.0  # a threshold no γ here exceeds
HETEROGENEOUS = 0.0
CLOSE = 2e-6  # float32 output

seeds = st.integers(min_value=0, max_value=10_000)
taus = pytest.mark.parametrize("tau", [HOMOGENEOUS, HETEROGENEOUS])


def merge(deltas: Array, weights: list[float] | None = None, **parameters: float) -> Merged:
    return ace(
        [torch.from_numpy(delta) for delta in deltas],
        weights or [1.0] * len(deltas),
        AceParameters(**parameters),
        keep_preliminary=True,
    )


def merged(deltas: Array, **parameters: float) -> Array:
    return merge(deltas, **parameters).delta.double().numpy()


def before_refinement(deltas: Array, **parameters: float) -> Array:
    preliminary = merge(deltas, **parameters).preliminary
    assert preliminary is not None
    return preliminary.double().numpy()


def assert_close(value: Array, reference: Array, relative: float = CLOSE) -> None:
    assert np.linalg.norm(value - reference) <= relative * np.linalg.norm(reference)


def five_experts(seed: int, m: int = 9, n: int = 14) -> Array:
    return random_deltas(5, m, n, spread(5, 15), seed)


def centred(deltas: Array) -> Array:
    return np.array([oracle.centred(delta)[0] for delta in deltas])


@taus
@given(seed=seeds)
@settings(deadline=None, max_examples=10, derandomize=True)
def test_symmetries(tau: float, seed: int) -> None:
    deltas = five_experts(seed)
    rng = np.random.default_rng(seed)
    experts, rows, columns = (rng.permutation(size) for size in deltas.shape)
    reference = merged(deltas, tau=tau)
    assert_close(merged(deltas[experts], tau=tau), reference)
    assert_close(merged(deltas[:, rows], tau=tau), reference[rows])
    assert_close(merged(deltas[:, :, columns], tau=tau), reference[:, columns])


def test_the_prior_breaks_the_symmetry_under_sign_flips_of_an_input() -> None:
    deltas = five_experts(1)
    signs = np.ones(14)
    signs[3] = -1
    flipped = merged(deltas * signs, tau=HOMOGENEOUS)
    reference = merged(deltas, tau=HOMOGENEOUS) * signs
    assert oracle.relative_error(flipped, reference) > 1e-2


@taus
def test_the_outputs_of_the_preliminary_solution_have_no_common_shift(tau: float) -> None:
    pre = before_refinement(five_experts(2), tau=tau)
    assert np.abs(pre.sum(axis=0)).max() < 1e-6 * np.abs(pre).max()


def test_a_common_output_shift_does_not_matter_when_homogeneous() -> None:
    deltas = five_experts(3)
    shifted = deltas + np.random.default_rng(3).standard_normal(14)
    assert_close(merged(shifted, tau=HOMOGENEOUS), merged(deltas, tau=HOMOGENEOUS))


@taus
def test_the_prior_shrinks_the_mean_over_inputs(tau: float) -> None:
    """For ε → 0 and full rank: by 1/2, or by τ̄/(1 + τ̄) in the heterogeneous regime."""
    deltas = random_deltas(5, 9, 12, spread(5, 15), seed=4)
    scaled = oracle.scaled_proxies(deltas, tau == HETEROGENEOUS)
    numerator = sum(w @ s for w, s in zip(centred(deltas), scaled, strict=True))
    without_prior = numerator @ np.linalg.inv(sum(scaled))
    mean_energy = oracle.energies(deltas).mean()
    share = mean_energy / (1 + mean_energy) if tau == HETEROGENEOUS else 0.5
    pre = before_refinement(deltas, tau=tau, epsilon=1e-11)
    assert_close(pre.mean(axis=1), share * without_prior.mean(axis=1), 1e-5)
    spread_of = without_prior - without_prior.mean(axis=1, keepdims=True)
    assert_close(pre - pre.mean(axis=1, keepdims=True), spread_of, 1e-5)


def test_a_large_ridge_averages_the_centred_task_vectors() -> None:
    deltas = five_experts(5)
    assert_close(merged(deltas, tau=HOMOGENEOUS, epsilon=1e7), centred(deltas).mean(axis=0))


def test_a_large_ridge_averages_by_inverse_centred_trace_when_heterogeneous() -> None:
    deltas = five_experts(6)
    share = 1 / (oracle.energies(centred(deltas)))
    expected = np.tensordot(share / share.sum(), centred(deltas), axes=1)
    assert_close(before_refinement(deltas, tau=HETEROGENEOUS, epsilon=1e8), expected)


def test_a_large_ridge_makes_the_refinement_diverge_linearly() -> None:
    deltas = five_experts(6)
    once, twice = (
        merged(deltas, tau=HETEROGENEOUS, epsilon=epsilon)
        - before_refinement(deltas, tau=HETEROGENEOUS, epsilon=epsilon)
        for epsilon in (1e6, 2e6)
    )
    assert_close(twice, 2 * once, 1e-5)


def test_the_ridge_must_grow_with_the_squared_scale() -> None:
    deltas = five_experts(7)
    scaled = merged(3 * deltas, tau=HOMOGENEOUS, epsilon=9e-3)
    assert_close(scaled, 3 * merged(deltas, tau=HOMOGENEOUS, epsilon=1e-3))


def test_replicating_every_expert_changes_nothing_when_homogeneous() -> None:
    deltas = five_experts(8)
    assert_close(
        merged(np.repeat(deltas, 3, axis=0), tau=HOMOGENEOUS), merged(deltas, tau=HOMOGENEOUS)
    )


@pytest.mark.parametrize("T", [2, 7])
def test_identical_experts_give_the_centred_expert_less_the_prior(T: int) -> None:
    delta = random_deltas(1, 9, 14, 0.2, seed=9)[0]
    outcome = merge(np.repeat(delta[None], T, axis=0))
    tilde, _ = oracle.centred(delta)
    proxy = oracle.proxy(delta)
    q = np.linalg.solve(proxy + 1e-5 * np.eye(14), proxy @ np.ones(14))
    expected = tilde - np.outer(tilde.sum(axis=1), q) / (14 * (1 + q.mean()))
    assert outcome.diagnostics.gamma == pytest.approx(0, abs=1e-12)
    assert_close(outcome.delta.double().numpy(), expected)


@taus
def test_without_refined_directions_the_result_is_the_preliminary_solution(tau: float) -> None:
    outcome = merge(five_experts(10), tau=tau, k_frac=0.0)
    assert outcome.preliminary is not None
    assert torch.equal(outcome.delta, outcome.preliminary)


def test_the_refinement_has_equal_singular_values_in_the_stated_number() -> None:
    deltas = five_experts(11, 20, 20)
    step = merged(deltas, tau=HETEROGENEOUS) - before_refinement(deltas, tau=HETEROGENEOUS)
    values = np.linalg.svd(step, compute_uv=False)
    np.testing.assert_allclose(values[:6], values[0], rtol=1e-5)
    assert values[6] < 1e-5 * values[0]


@taus
def test_scaling_multiplies_both_results(tau: float) -> None:
    deltas = five_experts(12)
    for result in (merged, before_refinement):
        assert_close(result(deltas, tau=tau, scaling=-2.5), -2.5 * result(deltas, tau=tau))


@taus
def test_weights_multiply_the_task_vectors_first(tau: float) -> None:
    deltas = five_experts(13)
    weights = [0.5, 2.0, 1.0, 0.7, 1.3]
    outcome = merge(deltas, weights, tau=tau)
    multiplied = deltas * np.array(weights)[:, None, None]
    assert_close(outcome.delta.double().numpy(), merged(multiplied, tau=tau))
    np.testing.assert_allclose(outcome.diagnostics.energies, oracle.energies(multiplied))


def test_stored_orientation_does_not_matter() -> None:
    deltas = [torch.from_numpy(delta).float() for delta in five_experts(14)]
    turned = [delta.T.contiguous().T for delta in deltas]
    parameters = AceParameters(tau=HETEROGENEOUS)
    delta, turned_delta = (
        ace(tensors, [1.0] * 5, parameters).delta for tensors in (deltas, turned)
    )
    torch.testing.assert_close(delta, turned_delta)
    assert turned_delta.is_contiguous()
