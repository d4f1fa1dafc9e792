"""Whole-model statistics through the engine: from files, in parts, resumed."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from ace_gui.engine.contract.events import PassProgress
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.merging.readers import Readers
from ace_gui.engine.merging.store import SURVEY
from ace_gui.engine.merging.surveying import groups, surveyed
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import NonFiniteError
from ace_gui.recipe import Override, Recipe
from ace_gui.recipe.values import NonFinite
from tests.helpers import method_oracles as oracle
from tests.helpers.merges import merged_tensors, stopped_merge
from tests.helpers.recipes import recipe_over

SHAPES = {
    "blocks.0.up.weight": (40, 16),
    "blocks.0.up.bias": (40,),
    "blocks.1.up.weight": (40, 16),
    "blocks.1.up.bias": (40,),
}
SCALES = (0.3, 2.0, 0.01, 1.0)


@pytest.fixture
def models(tmp_path) -> list[Path]:
    """A base and three experts that changed the tensors to very different degrees."""
    generator = torch.Generator().manual_seed(0)
    base = {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
    paths = []
    for index in range(4):
        tensors = {
            name: tensor + scale * bool(index) * torch.randn(tensor.shape, generator=generator)
            for (name, tensor), scale in zip(base.items(), SCALES, strict=True)
        }
        paths.append(tmp_path / f"model{index}.safetensors")
        save_file(tensors, paths[-1])
    return paths


def recipe_of(models: list[Path], method: str = "ties", **options: object) -> Recipe:
    return recipe_over(models[0], models[1:], merge_method=method, **options)


def changes(models: list[Path]) -> np.ndarray:
    """T × all entries of the model, in the plan's order."""
    base, *experts = (load_file(path) for path in models)
    return np.array(
        [
            np.concatenate([(tensors[name] - base[name]).numpy().ravel() for name in SHAPES])
            for tensors in experts
        ]
    ).astype(np.float64)


def merged(recipe: Recipe, store: Path, **options: object) -> np.ndarray:
    """The change of all entries of the model, in the plan's order."""
    base = load_file(recipe.base_model)
    tensors = merged_tensors(prepare(recipe), store, **options)
    flat = [(tensors[name].double() - base[name].double()).numpy().ravel() for name in SHAPES]
    return np.concatenate(flat)


@pytest.mark.parametrize("method", ["ties", "localize_stitch", "pcb"])
def test_methods_see_the_whole_model(method: str, models: list[Path], tmp_path):
    expected = {
        "ties": lambda d: oracle.ties(d, 0.2),
        "localize_stitch": lambda d: oracle.localize_stitch(d, 0.05),
        "pcb": lambda d: 1.2 * oracle.pcb(d, 0.05),
    }[method](changes(models))
    delta = merged(recipe_of(models, method), tmp_path / "store")
    assert oracle.relative_error(delta, expected) < 1e-5


def test_a_merge_reports_how_far_the_survey_is(models: list[Path], tmp_path):
    events = list(merge(prepare(recipe_of(models)), tmp_path / "store", device="cpu"))
    passes = [event for event in events if isinstance(event, PassProgress)]
    assert [event.done for event in passes] == [1, 2, 3, 4] * 2  # two passes over four tensors
    assert not any(
        isinstance(event, PassProgress)
        for event in merge(prepare(recipe_of(models, "linear")), tmp_path / "mean", device="cpu")
    )


@pytest.mark.parametrize("damage", ["none", "gone", "half", "foreign", "other"])
def test_resuming_merges_with_the_same_survey(damage: str, models: list[Path], tmp_path):
    recipe = recipe_of(models)
    store = tmp_path / "store"
    uninterrupted = merged(recipe, tmp_path / "whole")
    stopped_merge(prepare(recipe), store, device="cpu")
    survey_file = store / SURVEY
    assert survey_file.exists()
    if damage == "gone":
        survey_file.unlink()
    elif damage == "half":
        survey_file.write_text(survey_file.read_text()[:30])
    elif damage == "foreign":
        survey_file.write_text("[1, 2]")
    elif damage == "other":
        content = survey_file.read_text()
        digits = re.search(r"0\.\d(\d)", content)
        index = digits.start(1)
        survey_file.write_text(f"{content[:index]}{9 - int(content[index])}{content[index + 1 :]}")
    np.testing.assert_array_equal(merged(recipe, store, resume=True), uninterrupted)


def test_resuming_does_not_look_again(models: list[Path], tmp_path):
    recipe = recipe_of(models)
    store = tmp_path / "store"
    stopped_merge(prepare(recipe), store, device="cpu")
    events = merge(prepare(recipe), store, device="cpu", resume=True)
    assert not any(isinstance(event, PassProgress) for event in events)


def test_what_is_merged_otherwise_does_not_count(models: list[Path], tmp_path):
    rule = Override(pattern="*.0.*", merge_method="linear")
    recipe = recipe_of(models, overrides=(rule,))
    delta = merged(recipe, tmp_path / "store")
    deltas = changes(models)
    first = 40 * 16 + 40
    assert oracle.relative_error(delta[:first], deltas[:, :first].mean(axis=0)) < 1e-5
    assert oracle.relative_error(delta[first:], oracle.ties(deltas[:, first:], 0.2)) < 1e-5


def test_other_parameters_are_another_survey(models: list[Path]):
    rule = Override(pattern="*.0.*", parameters={"density": 0.5})
    prepared = prepare(recipe_of(models, overrides=(rule,)))
    assert [len(group.rows) for group in groups(prepared)] == [2, 2]
    assert len(groups(prepare(recipe_of(models)))) == 1
    assert groups(prepare(recipe_of(models, parameters={"trim": "tensor"}))) == []


def test_one_row_asks_for_its_own_survey_only(models: list[Path]):
    rule = Override(pattern="*.0.*", parameters={"density": 0.5})
    prepared = prepare(recipe_of(models, overrides=(rule,)))
    row = prepared.plan.rows[0]
    list(surveyed(Readers(prepared), only=row))
    assert len(prepared.groundwork.findings) == 1
    assert prepared.findings_of(row) is not None
    assert prepared.findings_of(prepared.plan.rows[-1]) is None


def with_nan(models: list[Path]) -> None:
    tensors = load_file(models[2])
    tensors["blocks.1.up.bias"][3] = torch.nan
    save_file(tensors, models[2])


def test_an_expert_with_nan_is_left_out_of_that_tensor_alone(models: list[Path], tmp_path):
    with_nan(models)
    recipe = recipe_of(models, non_finite=NonFinite.SKIP_EXPERT)
    delta = merged(recipe, tmp_path / "store")
    deltas = changes(models)
    bias = SHAPES["blocks.1.up.bias"][0]
    trimmed = np.array([oracle.largest(delta, 0.2) for delta in (deltas[0], deltas[2])])
    without = np.append(oracle.largest(deltas[1, :-bias], 0.2), np.zeros(bias))
    expected = oracle.elect(np.insert(trimmed, 1, without, axis=0))
    assert oracle.relative_error(delta, expected) < 1e-5


def test_a_survey_stops_at_nan_where_the_recipe_says_so(models: list[Path], tmp_path):
    with_nan(models)
    with pytest.raises(NonFiniteError) as caught:
        merged(recipe_of(models), tmp_path / "store")
    assert caught.value.tensor == "blocks.1.up.bias"
