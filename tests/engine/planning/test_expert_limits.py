"""Methods that merge two experts say so before a tensor is read."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from ace_gui.engine.contract.plan import Disposition
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import RecipeError
from ace_gui.methods import METHODS
from ace_gui.recipe import Override, Recipe
from tests.helpers.recipes import recipe_over

LIMITED = ["slerp", "nuslerp"]


@pytest.fixture
def models(tmp_path) -> list[Path]:
    paths = []
    for index in range(4):
        paths.append(tmp_path / f"model{index}.safetensors")
        tensors = {"a.weight": torch.full((4, 6), float(index)), "a.bias": torch.ones(4) * index}
        if index == 3:
            del tensors["a.bias"]
        save_file(tensors, paths[-1])
    return paths


def recipe_of(models: list[Path], method: str, **options: object) -> Recipe:
    return recipe_over(models[0], models[1:], merge_method=method, **options)


LEARNED = (
    "adamerging",
    "adarank",
    "concrete",
    "samerging",
    "expert_merging",
    "prodistill",
    "localize_stitch_few_shot",
)


def test_the_limits_are_declared():
    limits = {
        name: (m.least, m.most) for name, m in METHODS.items() if (m.least, m.most) != (1, None)
    }
    alone = dict.fromkeys(["nearswap", "arcee_fusion", "base_slerp"], (1, 1))
    with_data = dict.fromkeys(["regmean", "fisher", "ubgm", "esm", *LEARNED], (2, None))
    routed = dict.fromkeys(["smile", "twin_merging", "free_merging", "wemoe"], (2, None))
    assert limits == dict.fromkeys(LIMITED, (2, 2)) | alone | with_data | routed


@pytest.mark.parametrize("method", LIMITED)
def test_too_many_are_refused_in_the_plan(method: str, models: list[Path]):
    with pytest.raises(RecipeError, match="merges 2 experts, but there are 3") as caught:
        prepare(recipe_of(models, method))
    assert caught.value.key == "models"


@pytest.mark.parametrize("method", LIMITED)
def test_too_few_are_told_in_the_plan_and_not_merged(method: str, models: list[Path], tmp_path):
    prepared = prepare(recipe_of(models[:2], method))
    assert any(
        "merges 2 experts, but there is only 1" in reported for reported in prepared.plan.warnings
    )
    assert "linear layer" not in " ".join(prepared.plan.warnings), "a reason that is another"
    with pytest.raises(RecipeError, match="add more, or choose another method"):
        next(merge(prepared, tmp_path / "store", device="cpu"))
    assert not (tmp_path / "store").exists()
    alone = prepare(recipe_of(models[:1], method)).plan.warnings
    assert not any("merges 2 experts" in reported for reported in alone)


def test_a_tensor_that_only_one_of_two_has_is_averaged(models: list[Path]):
    rows = {row.name: row for row in prepare(recipe_of(models[1:], "slerp")).plan.rows}
    assert rows["a.weight"].disposition is Disposition.MERGED
    assert rows["a.bias"].disposition is Disposition.AVERAGED
    assert "cannot merge 1 of 2 experts" in rows["a.bias"].reason


def test_an_override_by_a_method_for_two_averages_three(models: list[Path]):
    rule = Override(pattern="a.weight", merge_method="slerp")
    rows = {
        row.name: row for row in prepare(recipe_of(models, "linear", overrides=(rule,))).plan.rows
    }
    assert rows["a.weight"].disposition is Disposition.AVERAGED
