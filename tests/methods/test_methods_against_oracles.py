"""Every method but ACE against the literal transcription of its formula."""

import numpy as np
import pytest
import torch

from ace_gui.errors import MethodError
from ace_gui.linalg import products
from ace_gui.methods import METHODS
from ace_gui.methods.method import Kind
from tests.helpers import method_oracles as oracle
from tests.helpers.method_cases import merged
from tests.helpers.method_checks import CASES, CHECKS, LARGEST_ERROR, Check, errors


@pytest.fixture(params=["torch", "numpy"], autouse=True)
def _products_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By both libraries, whichever this processor prefers."""
    monkeypatch.setattr(products, "uses_numpy", lambda: request.param == "numpy")
    if request.param == "numpy":
        monkeypatch.setattr(torch, "get_num_threads", lambda: 1)


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_a_method_is_its_formula(check: Check) -> None:
    by_case = errors(check)
    assert len(by_case) == len(check.cases) > 0
    for name, error in by_case.items():
        assert error <= LARGEST_ERROR, name


def test_every_method_has_an_oracle() -> None:
    assert {check.method for check in CHECKS} == set(METHODS) - {"ace"}


def test_methods_for_any_tensor_are_tried_on_any_tensor() -> None:
    needs_two = {"slerp", "nuslerp"}  # of which some cases have but one
    for name in {check.method for check in CHECKS} - needs_two:
        if METHODS[name].kind is not Kind.MATRIX:
            tried = {case for check in CHECKS if check.method == name for case in check.cases}
            assert {"scalar", "vector", "convolution"} <= tried, name


@pytest.mark.parametrize("combine", ["mean", "sum"])
def test_ties_counts_weights_in_election_and_mean(combine: str) -> None:
    deltas = CASES["square"]
    weights = np.array([0.3, 2.0, 1.0, 0.1, 0.7])
    task_vector = merged("ties", deltas, weights=weights.tolist(), combine=combine)
    assert (
        oracle.relative_error(task_vector, oracle.ties(deltas, 0.2, combine, weights))
        < LARGEST_ERROR
    )


def test_karcher_counts_weights() -> None:
    deltas = CASES["wide"]
    weights = np.array([0.5, 2.0, 1.2])
    task_vector = merged("karcher", deltas, weights=weights.tolist())
    expected = oracle.karcher(deltas, weights, 10)
    assert oracle.relative_error(task_vector, expected) < LARGEST_ERROR


def test_nuslerp_takes_its_position_from_the_weights_and_can_go_row_by_row() -> None:
    first, second = CASES["wide"][:2]
    task_vector = merged("nuslerp", np.array([first, second]), weights=[3.0, 1.0], row_wise=True)
    rows = [oracle.slerp(a, b, 0.25, 1 - 1e-15) for a, b in zip(first, second, strict=True)]
    assert oracle.relative_error(task_vector, np.array(rows)) < LARGEST_ERROR


def test_a_float64_task_vector_keeps_its_digits() -> None:
    """A difference far below float32's resolution decides about the sign."""
    tiny = 1e-12
    deltas = [torch.tensor([1.0 + tiny], dtype=torch.float64), torch.tensor([-1.0]).double()]
    method = METHODS["ties"]
    outcome = method.merge(deltas, [1.0, 1.0], method.parameters(density=1.0))
    assert float(outcome.delta) == 1.0


@pytest.mark.parametrize("weights", [[0.3, 2.0, 1.0, 0.1, 0.7], [1.0, -0.5, 0.0, 2.0, 0.1]])
def test_sums_and_means_count_weights(weights: list[float]) -> None:
    for deltas in CASES.values():
        used = (4 * weights)[: len(deltas)]
        total = np.tensordot(used, deltas, 1)
        task_vector = merged("task_arithmetic", deltas, weights=used, scaling=0.7)
        assert oracle.relative_error(task_vector, 0.7 * total) < LARGEST_ERROR
        mean = merged("linear", deltas, weights=used)
        assert oracle.relative_error(mean, total / sum(used)) < LARGEST_ERROR


def test_one_expert_comes_back_to_the_last_bit() -> None:
    delta = CASES["wide"][:1].astype(np.float32)
    for name, parameters in (("linear", {}), ("task_arithmetic", {"scaling": 1.0})):
        assert np.array_equal(merged(name, delta, **parameters), delta[0])


def test_weights_without_a_mean_and_sums_beyond_float32_are_refused() -> None:
    with pytest.raises(MethodError, match="sum to zero"):
        merged("linear", CASES["wide"][:2], weights=[1.0, -1.0])
    with pytest.raises(MethodError, match="range of float32"):
        merged("task_arithmetic", np.full((2, 3, 3), 3e38), scaling=1.0)
