"""Symmetries of the methods beside ACE, and what they make of one expert."""

from typing import Any

import numpy as np
import pytest

from ace_gui.methods import METHODS
from tests.helpers import method_oracles as oracle
from tests.helpers.method_cases import assert_close, experts, merged, orthogonal

BY_SIZE = {"nearswap", "arcee_fusion", "base_slerp"}
"""What these do depends on how large changes are beside a distance, or the base."""


@pytest.mark.parametrize("factor", [0.25, 8.0])
@pytest.mark.parametrize("name", sorted(set(METHODS) - {"ace", "wudi"} - BY_SIZE))
def test_larger_changes_give_a_larger_result_in_proportion(name: str, factor: float) -> None:
    deltas = experts(2)
    assert_close(merged(name, factor * deltas), factor * merged(name, deltas))


def test_wudi_scales_in_its_closed_form_but_not_by_adam() -> None:
    deltas = experts(3)
    closed = merged("wudi", deltas, solution="closed")
    assert_close(merged("wudi", 8 * deltas, solution="closed"), 8 * closed)
    by_adam = merged("wudi", deltas, learning_rate=1e-3)
    scaled = merged("wudi", 8 * deltas, learning_rate=1e-3)
    assert oracle.relative_error(scaled, 8 * by_adam) > 1e-2


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("tsv_m", {}),
        ("iso_c", {}),
        ("iso_cts", {}),
        ("cart", {"rank_share": 0.3}),
        ("star", {}),
        ("wudi", {"solution": "closed"}),
    ],
)
def test_rotating_inputs_and_outputs_rotates_the_result(
    name: str, parameters: dict[str, Any]
) -> None:
    deltas = experts(3)
    left_rotation = orthogonal(12, 1)
    right = orthogonal(15, 2)
    expected = left_rotation @ merged(name, deltas, **parameters) @ right
    assert_close(merged(name, left_rotation @ deltas @ right, **parameters), expected, 1e-4)


@pytest.mark.parametrize("name", ["ties", "breadcrumbs", "consensus_ta", "nan", "sce", "pcb"])
def test_entries_may_be_stored_in_any_order(name: str) -> None:
    deltas = experts(4).reshape(4, -1)
    order = np.random.default_rng(1).permutation(deltas.shape[1])
    assert_close(merged(name, deltas[:, order]), merged(name, deltas)[order], 1e-6)


@pytest.mark.parametrize(
    "name", ["tsv_m", "iso_c", "star", "cart", "nan", "breadcrumbs", "fr_merging"]
)
def test_which_side_is_stored_first_does_not_matter(name: str) -> None:
    deltas = experts(3)
    assert_close(merged(name, deltas.transpose(0, 2, 1)), merged(name, deltas).T)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("task_arithmetic", {}),
        ("dare_linear", {}),
        ("ties", {"combine": "sum"}),
        ("breadcrumbs", {}),
        ("consensus_ta", {}),
        ("tsv_m", {}),
        ("iso_c", {}),
        ("iso_cts", {}),
        ("wudi", {}),
        ("sce", {}),
        ("fr_merging", {}),
    ],
)
def test_weights_multiply_the_task_vectors(name: str, parameters: dict[str, Any]) -> None:
    deltas = experts(3)
    weights = [0.5, 2.0, 0.25]
    multiplied = deltas * np.array(weights)[:, None, None]
    task_vector = merged(name, deltas, weights=weights, **parameters)
    assert_close(task_vector, merged(name, multiplied, **parameters))


@pytest.mark.parametrize(
    "name",
    ["linear", "ties", "dare_ties", "della", "star", "model_stock", "karcher", "multislerp"],
)
def test_means_ignore_a_common_factor_of_the_weights(name: str) -> None:
    deltas = experts(3)
    halves = merged(name, deltas, weights=[0.5, 1.0, 1.5])
    assert_close(halves, merged(name, deltas, weights=[1.0, 2.0, 3.0]), 1e-6)


@pytest.mark.parametrize("name", ["nan", "pcb"])
def test_scores_come_from_the_unweighted_experts(name: str) -> None:
    """Then the result is linear in the weights."""
    deltas = experts(3)
    weights = [0.5, 2.0, 0.25]
    apart = merged(name, deltas) + merged(name, deltas, weights=weights)
    assert_close(merged(name, deltas, weights=[1 + weight for weight in weights]), apart, 1e-6)


@pytest.mark.parametrize(
    ("name", "parameters", "factor"),
    [
        ("linear", {}, 1.0),
        ("task_arithmetic", {"scaling": 1.0}, 1.0),
        ("ties", {"density": 1.0}, 1.0),
        ("dare_linear", {"density": 1.0, "scaling": 1.0}, 1.0),
        ("dare_ties", {"density": 1.0}, 1.0),
        ("della", {"density": 1.0, "epsilon": 0.0}, 1.0),
        ("breadcrumbs", {"density": 1.0, "gamma": 0.0, "scaling": 1.0}, 1.0),
        ("consensus_ta", {"agreeing": 1, "scaling": 1.0}, 1.0),
        ("nan", {}, 0.5),
        ("tsv_m", {}, 1.0),
        ("cart", {}, 1.0),
        ("star", {"eta": 100.0}, 1.0),
        ("wudi", {}, 1.0),
        ("wudi", {"solution": "closed"}, 1.0),
        ("model_stock", {}, 1.0),
        ("karcher", {}, 1.0),
        ("multislerp", {}, 1.0),
        ("sce", {}, 1.0),
        ("fr_merging", {"cutoff": 0.0}, 1.0),
    ],
)
def test_one_expert_alone(name: str, parameters: dict[str, Any], factor: float) -> None:
    deltas = experts(1)
    assert_close(merged(name, deltas, **parameters), factor * deltas[0], 1e-6)


@pytest.mark.parametrize("name", ["iso_c", "iso_cts", "pcb", "star", "ties", "breadcrumbs"])
def test_some_methods_change_even_one_expert(name: str) -> None:
    deltas = experts(1)
    assert oracle.relative_error(merged(name, deltas), deltas[0]) > 1e-2
