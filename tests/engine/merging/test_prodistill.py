"""ProDistill in the engine: interruptions, limits, and what is left at the start."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ace_gui.engine.contract.events import LearningProgress
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.requirements import learning_bytes
from ace_gui.engine.workflow import Options, merge_to_folder
from ace_gui.errors import MismatchError
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.aligned_merges import different, merged, recipe_with
from tests.helpers.calibrated_models import bert_family, gpt2_family, mixture_family

CPU = Options(device="cpu")
FEW = {"epochs": 3, "batch": 8}


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bert_family(tmp_path_factory.mktemp("bert"))


@pytest.mark.parametrize("make", [bert_family, gpt2_family])
def test_entries_of_blocks_are_learned_and_others_stay(make: object, tmp_path: Path) -> None:
    assert callable(make)
    file = make(tmp_path)
    start, _ = merged(file, tmp_path / "start", merge_method="prodistill", parameters={"epochs": 0})
    plain, _ = merged(file, tmp_path / "plain", parameters={"scaling": 0.3})
    for name, tensor in plain.items():
        torch.testing.assert_close(start[name], tensor, rtol=1e-6, atol=1e-6)
    tensors, _ = merged(file, tmp_path / "out", merge_method="prodistill", parameters=FEW)
    changed = different(start, tensors)
    assert changed
    assert all(".0." in name or ".1." in name for name in changed)


@pytest.mark.parametrize("block", [1, 2])
def test_an_interrupted_run_gives_the_same_bytes(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr("ace_gui.engine.adapting.training._CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("ace_gui.engine.adapting.training._REPORT_SECONDS", 0.0)
    keys = {"merge_method": "prodistill", "parameters": FEW}
    with monkeypatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path / "other-cache"))
        expected, _ = merged(bert, tmp_path / "whole", **keys)
    events = merge_to_folder(load_recipe(recipe_with(bert, **keys)), tmp_path / "out", CPU)
    for event in events:
        if not isinstance(event, LearningProgress) or event.done != 2:
            continue
        if f"block {block} of 2" in event.title:
            events.close()
            break
    tensors, _ = merged(bert, tmp_path / "out", **keys)
    assert not different(expected, tensors)


def test_a_mixture_stored_as_stacks_is_refused(tmp_path: Path) -> None:
    file = mixture_family(tmp_path)
    with pytest.raises(MismatchError, match="block cannot be trained alone"):
        merged(file, tmp_path / "out", merge_method="prodistill", parameters=FEW)
    assert not (tmp_path / "out").exists()


def test_its_numbers_are_those_of_the_largest_block(bert: Path) -> None:
    learned = prepare(load_recipe(recipe_with(bert, merge_method="prodistill")))
    few = prepare(load_recipe(recipe_with(bert, merge_method="samerging")))
    rows = [row for row in learned.plan.rows if row.is_merged]
    traits = learned.base.architecture.traits
    sizes: dict[int, int] = {}
    for row in rows:
        block = traits[row.tensor].block
        if block is not None:
            sizes[block] = sizes.get(block, 0) + 2 * torch.Size(row.shape).numel()
    most = 4 * 6 * max(sizes.values())
    assert 0 < learning_bytes(learned) - learning_bytes(few) <= most
