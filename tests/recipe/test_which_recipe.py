"""Whose a file is: mergekit's, or this application's own; and what saving makes of that."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ace_gui.errors import RecipeError
from ace_gui.recipe import Recipe
from ace_gui.recipe.mergekit.schema import READ_AS_MERGEKIT
from ace_gui.recipe.recipe_file import dump_recipe, load_recipe

WEIGHTED = [{"model": name, "parameters": {"weight": 1.0}} for name in ("a", "b")]
SHARED = {"merge_method": "task_arithmetic", "base_model": "base", "models": WEIGHTED}


def read(folder: Path, document: dict[str, Any]) -> Recipe:
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return load_recipe(path)


def test_words_that_both_know_mean_what_mergekit_means(tmp_path: Path) -> None:
    recipe = read(tmp_path, SHARED)
    assert recipe.parameters["scaling"] == 1.0
    assert recipe.notes == (READ_AS_MERGEKIT,)


@pytest.mark.parametrize(
    ("method", "parameters", "expected"),
    [
        ("ties", {}, {"density": 1.0, "trim": "tensor", "scaling": 1.0, "combine": "mean"}),
        ("ties", {"density": 0.5}, {"density": 0.5, "trim": "tensor"}),
        ("dare_ties", {"density": 0.5}, {"combine": "sum", "scaling": 1.0}),
        ("breadcrumbs", {}, {"density": 1.0, "gamma": 0.01, "scaling": 1.0}),
        ("della", {"density": 0.5}, {"epsilon": 0.15, "combine": "mean"}),
    ],
)
def test_what_is_left_out_is_mergekits_default(
    tmp_path: Path, method: str, parameters: dict[str, Any], expected: dict[str, Any]
) -> None:
    recipe = read(tmp_path, SHARED | {"merge_method": method, "parameters": parameters})
    assert recipe.parameters.items() >= expected.items()


OURS: dict[str, dict[str, Any]] = {
    "schema": {"schema": 1},
    "a method of our own": {"merge_method": "ace"},
    "a scope": {"scope": "default"},
    "a seed": {"seed": 3},
    "a parameter of our own": {"parameters": {"scaling": 0.3}},
    "a named expert": {"models": [{"model": "a", "name": "first"}]},
    "overrides": {"overrides": [{"blocks": "0", "disposition": "base"}]},
}


@pytest.mark.parametrize("said", OURS.values(), ids=OURS)
def test_what_only_we_say_makes_a_file_ours(tmp_path: Path, said: dict[str, Any]) -> None:
    recipe = read(tmp_path, SHARED | said)
    assert recipe.notes == ()
    assert recipe.parameters == said.get("parameters", {})


def test_a_file_without_a_method_is_ours(tmp_path: Path) -> None:
    recipe = read(tmp_path, {"base_model": "base", "models": WEIGHTED})
    assert (recipe.merge_method, recipe.notes) == ("ace", ())


@pytest.mark.parametrize("schema", [2, 0, "1", True, 1.0, "x", [1]])
def test_another_schema_is_refused(tmp_path: Path, schema: object) -> None:
    with pytest.raises(RecipeError, match="'schema'"):
        read(tmp_path, SHARED | {"schema": schema})


def test_an_empty_heading_says_nothing(tmp_path: Path) -> None:
    entries = [{"model": "a", "parameters": None}]
    assert read(tmp_path, SHARED | {"parameters": None, "models": entries}).weights == (1.0,)


@settings(deadline=None, max_examples=40, derandomize=True)
@given(
    method=st.sampled_from(["ace", "linear", "task_arithmetic", "ties", "slerp", "karcher"]),
    parameters=st.sampled_from([{}, {"density": 0.5}, {"weight": 1.0}]),
)
def test_what_we_save_is_ours_for_ever(
    tmp_path_factory: pytest.TempPathFactory, method: str, parameters: dict[str, float]
) -> None:
    folder = tmp_path_factory.mktemp("saved")
    recipe = Recipe(
        base_model=folder / "base",
        models=read(folder, SHARED).models,
        merge_method=method,
        parameters=parameters,
    )
    text = dump_recipe(recipe, folder)
    (folder / "saved.yaml").write_text(text)
    assert load_recipe(folder / "saved.yaml") == recipe
