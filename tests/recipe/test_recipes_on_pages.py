"""The recipes on the help pages are read as they stand there."""

import re

import pytest
import yaml

from ace_gui.paths import resource_path
from ace_gui.recipe.mixture_file import mixture_from
from ace_gui.recipe.recipe_file import load_recipe

BLOCK = re.compile(r"```yaml\n(.*?)```", re.DOTALL)


def whole_recipes(page: str) -> list[str]:
    """The YAML of a page that names a base; others are only a few keys."""
    blocks = BLOCK.findall(resource_path(f"help/{page}.md").read_text(encoding="utf-8"))
    return [block for block in blocks if "base_model" in list(yaml.safe_load_all(block))[-1]]


@pytest.mark.parametrize(("page", "count"), [("recipes", 2), ("slices", 1)])
def test_they_are_read(page: str, count: int, tmp_path):
    recipes = whole_recipes(page)
    assert len(recipes) == count
    for text in recipes:
        file = tmp_path / "recipe.yaml"
        file.write_text(text, encoding="utf-8")
        recipe = load_recipe(file)
        assert len(recipe.models) == 2
        assert not recipe.notes


def test_the_mixtures_are_read(tmp_path):
    methods = []
    for text in whole_recipes("mixtures"):
        file = tmp_path / "recipe.yaml"
        file.write_text(text, encoding="utf-8")
        mixture = mixture_from(file)
        assert mixture is not None
        assert [expert.name for expert in mixture.experts] == ["coder", "writer"]
        assert not mixture.notes
        methods.append(mixture.attention and mixture.attention.merge_method)
    assert methods == [None, "ties"]
