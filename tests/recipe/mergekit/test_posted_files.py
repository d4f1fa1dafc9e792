"""Files as people post them on model cards: keys of their own, one model, searches."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from ace_gui.errors import RecipeError
from ace_gui.recipe import Recipe
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.mergekit_files import PAIR, make_models, over_base


def read(folder: Path, document: dict[str, Any]) -> Recipe:
    file = folder / "file.yaml"
    file.write_text(yaml.safe_dump(document))
    return load_recipe(file)


@pytest.mark.parametrize("key", ["name", "description", "license", "author", "align_weights"])
def test_a_key_of_a_model_card_is_ignored_as_by_mergekit(tmp_path, key: str):
    file = {**over_base("task_arithmetic", PAIR), key: "mine"}
    recipe = read(tmp_path, file)
    assert recipe == read(tmp_path, over_base("task_arithmetic", PAIR))
    assert any(key in note and "ignores it" in note for note in recipe.notes)


@pytest.mark.parametrize("key", ["paramters", "base_modle", "dtypes", "slice", "merge_methods"])
def test_a_key_with_a_typing_error_is_not_ignored(tmp_path, key: str):
    with pytest.raises(RecipeError, match="did you mean"):
        read(tmp_path, {**over_base("task_arithmetic", PAIR), key: "mine"})


def test_a_file_of_evolution_says_what_it_is(tmp_path):
    genome = {"models": ["a", "b"], "merge_method": "dare_ties", "base_model": "base"}
    with pytest.raises(RecipeError, match="mergekit-evolve"):
        read(tmp_path, {"genome": genome, "tasks": [{"name": "x", "weight": 1.0}]})


@pytest.mark.parametrize("method", ["task_arithmetic", "ties", "dare_linear", "model_stock"])
@pytest.mark.parametrize("base", ["base", "base+adapter"])
def test_a_merge_of_the_base_alone_is_the_base(tmp_path, method: str, base: str):
    source = {"model": base, "layer_range": [0, 3], "parameters": {"weight": 1.0}}
    make_models(tmp_path)
    file = {"merge_method": method, "base_model": base, "slices": [{"sources": [source]}]}
    recipe = read(tmp_path, file)
    assert recipe.base_model == tmp_path / "base"
    assert (recipe.adapter is None) == (base == "base")
    assert any("result is the base" in note for note in recipe.notes)
