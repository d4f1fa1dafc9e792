"""Masks drawn at random are the same whatever the files, the order of work, or an interruption."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from ace_gui.engine.planning.prepare import prepare
from ace_gui.recipe import Recipe
from tests.helpers.checkpoints import same_bits
from tests.helpers.merges import merged_tensors, stopped_merge
from tests.helpers.recipes import recipe_over

SEEDED = ["dare_linear", "dare_ties", "della", "knots_dare_ties"]
SHAPES = {
    "layers.0.q.weight": (24, 16),
    "layers.0.q.bias": (24,),
    "layers.1.q.weight": (24, 16),
    "layers.1.q.bias": (24,),
}


def save(folder: Path, tensors: dict[str, torch.Tensor], files: int) -> Path:
    """A model folder whose tensors lie in so many files, the last ones first."""
    folder.mkdir(parents=True)
    if files == 1:
        save_file(tensors, folder / "model.safetensors")
        return folder
    shards = {
        name: f"model-{files - index % files:05d}-of-{files:05d}.safetensors"
        for index, name in enumerate(tensors)
    }
    for file in set(shards.values()):
        shard = {name: tensors[name] for name, position in shards.items() if position == file}
        save_file(shard, folder / file)
    index = {"metadata": {}, "weight_map": shards}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def recipe_of(folder: Path, method: str, files: int = 1, **options: object) -> Recipe:
    generator = torch.Generator().manual_seed(0)
    paths = []
    for index in range(4):
        tensors = {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
        paths.append(save(folder / f"model{index}", tensors, files))
    return recipe_over(paths[0], paths[1:], merge_method=method, **options)


def merged(recipe: Recipe, store: Path, **options: object) -> dict[str, torch.Tensor]:
    return merged_tensors(prepare(recipe), store, device="cpu", **options)


def assert_same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> None:
    assert first.keys() == second.keys() == SHAPES.keys()
    assert all(same_bits(first[name], second[name]) for name in SHAPES)


@pytest.mark.parametrize("method", SEEDED)
def test_sharding_changes_no_bit(method: str, tmp_path):
    first = merged(recipe_of(tmp_path / "one", method), tmp_path / "first")
    several = merged(recipe_of(tmp_path / "several", method, files=3), tmp_path / "second")
    assert_same(first, several)
    reseeded = merged(recipe_of(tmp_path / "other", method, seed=1), tmp_path / "third")
    name = "layers.0.q.weight"
    assert not same_bits(first[name], reseeded[name])


@pytest.mark.parametrize("method", SEEDED)
def test_resuming_changes_no_bit(method: str, tmp_path):
    recipe = recipe_of(tmp_path / "models", method)
    uninterrupted = merged(recipe, tmp_path / "whole")
    stopped_merge(prepare(recipe), tmp_path / "stopped", device="cpu")
    assert_same(merged(recipe, tmp_path / "stopped", resume=True), uninterrupted)
