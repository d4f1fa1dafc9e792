"""What the methods that want data must hold of: limits, weights, and ACE with covariances."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from ace_gui.methods import METHODS, Merged, checked_parameters
from ace_gui.methods.esm import essential_basis
from ace_gui.methods.shared.measured import Measured
from ace_gui.methods.shared.survey import RandomKey
from tests.helpers import ace_oracle
from tests.helpers.ace_oracle import relative_error
from tests.helpers.method_cases import Array, experts, orthogonal

EXACT = 1e-6


def run(name: str, deltas: Array, by_expert: Sequence[Array], **options: Any) -> Merged:
    method = METHODS[name]
    weights = options.pop("weights", [1.0] * len(deltas))
    context = {key: options.pop(key) for key in ("random_key", "findings") if key in options}
    tensors = [torch.tensor(delta, dtype=torch.float32) for delta in deltas]
    measured = Measured(
        by_expert=[torch.tensor(matrix, dtype=torch.float32) for matrix in by_expert],
        centres=options.pop("centres", [torch.zeros(d.shape[1]) for d in tensors]),
        norms=tuple(float(np.linalg.norm(matrix)) for matrix in by_expert),
        means=tuple(float(np.mean(matrix)) for matrix in by_expert),
    )
    parameters = checked_parameters(method, options)
    return method.merge(tensors, weights, parameters, measured=measured, **context)


def merged(name: str, deltas: Array, by_expert: Sequence[Array], **options: Any) -> Array:
    return run(name, deltas, by_expert, **options).delta.double().numpy()


def spd(seed: int, size: int = 15) -> Array:
    rows = np.random.default_rng(seed).standard_normal((3 * size, size))
    return np.asarray(rows.T @ rows / len(rows), np.float32).astype(np.float64)


@pytest.mark.parametrize("alpha", [0.0, 0.9, 1.0])
def test_regmean_of_equal_inputs_is_the_weighted_mean(alpha: float) -> None:
    deltas = experts(3)
    weights = [1.0, 2.0, 0.5]
    task_vector = merged("regmean", deltas, [spd(1)] * 3, alpha=alpha, weights=weights)
    assert relative_error(task_vector, np.average(deltas, axis=0, weights=weights)) < EXACT


@pytest.mark.parametrize("name", ["regmean", "fisher", "ubgm"])
def test_one_expert_is_itself(name: str) -> None:
    deltas = experts(1)
    by_expert = [spd(2)] if name == "regmean" else [np.abs(deltas[0]) + 0.1]
    assert relative_error(merged(name, deltas, by_expert), deltas[0]) < EXACT


def test_regmean_without_what_inputs_share_is_a_mean_input_by_input() -> None:
    deltas = experts(3)
    grams = [spd(seed) for seed in range(3)]
    shares = np.array([np.diag(gram) for gram in grams])
    expected = (deltas * shares[:, None]).sum(axis=0) / shares.sum(axis=0)
    task_vector = merged("regmean", deltas, grams, alpha=0.0, ridge=1e-12)
    assert relative_error(task_vector, expected) < EXACT


def test_regmean_turns_with_the_inputs_only_where_all_of_the_gram_matrix_counts() -> None:
    deltas = experts(3)
    grams = [spd(seed) for seed in range(3)]
    turn = orthogonal(15, 4)
    turned = [turn.T @ gram @ turn for gram in grams]
    errors = [
        relative_error(
            merged("regmean", deltas @ turn, turned, alpha=alpha),
            merged("regmean", deltas, grams, alpha=alpha) @ turn,
        )
        for alpha in (1.0, 0.5)
    ]
    assert errors[0] < 1e-6
    assert errors[1] > 1e-3


def test_regmean_keeps_each_expert_where_only_it_has_inputs() -> None:
    """Gram matrices of orthogonal subspaces: every expert is exact on its own inputs."""
    deltas = experts(3)
    grams = [np.diag([1.0 if i % 3 == t else 0.0 for i in range(15)]) for t in range(3)]
    task_vector = merged("regmean", deltas, grams, alpha=1.0, ridge=1e-9)
    for t in range(3):
        assert relative_error(task_vector[:, t::3], deltas[t][:, t::3]) < EXACT


def test_fisher_of_equal_information_is_the_weighted_mean() -> None:
    deltas = experts(3)
    weights = [1.0, 2.0, 0.5]
    task_vector = merged("fisher", deltas, [np.full((12, 15), 0.7)] * 3, weights=weights)
    assert relative_error(task_vector, np.average(deltas, axis=0, weights=weights)) < EXACT


@pytest.mark.parametrize("normalize", [False, True])
def test_fisher_does_not_depend_on_the_units_of_information(normalize: bool) -> None:
    deltas = experts(3)
    information = [np.abs(delta) for delta in experts(3, seed=5)]
    unscaled = merged("fisher", deltas, information, normalize=normalize)
    scaled = merged(
        "fisher", deltas, [1e-6 * values for values in information], normalize=normalize
    )
    assert relative_error(scaled, unscaled) < EXACT
    assert relative_error(unscaled, deltas.mean(axis=0)) > 1e-2


def test_the_limits_of_ubgm() -> None:
    deltas = experts(3)
    weights = [1.0, 2.0, 0.5]
    information = [np.abs(delta) + 0.05 for delta in experts(3, seed=5)]
    added = np.tensordot(weights, deltas, 1)
    nothing = merged("ubgm", deltas, [np.zeros((12, 15))] * 3, weights=weights)
    assert relative_error(nothing, added) < EXACT
    prior = 1e5 * float(np.mean(information))
    total = sum(w * h for w, h in zip(weights, information, strict=True)) / prior  # to first order
    bent = sum(
        w * d * (h / prior - total) for w, d, h in zip(weights, deltas, information, strict=True)
    )
    sure = merged("ubgm", deltas, information, weights=weights, prior=1e5)
    assert relative_error(sure, added + bent) < EXACT < relative_error(sure, added)
    shares = np.array([w * h for w, h in zip(weights, information, strict=True)])
    expected = (shares * deltas).sum(axis=0) / shares.sum(axis=0)
    vague = merged("ubgm", deltas, information, weights=weights, prior=1e-9)
    assert relative_error(vague, expected) < EXACT


def test_the_essential_subspace_loses_the_discarded_eigenvalues() -> None:
    """E‖ΔW x − P Pᵀ ΔW x‖² over the inputs is their sum (the supplement's Theorem 2)."""
    delta = torch.tensor(experts(1)[0])
    gram = torch.tensor(spd(3))
    change = delta @ gram @ delta.T
    every = torch.linalg.eigvalsh(change).flip(0)
    basis, values = essential_basis(delta, gram, 4)
    remainder = delta - basis @ basis.T @ delta
    lost = torch.trace(remainder @ gram @ remainder.T)
    assert float(lost) == pytest.approx(float(every[4:].sum()), rel=EXACT)
    torch.testing.assert_close(values, every[:4])


@pytest.mark.parametrize("directions", [2, 12])
def test_esm_says_where_it_has_fewer_directions_than_its_algorithm(directions: int) -> None:
    """Inputs of one expert that lie in two dimensions change its outputs along two."""
    grams = [spd(seed) for seed in range(3)]
    grams[0][directions:] = 0
    grams[0][:, directions:] = 0
    outcome = run("esm", experts(3), grams)
    said = [note for note in outcome.diagnostics.notes if "directions" in note]
    assert len(said) == (directions < 4)
    assert all(note.startswith("10 directions") and "1 of the" in note for note in said)


def test_esm_of_one_expert_has_equal_singular_values() -> None:
    deltas = experts(1)
    task_vector = merged("esm", deltas, [spd(1)], power=0.0, eigenvalue_power=0.0)
    values = np.linalg.svd(task_vector, compute_uv=False)
    assert values == pytest.approx(values[0], rel=1e-6)


def test_esm_scales_a_layer_by_the_mean_of_its_role() -> None:
    deltas = experts(3)
    grams = [spd(seed) for seed in range(3)]
    plain = merged("esm", deltas, grams)
    findings = {"query": (2.0,) * 3}
    random_key = RandomKey(tensor="w", experts=("a", "b", "c"), seed=0, role="query")
    task_vector = merged("esm", deltas, grams, random_key=random_key, findings=findings)
    beta = (np.linalg.norm(plain) / 2) ** 2
    assert relative_error(task_vector, beta * plain) < EXACT
    second_key = RandomKey(tensor="w", experts=("a", "b", "c"), seed=0, role="key")
    assert (
        relative_error(
            merged("esm", deltas, grams, random_key=second_key, findings=findings), plain
        )
        == 0
    )


@pytest.mark.parametrize("tau", [0.0, 100.0])
def test_ace_with_measured_covariances_is_its_equations_with_these(
    tau: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transcription of the paper, with tr(Σ̂) C / Tr C wherever it takes Σ̂."""
    deltas = experts(3)
    centres = [np.linspace(-0.2, 0.1 * t, 15) for t in range(3)]
    grams = [spd(seed) + np.outer(mean, mean) for seed, mean in enumerate(centres)]
    grams = [np.float64(np.float32(gram)) for gram in grams]
    centres = [np.float64(np.float32(mean)) for mean in centres]
    original = ace_oracle.proxy

    def proxy(delta: Array) -> Array:
        t = next(t for t, expert in enumerate(deltas) if np.array_equal(expert, delta))
        covariance = grams[t] - np.outer(centres[t], centres[t])
        return np.trace(original(delta)) * covariance / np.trace(covariance)

    expected_plain = ace_oracle.ace_oracle(deltas, epsilon=1e-4, tau=tau).merged
    monkeypatch.setattr(ace_oracle, "proxy", proxy)
    expected = ace_oracle.ace_oracle(deltas, epsilon=1e-4, tau=tau).merged
    reported = {"centres": [torch.tensor(mean, dtype=torch.float32) for mean in centres]}
    task_vector = merged(
        "ace", deltas, grams, variant="measured", epsilon=1e-4, tau=tau, **reported
    )
    assert relative_error(task_vector, expected) < 1e-6
    assert relative_error(task_vector, expected_plain) > 1e-2


def test_ace_with_its_own_covariances_is_ace() -> None:
    """Where the measured covariances are those that it estimates, nothing changes."""
    deltas = experts(3)
    covariances = [ace_oracle.proxy(delta) for delta in deltas]
    task_vector = merged("ace", deltas, covariances, variant="measured")
    tensors = [torch.tensor(delta, dtype=torch.float32) for delta in deltas]
    method = METHODS["ace"]
    plain = method.merge(tensors, [1.0] * 3, checked_parameters(method, {}))
    assert relative_error(task_vector, plain.delta.double().numpy()) < 1e-6
