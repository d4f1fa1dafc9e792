"""Where ACE departs from the published procedure, what it warns of and what it refuses."""

import weakref
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from ace_gui.errors import MethodError
from ace_gui.methods.ace import AceParameters, ace
from ace_gui.methods.ace.parameters import family_defaults
from ace_gui.methods.shared.experts import Merged
from tests.helpers.ace_cases import low_rank_deltas, random_deltas, spread

HETEROGENEOUS = 0.0


def tensors(deltas: np.ndarray) -> list[torch.Tensor]:
    return [torch.from_numpy(delta).float() for delta in deltas]


def merge(deltas: Sequence[torch.Tensor], **parameters: float) -> Merged:
    return ace(deltas, [1.0] * len(deltas), AceParameters(**parameters), keep_preliminary=True)


def says(merged: Merged, words: str) -> bool:
    return any(words in note for note in (*merged.diagnostics.notes, *merged.diagnostics.warnings))


@pytest.mark.parametrize("tau", [0.0, 100.0])
@pytest.mark.parametrize("tiny", [0.0, 1e-8])
def test_an_expert_without_a_change_is_left_out(tau: float, tiny: float) -> None:
    deltas = tensors(random_deltas(4, 12, 10, spread(4, 10), 0))
    still = tiny * torch.ones(12, 10) / 11
    with_still = merge([deltas[0], still, *deltas[1:]], tau=tau)
    without = merge(deltas, tau=tau)
    assert torch.equal(with_still.delta, without.delta)
    assert with_still.diagnostics.left_out == (1,)
    assert with_still.diagnostics.gamma == without.diagnostics.gamma
    assert len(with_still.diagnostics.energies) == 5
    assert says(with_still, "1 of 5 experts do not change this tensor")
    assert not without.diagnostics.notes


def test_a_weight_of_zero_leaves_an_expert_out() -> None:
    deltas = tensors(random_deltas(3, 8, 6, 0.1, 1))
    outcome = ace(deltas, [1.0, 0.0, 1.0], AceParameters())
    assert outcome.diagnostics.left_out == (1,)
    assert torch.equal(outcome.delta, merge([deltas[0], deltas[2]]).delta)


def test_one_expert_is_returned_as_it_is() -> None:
    delta = tensors(random_deltas(1, 8, 6, 0.1, 2))[0]
    for deltas in ([delta], [torch.zeros(8, 6), delta, torch.zeros(8, 6)]):
        outcome = merge(deltas, scaling=0.5)
        torch.testing.assert_close(outcome.delta, 0.5 * delta, rtol=0, atol=0)
        assert outcome.diagnostics.gamma is None
        assert outcome.diagnostics.heterogeneous is None
        assert says(outcome, "Only one expert changes this tensor")


@pytest.mark.parametrize("shape", [(8, 6), (1, 1), (0, 4), (3, 0)])
def test_no_change_anywhere_gives_zero(shape: tuple[int, int]) -> None:
    outcome = merge([torch.zeros(shape)] * 3)
    assert torch.equal(outcome.delta, torch.zeros(shape))
    assert outcome.diagnostics.left_out == (0, 1, 2)
    assert says(outcome, "No expert changes this tensor")


@pytest.mark.parametrize(("shape", "k"), [((3, 40), 0), ((4, 40), 1), ((40, 3), 0), ((10, 10), 3)])
def test_the_number_of_refined_directions_is_rounded_down(shape: tuple[int, int], k: int) -> None:
    deltas = tensors(random_deltas(4, *shape, spread(4, 10), 3))
    outcome = merge(deltas, tau=HETEROGENEOUS, k_frac=0.3)
    assert outcome.preliminary is not None
    step = outcome.delta - outcome.preliminary
    assert int(torch.linalg.matrix_rank(step, rtol=1e-3)) == k
    assert says(outcome, "No refinement") == (k == 0)


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (2, 2)])
@pytest.mark.parametrize("T", [2, 20])
@pytest.mark.parametrize("k_frac", [0.3, 1.0])
def test_the_smallest_matrices_merge(shape: tuple[int, int], T: int, k_frac: float) -> None:
    outcome = merge(tensors(random_deltas(T, *shape, spread(T, 30), 4)), tau=0.0, k_frac=k_frac)
    assert outcome.delta.shape == shape
    assert bool(torch.isfinite(outcome.delta).all())


def test_undefined_directions_are_not_refined() -> None:
    deltas = [torch.from_numpy(d) for d in low_rank_deltas(3, 30, 40, 2, spread(3, 10), 5)]
    outcome = merge(deltas, tau=HETEROGENEOUS, k_frac=0.5)
    assert says(outcome, "has only 6 directions above rounding")
    assert outcome.preliminary is not None
    assert int(torch.linalg.matrix_rank(outcome.delta - outcome.preliminary, rtol=1e-4)) == 6


def test_refining_what_float32_rounding_left_is_said() -> None:
    deltas = tensors(low_rank_deltas(3, 30, 40, 2, spread(3, 10), 5))
    assert says(merge(deltas, tau=HETEROGENEOUS, k_frac=0.5), "rounding noise is amplified")


def test_a_ridge_that_outweighs_the_experts_is_said_and_turns_the_refinement() -> None:
    deltas = tensors(random_deltas(8, 32, 32, spread(8, 4, 0.2), 6))
    total = sum(deltas)
    steps = {}
    for epsilon in (1e-5, 1e-2):
        outcome = merge(deltas, tau=HETEROGENEOUS, epsilon=epsilon)
        assert outcome.preliminary is not None
        assert outcome.diagnostics.ridge_mass is not None
        steps[epsilon] = float(((outcome.delta - outcome.preliminary) * total).sum())
        assert says(outcome, "ridge mass") == (outcome.diagnostics.ridge_mass > 0.5)
        assert says(outcome, "points against") == (steps[epsilon] < 0)
    assert steps[1e-5] > 0 > steps[1e-2]


def test_a_threshold_passed_only_by_unit_norms_is_said() -> None:
    deltas = random_deltas(3, 12, 10, np.array([1.0, 1.03, 0.96]), 7)
    near = merge(tensors(deltas))
    far = merge(tensors(deltas / 30))
    assert near.diagnostics.heterogeneous
    assert says(near, "norms near 1")
    assert not far.diagnostics.heterogeneous
    apart = merge(tensors(random_deltas(3, 12, 10, spread(3, 100), 7)))
    assert apart.diagnostics.heterogeneous
    assert not says(apart, "norms near 1")


def test_a_system_that_strains_double_precision_is_said() -> None:
    deltas = tensors(random_deltas(2, 4, 20, 1e4, 8))
    assert says(merge(deltas, epsilon=1e-4), "condition number")
    assert not says(merge(deltas, epsilon=1.0), "condition number")


def test_a_numerically_singular_system_is_solved_in_its_range_and_said() -> None:
    deltas = tensors(low_rank_deltas(2, 6, 20, 1, 1e6, 9))
    outcome = merge(deltas, epsilon=1e-14, tau=100.0)
    assert says(outcome, "numerically singular")
    assert float(outcome.delta.norm()) < 3e6


def test_a_result_beyond_float32_is_refused() -> None:
    deltas = [torch.full((1, 1), 3e38)]
    with pytest.raises(MethodError, match="leaves the range of float32"):
        merge(deltas, scaling=10.0)


class FromDisk(Sequence[torch.Tensor]):
    """Task vectors made again at each read; fails where an earlier one is still held."""

    def __init__(self, deltas: list[torch.Tensor]) -> None:
        self.deltas = deltas
        self.reads: Counter[int] = Counter()
        self.alive: weakref.ReferenceType[torch.Tensor] | None = None

    def __len__(self) -> int:
        return len(self.deltas)

    def __getitem__(self, t):
        assert self.alive is None or self.alive() is None, "an earlier task vector is still held"
        self.reads[t] += 1
        tensor = self.deltas[t].clone()
        self.alive = weakref.ref(tensor)
        return tensor


@pytest.mark.parametrize("tau", [0.0, 100.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_experts_are_read_twice_at_most_and_one_at_a_time(tau: float, dtype: torch.dtype) -> None:
    deltas = [delta.to(dtype) for delta in tensors(random_deltas(6, 8, 12, spread(6, 10), 11))]
    lazy = FromDisk([*deltas, torch.zeros(8, 12, dtype=dtype)])
    outcome = merge(lazy, tau=tau)
    assert dict(lazy.reads) == {**dict.fromkeys(range(6), 2), 6: 1}
    assert torch.equal(outcome.delta, merge(deltas, tau=tau).delta)


@pytest.mark.parametrize("count", [0, 1])
def test_few_experts_are_read_twice_at_most(count: int) -> None:
    lazy = FromDisk([torch.ones(3, 4) * (t < count) for t in range(3)])
    merge(lazy)
    assert max(lazy.reads.values()) <= 2


def test_epsilon_of_a_family() -> None:
    for config, epsilon in (
        ({"model_type": "gpt2", "hidden_size": 768}, 4e-2),
        ({"model_type": "roberta", "hidden_size": 768}, 2e-4),
        ({"model_type": "roberta", "hidden_size": 1024}, 1e-5),
        ({"model_type": "llama", "hidden_size": 4096}, 1e-5),
        ({}, AceParameters().epsilon),
    ):
        value, note = family_defaults(config)["epsilon"]
        assert value == epsilon
        assert "paper" in note
