"""Limits and departures of methods that choose entries: by sign, size, chance or score."""

import math
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from ace_gui.errors import MethodError
from ace_gui.methods import METHODS
from ace_gui.methods.della import Chances, dropped, keep_chances
from ace_gui.methods.shared.draws import uniform
from tests.helpers.live_memory import LiveMemory
from tests.helpers.method_cases import assert_close, experts, merged, random_key, run, tensor_cases

CASES = tensor_cases()


def test_ties_keeps_all_changes_where_few_entries_changed() -> None:
    sparse = np.zeros((1, 10, 10))
    sparse[0, 2, :5] = [1, -2, 3, -4, 5]
    assert_close(merged("ties", sparse), sparse[0])


def test_ties_elects_the_majority_sign_where_both_weigh_the_same() -> None:
    deltas = np.array([[1.0, -3.0, -3.0], [-1.0, -3.0, -3.0]])
    np.testing.assert_array_equal(merged("ties", deltas, density=1.0), [-1, -3, -3])
    np.testing.assert_array_equal(merged("ties", -deltas, density=1.0), [1, 3, 3])


def test_ties_with_a_negative_weight_takes_away() -> None:
    deltas = experts(1)
    task_vector = merged("ties", deltas, weights=[-1.0], density=1.0)
    assert_close(task_vector, -deltas[0])


def test_breadcrumbs_leave_out_both_ends() -> None:
    deltas = np.arange(1.0, 101.0).reshape(1, 10, 10)
    task_vector = merged("breadcrumbs", deltas, density=0.2, gamma=0.1, scaling=1.0)
    np.testing.assert_array_equal(np.sort(task_vector[task_vector != 0]), np.arange(71, 91))


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 2)])
def test_breadcrumbs_do_not_empty_small_tensors(shape: tuple[int, ...]) -> None:
    """Published elsewhere, a share of outliers below one entry removes the whole tensor."""
    deltas = np.arange(1.0, 1 + math.prod(shape)).reshape(1, *shape)
    task_vector = merged("breadcrumbs", deltas, density=1.0, gamma=0.01, scaling=1.0)
    np.testing.assert_array_equal(task_vector, deltas[0])


@pytest.mark.parametrize("method", ["breadcrumbs", "breadcrumbs_ties"])
@pytest.mark.parametrize(
    ("entries", "density", "noted"), [(99, 0.5, True), (100, 0.5, False), (99, 1.0, False)]
)
def test_the_note_about_mergekit_is_on_tensors_that_it_would_empty(
    method: str, entries: int, density: float, noted: bool
) -> None:
    chosen = METHODS[method]
    parameters = chosen.parameters(density=density, gamma=0.01)
    outcome = chosen.merge([torch.arange(1.0, entries + 1)], [1.0], parameters)
    assert bool(outcome.diagnostics.notes) is noted
    assert all("mergekit" in note for note in outcome.diagnostics.notes)


def test_consensus_of_none_is_task_arithmetic_and_of_too_many_is_nothing() -> None:
    deltas = experts(3)
    assert_close(
        merged("consensus_ta", deltas, agreeing=0), merged("task_arithmetic", deltas, scaling=0.3)
    )
    assert not merged("consensus_ta", deltas, agreeing=4).any()


def test_consensus_needs_a_change_to_rely_on() -> None:
    """Where an expert and the others are zero alike, the strict comparison masks the entry."""
    deltas = np.array([[1.0, 0.0], [0.0, 0.0]])
    task_vector = merged("consensus_ta", deltas, agreeing=1, mask_threshold=0.0, scaling=1.0)
    np.testing.assert_array_equal(task_vector, [1.0, 0.0])
    task_vector = merged("consensus_ta", deltas, agreeing=2, mask_threshold=0.0, scaling=1.0)
    np.testing.assert_array_equal(task_vector, [0.0, 0.0])


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("dare_linear", {"density": 0.3, "scaling": 1.0}), ("della", {"density": 0.4})],
)
def test_the_expected_result_of_dropping_is_the_task_vector(
    name: str, parameters: dict[str, Any]
) -> None:
    method = METHODS[name]
    delta = torch.tensor(experts(1)[0], dtype=torch.float32)
    settings = method.parameters(**parameters)
    count = 600
    total = sum(
        method.merge([delta], [1.0], settings, random_key=random_key(1, seed)).delta.double()
        for seed in range(count)
    )
    least = 0.3 if name == "dare_linear" else 0.25
    deviation = delta.abs() * math.sqrt((1 / least - 1) / count)
    assert bool(((total / count - delta).abs() <= 5 * deviation).all())


def test_masks_depend_on_nothing_but_seed_expert_and_tensor() -> None:
    here = random_key(4)
    like = torch.zeros(7, 9)
    masks = {name: uniform(here, t, like) for t, name in enumerate(here.experts)}
    turned = type(here)(tensor=here.tensor, experts=here.experts[::-1], seed=0)
    alone = type(here)(tensor=here.tensor, experts=("expert-2",), seed=0)
    for t, name in enumerate(turned.experts):
        assert torch.equal(uniform(turned, t, like), masks[name])
    torch.manual_seed(99)
    assert torch.equal(uniform(alone, 0, like.double()), masks["expert-2"])
    assert len({float(mask.sum()) for mask in masks.values()}) == 4


def test_masks_of_parts_are_parts_of_the_mask() -> None:
    here = random_key(2)
    mask = uniform(here, 1, torch.zeros(7, 9))
    flat = mask.reshape(-1)
    assert 0 <= float(flat.min()) <= float(flat.max()) < 1
    for start, stop in [(0, 0), (0, 1), (1, 2), (2, 63), (31, 62), (62, 63), (63, 63)]:
        part = uniform(replace(here, start=start), 1, torch.zeros(stop - start))
        assert torch.equal(part, flat[start:stop])
    turned = uniform(replace(here, transposed=True), 1, torch.zeros(9, 7))
    assert torch.equal(turned, mask.T)


def test_masks_are_drawn_evenly() -> None:
    drawn = uniform(random_key(1), 0, torch.zeros(100_000)).double()
    shares = torch.histc(drawn, 50, 0, 1) / len(drawn)
    assert float((shares - 0.02).abs().max()) < 5 * math.sqrt(0.02 / len(drawn))
    neighbours = torch.corrcoef(torch.stack([drawn[:-1], drawn[1:]]))[0, 1]
    assert abs(float(neighbours)) < 5 / math.sqrt(len(drawn))


def test_della_keeps_larger_entries_more_often() -> None:
    delta = torch.tensor([[0.1, -0.5, 0.3], [4.0, 2.0, -3.0]])
    chances = keep_chances(delta, 0.5, 0.2)
    torch.testing.assert_close(chances, torch.tensor([[0.3, 0.7, 0.5], [0.7, 0.3, 0.5]]))
    torch.testing.assert_close(keep_chances(delta[0], 0.5, 0.2), chances[0])
    assert float(keep_chances(torch.tensor(2.0), 0.5, 0.2)) == 0.5


@pytest.mark.parametrize(("density", "epsilon"), [(0.15, 0.15), (0.9, 0.2), (0.1, 0.3)])
def test_della_refuses_chances_that_are_none(density: float, epsilon: float) -> None:
    with pytest.raises(MethodError, match="choose a smaller epsilon"):
        run("della", experts(2), density=density, epsilon=epsilon)


def test_sce_selects_nothing_where_experts_do_not_differ() -> None:
    delta = experts(1)[0]
    outcome = run("sce", np.array([delta, delta, delta]), select_topk=0.2)
    assert not outcome.delta.any()
    assert "stays as in the base" in outcome.diagnostics.notes[0]


def test_pcb_gives_an_entry_that_one_expert_won_to_that_expert() -> None:
    first = np.zeros(6)
    second = np.zeros(6)
    first[:3] = [3.0, 1.0, 2.0]
    second[3:] = [-1.0, 2.0, 3.0]
    task_vector = merged("pcb", np.array([first, second]), density=0.34, scaling=1.0)
    np.testing.assert_allclose(task_vector, [3, 0, 2, 0, 2, 3], atol=1e-6)


@pytest.mark.parametrize("turned", [False, True])
def test_della_ranks_and_draws_take_little_beside_the_matrix(turned: bool) -> None:
    """A matrix that is stored inputs × outputs comes whole, however large it is."""
    delta = random_tensor(1024, 768)
    here = replace(random_key(1), transposed=turned)
    tracemalloc.start()  # sees what numpy takes; the other what torch does
    with LiveMemory() as memory:
        sparse = dropped(delta, Chances(density=0.5, epsilon=0.1), here, 0)
    _, by_numpy = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert by_numpy <= 6 * delta.numel()  # the numbers drawn
    assert memory.peak <= 13 * delta.numel()  # these, the matrix itself, and what is kept
    chances = keep_chances(delta, 0.5, 0.1)
    expected = torch.where(uniform(here, 0, delta) < chances, delta / chances, 0)
    assert torch.equal(sparse, expected)


def random_tensor(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    "name", ["ties", "breadcrumbs", "breadcrumbs_ties", "dare_linear", "della_linear"]
)
def test_rescaling_by_norm_keeps_the_sum_of_magnitudes(name: str) -> None:
    """Of each expert in each tensor, also where its parts are merged one after the other."""
    delta = experts(1)
    plain = merged(name, delta, density=0.4, rescale="none", scaling=1.0)
    task_vector = merged(name, delta, density=0.4, rescale="by norm", scaling=1.0)
    assert np.count_nonzero(plain) < delta.size
    assert_close(task_vector, plain * np.abs(delta).sum() / np.abs(plain).sum())
    assert np.isin(plain[plain != 0], delta[0]).all()


@pytest.mark.parametrize("name", ["dare_linear", "dare_ties", "della", "della_linear"])
def test_without_rescaling_kept_entries_are_as_they_were(name: str) -> None:
    delta = experts(1)
    task_vector = merged(name, delta, density=0.4, rescale="none", scaling=1.0)
    assert np.isin(
        task_vector[task_vector != 0].astype(np.float32), delta[0].astype(np.float32)
    ).all()
    by_chance = merged(name, delta, density=0.4, scaling=1.0)
    np.testing.assert_array_equal(task_vector == 0, by_chance == 0)


@pytest.mark.parametrize("weights", [[1.0, -0.5, 0.3], [-1.0, -1.0, 1.0], [0.5, -0.5, 0.2]])
def test_a_signed_mean_divides_by_the_weights_with_their_signs(weights: list[float]) -> None:
    """mergekit's consensus, literally: its divisor is 1 where the agreeing weights cancel."""
    deltas = experts(3)
    options = {"density": 1.0, "combine": "signed mean", "balanced": "positive"}
    task_vector = merged("ties", deltas, weights=weights, **options)
    weighted = deltas * np.reshape(weights, (-1, 1, 1))
    sign = np.where(weighted.sum(axis=0) >= 0, 1.0, -1.0)
    mask = np.sign(weighted) == sign
    divisor = (np.reshape(weights, (-1, 1, 1)) * mask).sum(axis=0)
    expected = (weighted * mask).sum(axis=0) / np.where(divisor == 0, 1, divisor)
    sure = np.abs(divisor) > 1e-6  # sums of float32 and float64 cancel in other places
    assert_close(np.where(sure, task_vector, 0), np.where(sure, expected, 0))
    assert sure.any()
