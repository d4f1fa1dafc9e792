"""Limits and departures of methods on singular values, frequencies and subspaces."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from ace_gui.methods import METHODS
from ace_gui.methods.knots import common_basis
from ace_gui.methods.shared.tolerance import Tolerance
from tests.benchmarks.experts import task_vector
from tests.helpers import method_oracles as oracle
from tests.helpers.ace_cases import decaying_deltas, low_rank_deltas, random_deltas
from tests.helpers.method_cases import Array, assert_close, experts, merged, norm, orthogonal, run


def test_tsv_m_adds_experts_that_share_no_direction() -> None:
    left_vectors = orthogonal(12, 3)
    right = orthogonal(15, 4)
    deltas = np.array(
        [
            left_vectors[:, 4 * t : 4 * t + 4] * [4, 3, 2, 1] @ right[:, 4 * t : 4 * t + 4].T
            for t in range(3)
        ]
    )
    assert_close(merged("tsv_m", deltas), deltas.sum(axis=0))


@pytest.mark.parametrize("T", [2, 3])
def test_tsv_m_of_identical_experts_is_the_truncated_expert(T: int) -> None:
    delta = experts(1)[0]
    vector = merged("tsv_m", np.repeat(delta[None], T, axis=0))
    expected = oracle.truncate(delta, 12 // T)
    # Equal columns: the polar factors halve among them what one of them would carry.
    assert_close(vector, expected)


def test_tsv_m_leaves_out_directions_that_low_rank_experts_do_not_have() -> None:
    deltas = low_rank_deltas(2, 20, 20, 2, 1.0, 5)
    assert np.linalg.matrix_rank(merged("tsv_m", deltas), tol=1e-4) == 4


def test_tsv_m_says_where_experts_outnumber_directions() -> None:
    outcome = run("tsv_m", experts(4, 3, 9))
    assert "overlap" in outcome.diagnostics.notes[0]
    assert not run("tsv_m", experts(3, 3, 9)).diagnostics.notes


def sixteen_bit(matrices: Sequence[torch.Tensor], scale: float = 1.0) -> tuple[Any, Any]:
    """TSV-M of matrices that were rounded to 16 bits, beside the same in float64."""
    deltas = [scale * matrix.float() for matrix in matrices]
    rounding = 0.05 * float(max(delta.norm() for delta in deltas))
    tolerance = Tolerance(rounding=rounding, source="a test")
    parameters = METHODS["tsv_m"].parameters()
    weights = [1.0] * len(deltas)
    outcome = METHODS["tsv_m"].merge(deltas, weights, parameters, tolerance=tolerance)
    return outcome, METHODS["tsv_m"].merge(deltas, weights, parameters)


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e18])
@pytest.mark.parametrize("shape", [(90, 150), (150, 90), (96, 96)], ids=str)
def test_tsv_m_of_16_bit_experts_is_in_float32_and_as_exact_as_it_says(
    shape: tuple[int, int], scale: float
) -> None:
    generator = torch.Generator().manual_seed(sum(shape))
    changes = [task_vector(*shape, size, generator) for size in (1.0, 0.6, 0.3)]
    outcome, exact = sixteen_bit(changes, scale)
    assert outcome.diagnostics.precision.startswith("Computed in float32")
    stated = float(outcome.diagnostics.precision.split()[5])
    apart = (outcome.delta.double() - exact.delta.double()).norm() / exact.delta.double().norm()
    assert float(apart) <= 1.1 * stated
    assert stated < 0.01


@pytest.mark.parametrize("T", [2, 3])
@pytest.mark.parametrize("common", [0.3, 0.7])
@pytest.mark.parametrize("shape", [(120, 120), (90, 200), (200, 90)], ids=str)
def test_tsv_m_of_16_bit_experts_with_much_in_common_is_as_exact_as_it_says(
    shape: tuple[int, int], common: float, T: int
) -> None:
    """Their vectors depend on each other nearly: inverse roots alone would lose all digits."""
    shared = torch.from_numpy(decaying_deltas(1, *shape, 20.0, common, 7)[0])
    differences = torch.from_numpy(decaying_deltas(T, *shape, 10.0, 1.0, 8))
    outcome, exact = sixteen_bit([shared + delta for delta in differences])
    words = outcome.diagnostics.precision.split()
    apart = (outcome.delta.double() - exact.delta.double()).norm() / exact.delta.double().norm()
    stated = float(words[5]) if "float32" in outcome.diagnostics.precision else 0.0
    assert float(apart) <= 1.1 * stated + 1e-5
    assert stated or shape[0] == shape[1], "of matrices that are not square float32 knows all"


def test_tsv_m_is_in_float64_where_float32_cannot_tell_directions_apart() -> None:
    """Of low rank, dependent on each other, or with equal values on either side of the cut."""
    generator = torch.Generator().manual_seed(3)
    low_rank = torch.from_numpy(low_rank_deltas(3, 60, 80, 4, 1.0, 5))
    alone = task_vector(60, 80, 1.0, generator)
    left_vectors = torch.from_numpy(orthogonal(60, 6))
    tied = [left_vectors * torch.full((60,), size, dtype=torch.float64) for size in (1.0, 0.7, 0.4)]
    for matrices in (list(low_rank), [alone, alone, 0.5 * alone], tied):
        outcome, exact = sixteen_bit(matrices)
        assert outcome.diagnostics.precision.startswith("Computed in float64")
        assert torch.equal(outcome.delta, exact.delta)


def test_iso_c_keeps_the_nuclear_norm_and_evens_out_the_spectrum() -> None:
    for deltas in (experts(3), low_rank_deltas(2, 12, 15, 3, 1.0, 6)):
        vector = merged("iso_c", deltas)
        total = deltas.sum(axis=0)
        assert norm(vector, "nuc") == pytest.approx(norm(total, "nuc"), rel=1e-5)
        values = np.linalg.svd(vector, compute_uv=False)
        rank = np.linalg.matrix_rank(total)
        np.testing.assert_allclose(values[:rank], values[0], rtol=1e-5)
        assert np.all(values[rank:] < 1e-5 * values[0])


def test_iso_c_reads_an_expert_once_and_one_without_a_change_leaves_no_trace() -> None:
    deltas = low_rank_deltas(4, 12, 15, 2, 1.0, 6)
    deltas[2] = 2e-6 * experts(1, 12, 15)[0] / norm(experts(1, 12, 15)[0]) * norm(deltas[0])
    tensors = [torch.from_numpy(delta) for delta in deltas]
    reads = Counter[int]()

    class CountedTensors(Sequence[torch.Tensor]):
        def __len__(self) -> int:
            return len(tensors)

        def __getitem__(self, t: int) -> torch.Tensor:  # type: ignore[override]
            reads[t] += 1
            return tensors[t]

    outcome = METHODS["iso_c"].merge(
        CountedTensors(), [1.0, 0.5, 2.0, -1.0], METHODS["iso_c"].parameters()
    )
    assert reads == {0: 1, 1: 1, 2: 2, 3: 1}
    assert outcome.diagnostics.left_out == (2,)
    weighted_deltas = np.array([deltas[0], 0.5 * deltas[1], -deltas[3]])
    assert_close(outcome.delta.double().numpy(), oracle.iso_c(weighted_deltas))


def test_iso_cts_without_room_for_experts_is_iso_c() -> None:
    for deltas, common in ((experts(3), 1.0), (experts(7), 0.8)):
        assert_close(merged("iso_cts", deltas, common=common), merged("iso_c", deltas))


@pytest.mark.parametrize("parameters", [{"rank_share": 1.0}, {"rank_share": 0.0}, {"scaling": 0.0}])
def test_cart_at_either_end_is_the_mean(parameters: dict[str, float]) -> None:
    deltas = experts(3)
    options = {"scaling": 2.3} | parameters
    assert_close(merged("cart", deltas, **options), deltas.mean(axis=0))


def test_cart_does_not_depend_on_the_base() -> None:
    deltas = experts(3)
    shift = random_deltas(1, 12, 15, 1.0, 7)[0]
    expected = merged("cart", deltas, rank_share=0.3) + shift
    assert_close(merged("cart", deltas + shift, rank_share=0.3), expected)


@pytest.mark.parametrize("eta", [5.0, 40.0, 95.0, 99.9])
def test_star_of_any_spectrum_is_that_of_a_full_decomposition(eta: float) -> None:
    """By the Gram matrix where that shows every singular value, else by the matrix itself."""
    flat = experts(1, 30, 20)
    equal = orthogonal(20, 3)[None]
    for deltas in (
        flat,
        flat.transpose(0, 2, 1),
        equal,
        decaying_deltas(1, 20, 30, 1e2, 1.0, 8),
        decaying_deltas(1, 20, 30, 1e7, 1.0, 8),
        low_rank_deltas(1, 40, 30, 3, 1.0, 9),
    ):
        rounded = deltas.astype(np.float32).astype(np.float64)
        vector = merged("star", rounded, eta=eta)
        expected = oracle.star(rounded, eta)
        assert norm(vector, "nuc") == pytest.approx(norm(rounded[0], "nuc"), rel=1e-5)
        if deltas is not equal:  # there, which directions are taken is arbitrary
            assert_close(vector, expected)


def test_frequencies_from_none_to_all() -> None:
    deltas = experts(3)
    equal = merged("fr_merging", deltas, cutoff=0.0, coefficients="equal")
    assert_close(equal, deltas.sum(axis=0))
    flat = np.ones((2, 8, 8))
    assert np.abs(merged("fr_merging", flat, cutoff=0.01)).max() < 1e-12
    checkered = np.indices((8, 8)).sum(axis=0) % 2 - 0.5
    vector = merged("fr_merging", checkered[None], cutoff=1.0)
    assert_close(vector, checkered)


def loss(matrix: Array, deltas: Array) -> float:
    return float(oracle.wudi_loss(torch.from_numpy(matrix), torch.from_numpy(deltas)))


def test_wudi_starts_at_the_sum_and_lowers_its_loss() -> None:
    deltas = experts(3)
    start = merged("wudi", deltas, steps=0)
    assert_close(start, deltas.sum(axis=0), 1e-6)
    few, many = (merged("wudi", deltas, steps=n, learning_rate=1e-4) for n in (30, 300))
    least = loss(merged("wudi", deltas, solution="closed"), deltas)
    assert least < loss(many, deltas) < loss(few, deltas) < loss(start, deltas)


def test_the_closed_form_of_wudi_is_a_minimum_of_least_norm() -> None:
    for deltas in (experts(3, 5, 20), low_rank_deltas(2, 12, 30, 2, 1.0, 9)):
        vector = merged("wudi", deltas, solution="closed")
        nudge = random_deltas(1, *vector.shape, 1e-2 * norm(vector), 10)[0]
        assert loss(vector, deltas) <= loss(vector + nudge, deltas)
        stacked = np.concatenate(list(deltas))
        unseen = np.linalg.svd(stacked)[2][np.linalg.matrix_rank(stacked) :]
        assert len(unseen) > 0
        assert np.abs(vector @ unseen.T).max() < 1e-6


def test_knots_with_a_linear_merger_is_task_arithmetic() -> None:
    """The coordinates in the common basis hold the task vectors whole."""
    for deltas in (experts(3), low_rank_deltas(3, 20, 26, 2, 1.0, 11)):
        tensors = [torch.from_numpy(delta.copy()) for delta in deltas]
        basis = common_basis(lambda t, tensors=tensors: tensors[t], range(3))
        np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-12)
        for delta in tensors:
            assert_close((basis @ (basis.T @ delta)).numpy(), delta.numpy())


def test_knots_needs_as_many_directions_as_the_experts_have_together() -> None:
    deltas = low_rank_deltas(3, 20, 26, 2, 1.0, 11)
    basis = common_basis(lambda t: torch.from_numpy(deltas[t].copy()), range(3))
    assert basis.shape == (20, 6)


@pytest.mark.parametrize("name", ["knots_ties", "knots_dare_ties"])
def test_knots_keeping_everything_of_one_expert_is_that_expert(name: str) -> None:
    deltas = low_rank_deltas(1, 20, 26, 3, 1.0, 12)
    assert_close(merged(name, deltas, density=1.0, scaling=1.0), deltas[0])


def test_knots_does_not_depend_on_a_rotation_of_the_outputs() -> None:
    """Which TIES on the entries does."""
    deltas = low_rank_deltas(3, 20, 26, 2, 1.0, 13)
    turn = orthogonal(20, 14)
    assert_close(merged("knots_ties", turn @ deltas), turn @ merged("knots_ties", deltas), 1e-4)
    apart = merged("ties", turn @ deltas) - turn @ merged("ties", deltas)
    assert norm(apart) > 0.1 * norm(merged("ties", deltas))
