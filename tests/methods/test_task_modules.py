"""What EMR, TALL masks and TSV-Compress leave for each expert."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ace_gui.errors import RecipeError
from ace_gui.methods import METHODS, checked_parameters
from ace_gui.methods.shared.expert_modules import Factors, Masks, packed, unpacked
from ace_gui.methods.shared.experts import Experts
from tests.helpers import method_oracles as oracle
from tests.helpers.ace_cases import low_rank_deltas
from tests.helpers.method_cases import Array, experts, merged, tensor_cases

CASES = tensor_cases()


def as_float32(deltas: Array) -> list[torch.Tensor]:
    return [torch.tensor(delta).float() for delta in deltas]


def remade(name: str, tensors: list[Array], **parameters: Any) -> list[list[Array]]:
    """Per expert, scale_t · mask_t ⊙ (W − W₀) of every tensor, as a merged folder holds them."""
    method = METHODS[name]
    assert isinstance(method.modules, Masks)
    given_ = checked_parameters(method, parameters)
    T = len(tensors[0])
    sums = np.zeros((T, 2))
    masks = []
    for deltas in tensors:
        task_masks = method.modules.masks_of(
            Experts(as_float32(deltas), [1.0] * T), given_, deltas[0].size
        )
        masks.append(list(task_masks))
        sums += [[mask.expert_sum, mask.merged_sum] for mask in masks[-1]]
    merged_vectors = [merged(name, deltas, **parameters) for deltas in tensors]
    scales = [method.modules.scale(given_, *map(float, pair)) for pair in sums]
    return [
        [
            scales[t] * np.where(mask[t].chosen, w, 0)
            for mask, w in zip(masks, merged_vectors, strict=True)
        ]
        for t in range(T)
    ]


@given(st.lists(st.booleans(), max_size=40))
@settings(deadline=None, max_examples=50, derandomize=True)
def test_packing_is_lossless_and_takes_a_bit_an_entry(mask: list[bool]) -> None:
    bits = packed(torch.tensor(mask, dtype=torch.bool))
    assert bits.dtype == torch.uint8
    assert len(bits) == (len(mask) + 7) // 8
    assert unpacked(bits, len(mask)).tolist() == mask


def test_the_first_entry_is_the_lowest_bit() -> None:
    assert packed(torch.tensor([True, False, False, True])).tolist() == [0b1001]


@pytest.mark.parametrize("rescaling", ["tensors", "entries", "least squares"])
def test_emr_remakes_experts_by_its_formula(rescaling: str) -> None:
    tensors = [CASES["square"], CASES["square"][:, :5] * 3]
    remade_experts = remade("emr", tensors, rescaling=rescaling)
    for t in range(5):
        for task_vector, expected in zip(
            remade_experts[t], oracle.emr_expert(tensors, t, rescaling), strict=True
        ):
            assert oracle.relative_error(task_vector, expected) < 1e-6


def test_emr_by_least_squares_is_nearest_to_the_expert() -> None:
    deltas = experts(4)
    errors = {
        rescaling: np.linalg.norm(remade("emr", [deltas], rescaling=rescaling)[1][0] - deltas[1])
        for rescaling in ("tensors", "least squares")
    }
    assert errors["least squares"] < errors["tensors"]


def test_emr_of_one_expert_is_that_expert() -> None:
    deltas = experts(1)
    assert oracle.relative_error(merged("emr", deltas), deltas[0]) < 1e-6
    assert oracle.relative_error(remade("emr", [deltas])[0][0], deltas[0]) < 1e-6


def test_emr_never_gives_an_expert_the_other_sign_nor_less_than_its_own() -> None:
    deltas = CASES["many"]
    method = METHODS["emr"]
    assert isinstance(method.modules, Masks)
    masks = method.modules.masks_of(
        Experts(as_float32(deltas), [1.0] * 20), method.parameters(), deltas[0].size
    )
    vector = merged("emr", deltas)
    for delta, mask in zip(deltas, masks, strict=True):
        chosen = mask.chosen.numpy()
        assert np.all(np.sign(vector[chosen]) == np.sign(delta[chosen]))
        assert np.all(np.abs(vector[chosen]) >= np.abs(delta[chosen]) * (1 - 1e-6))


@pytest.mark.parametrize("scaling", [0.3, 1.0, 10.0])
def test_tall_masks_remake_experts_whatever_the_scaling(scaling: float) -> None:
    deltas = CASES["wide"]
    remade_experts = remade("tall_masks", [deltas], mask_threshold=0.7, scaling=scaling)
    for t in range(3):
        expected = np.where(oracle.tall_mask(deltas, t, 0.7), deltas.sum(axis=0), 0)
        assert oracle.relative_error(remade_experts[t][0], expected) < 1e-6


def test_tall_masks_at_threshold_0_keep_whatever_an_expert_changed() -> None:
    deltas = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, -1.0]])
    remade_experts = remade("tall_masks", [deltas], mask_threshold=0.0, scaling=1.0)
    np.testing.assert_allclose(remade_experts[0][0], [1, 0, 1])
    np.testing.assert_allclose(remade_experts[1][0], [0, 0, 1])


def test_tall_masks_refuse_to_scale_everything_away() -> None:
    with pytest.raises(RecipeError, match="greater than 0"):
        checked_parameters(METHODS["tall_masks"], {"scaling": 0.0})


@pytest.mark.parametrize("T", [1, 2, 5])
def test_tsv_compress_leaves_each_expert_its_leading_triplets(T: int) -> None:
    deltas = experts(T)
    factors = METHODS["tsv_c"].modules
    assert isinstance(factors, Factors)
    assert factors.rank(12, 15, T) == 12 // T
    for triplets, delta in zip(
        factors.triplets_of(Experts(as_float32(deltas), [1.0] * T)), deltas, strict=True
    ):
        expected = oracle.truncate(delta, 12 // T)
        assert oracle.relative_error(triplets.product.numpy(), expected) < 1e-6


def test_tsv_compress_of_low_rank_experts_is_exact() -> None:
    deltas = low_rank_deltas(3, 20, 26, 2, 1.0, 4)
    factors = METHODS["tsv_c"].modules
    assert isinstance(factors, Factors)
    for triplets, delta in zip(
        factors.triplets_of(Experts(as_float32(deltas), [1.0] * 3)), deltas, strict=True
    ):
        assert triplets.s_K.shape == (2,)
        assert oracle.relative_error(triplets.product.numpy(), delta) < 1e-6
