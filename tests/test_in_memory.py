"""Merges of tensors in memory: what is left out is said, and bad input is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import ace_gui
from ace_gui.errors import CheckpointError, RecipeError, WorkbenchError

ONES = torch.ones(4, 4)
GOOD = {"w": ONES}
UNPACKED = {
    "sparse": ONES.to_sparse(),
    "without values": torch.empty(4, 4, device="meta"),
    "not yet made": torch.nn.parameter.UninitializedParameter(),
    "in bits": torch.zeros(4, 4, dtype=torch.bits8),
    "a number": 3,
    "an array": np.ones((4, 4)),
    "a dictionary": {"w": ONES},
}


@pytest.mark.parametrize("value", UNPACKED.values(), ids=UNPACKED.keys())
@pytest.mark.parametrize("place", ["base", "expert"])
def test_values_that_no_file_holds_are_named(value: Any, place: str) -> None:
    bad = {"layer": value}
    base, experts = (bad, [GOOD]) if place == "base" else ({"layer": ONES}, [GOOD, bad])
    with pytest.raises(CheckpointError) as caught:
        ace_gui.merge_state_dicts(base, experts, method="linear")
    assert "`layer` of " + ("the base" if place == "base" else "expert-2") in caught.value.sentence


@pytest.mark.parametrize("name", [1, None, b"w", "\udc80", "__metadata__"])
def test_names_that_no_file_holds_are_refused(name: Any) -> None:
    with pytest.raises(CheckpointError, match="name"):
        ace_gui.merge_state_dicts({name: ONES}, [GOOD])


@pytest.mark.parametrize("base", [None, [1], "w", torch.nn.Linear(2, 2), {}])
def test_a_base_that_is_no_state_dict(base: Any) -> None:
    with pytest.raises(CheckpointError, match="the base"):
        ace_gui.merge_state_dicts(base, [GOOD])


@pytest.mark.parametrize("experts", [None, 3, "ab", ONES, [], {1: GOOD}, {"the base": GOOD}])
def test_experts_that_are_no_list_of_state_dicts(experts: Any) -> None:
    with pytest.raises(RecipeError):
        ace_gui.merge_state_dicts(GOOD, experts)


@pytest.mark.parametrize("expert", [None, 3, "w", ONES, {}])
def test_an_expert_that_is_no_state_dict(expert: Any) -> None:
    with pytest.raises(CheckpointError, match="expert-2"):
        ace_gui.merge_state_dicts(GOOD, [GOOD, expert])


@pytest.mark.parametrize(
    "experts",
    [
        [{"w": ONES.to(torch.float8_e4m3fn)}],
        [{"w": torch.ones(4, 5)}],
        [{"w": torch.full((4, 4), torch.nan)}],
        [{"other": ONES}],
        [{"w": ONES.to(torch.int8)}],
    ],
)
def test_an_error_names_no_temporary_file(experts: Any) -> None:
    with pytest.raises(WorkbenchError) as caught:
        ace_gui.merge_state_dicts(GOOD, experts)
    assert "ace-in-memory" not in caught.value.sentence
    assert "expert-1" in caught.value.sentence


HEADED = (
    "bert.encoder.layer.0.output.dense.weight",
    "bert.pooler.dense.weight",
    "classifier.weight",
)


def headed(seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(4, 4, generator=generator) for name in HEADED}


def test_kept_heads_and_poolers_are_said() -> None:
    base = headed(0)
    experts = [headed(1), headed(2)]
    with pytest.warns(UserWarning, match="Taken from the base unchanged") as caught:
        merged = ace_gui.merge_state_dicts(base, experts, method="recommended")
    assert all(name in str(caught[0].message) for name in HEADED[1:])
    assert [torch.equal(merged[name], base[name]) for name in HEADED] == [False, True, True]
    merged = ace_gui.merge_state_dicts(base, experts, method="linear", heads="merge")
    for name in HEADED:
        assert torch.allclose(merged[name], (experts[0][name] + experts[1][name]) / 2, atol=1e-6)
