"""Whose a file is: mergekit's, or this application's own; and what saving makes of that."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ace_gui.errors import RecipeError
from ace_gui.recipe import Recipe
from ace_gui.recipe.file_schema import known_keys
from ace_gui.recipe.mergekit.recognising import KEYS_OF_BOTH
from ace_gui.recipe.mergekit.schema import Document
from ace_gui.recipe.recipe_file import dump_recipe, load_recipe

WEIGHTED = [{"model": name, "parameters": {"weight": 1.0}} for name in ("a", "b")]
SHARED = {"merge_method": "task_arithmetic", "base_model": "base", "models": WEIGHTED}


def read(folder: Path, document: dict[str, Any]) -> Recipe:
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return load_recipe(path)


def test_words_that_both_know_mean_what_mergekit_means(tmp_path):
    recipe = read(tmp_path, SHARED)
    assert recipe.parameters["scaling"] == 1.0
    assert recipe.from_mergekit
    assert "lambda 1" in recipe.defaults_note


@pytest.mark.parametrize(
    ("said", "defaults"),
    [
        ({}, "lambda 1"),
        ({"models": [{"model": "a"}]}, "weight 1, lambda 1"),
        ({"merge_method": "ties"}, "density 1"),
        ({"merge_method": "della"}, "density 1, epsilon 0.15"),
        ({"merge_method": "slerp", "models": [{"model": "a"}]}, "t 0.5"),
        ({"chat_template": "auto"}, "lambda 1"),
    ],
)
def test_the_note_about_a_file_without_schema_names_the_defaults(
    tmp_path, said: dict[str, Any], defaults: str
):
    recipe = read(tmp_path, SHARED | said)
    assert set(defaults.split(", ")) <= set(
        recipe.defaults_note.split("(")[1].split(")")[0].split(", ")
    )
    assert not any("schema" in note for note in recipe.notes)


@pytest.mark.parametrize(
    "said",
    [
        {"dtype": "float32"},
        {"tokenizer_source": "base"},
        {"tokenizer": {"source": "base"}},
        {"parameters": {"lambda": 0.5}},
        {"parameters": {"weight": [0, 1]}},
        {"models": [{"model": "a", "parameters": {"density": 0.5}}], "merge_method": "ties"},
        {"models": [{"model": "base"}, {"model": "a"}]},
        {"merge_method": "linear"},  # which means the same in both
    ],
)
def test_no_note_where_a_file_can_only_be_mergekits(tmp_path, said: dict[str, Any]):
    recipe = read(tmp_path, SHARED | said)
    assert recipe.from_mergekit
    assert recipe.defaults_note == ""


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
    tmp_path, method: str, parameters: dict[str, Any], expected: dict[str, Any]
):
    recipe = read(tmp_path, SHARED | {"merge_method": method, "parameters": parameters})
    assert recipe.parameters.items() >= expected.items()
    assert not any("keep no entry" in note for note in recipe.notes)


PLAIN_MODELS = [{"model": "a"}, {"model": "b"}]


@pytest.mark.parametrize("template", ["base", "a", "./own.jinja"])
def test_a_chat_template_that_mergekit_does_not_know_makes_a_file_ours(tmp_path, template: str):
    recipe = read(tmp_path, SHARED | {"models": PLAIN_MODELS, "chat_template": template})
    assert not recipe.from_mergekit
    assert recipe.chat_template == template


def test_a_file_of_mergekit_with_a_wrong_chat_template_is_told_the_right_ones(tmp_path):
    with pytest.raises(RecipeError, match="must be auto, chatml"):
        read(tmp_path, SHARED | {"chat_template": "chatmll", "dtype": "float32"})


OUR_KEYS: dict[str, dict[str, Any]] = {
    "schema": {"schema": 1},
    "vocabulary": {"vocabulary": "tokens"},
    "seed": {"seed": 3},
    "overrides": {"overrides": [{"blocks": "0", "disposition": "base"}]},
    "models[0].name": {"models": [{"model": "a", "name": "first", "parameters": {"weight": 1.0}}]},
}
THEIR_KEYS: dict[str, dict[str, Any]] = {
    "dtype": {"dtype": "float32"},
    "tokenizer_source": {"tokenizer_source": "union"},
    "parameters.lambda": {"parameters": {"lambda": 0.5}},
    "parameters.density": {"merge_method": "ties", "parameters": {"density": [0.1, 0.9]}},
    "models[1].parameters.density": {
        "merge_method": "ties",
        "models": [{"model": "a"}, {"model": "b", "parameters": {"density": 0.5}}],
    },
    "merge_method: ties": {"merge_method": "ties"},
    "merge_method: task_arithmetic": {},
}


@pytest.mark.parametrize("ours", OUR_KEYS)
@pytest.mark.parametrize("theirs", THEIR_KEYS)
def test_a_file_with_keys_of_both_languages_names_both(tmp_path, ours: str, theirs: str):
    said = SHARED | THEIR_KEYS[theirs] | OUR_KEYS[ours]
    if ours.startswith("models"):
        entries = THEIR_KEYS[theirs].get("models", WEIGHTED)
        said["models"] = [entries[0] | {"name": "first"}, *entries[1:]]
    if ours != "vocabulary" and theirs.startswith("merge_method"):
        assert not read(tmp_path, said).from_mergekit
        return
    with pytest.raises(RecipeError) as caught:
        read(tmp_path, said)
    assert f"'{ours}'" in caught.value.sentence
    assert f"'{theirs}'" in caught.value.sentence


OURS: dict[str, dict[str, Any]] = {
    "schema": {"schema": 1},
    "a method of our own": {"merge_method": "ace"},
    "a scope": {"merge_method": "linear", "scope": "default"},
    "a seed": {"parameters": {"scaling": 0.3}, "seed": 3},
    "a parameter of our own": {"parameters": {"scaling": 0.3}},
    "our method, with a parameter of both": {
        "merge_method": "ace",
        "parameters": {"alpha": 0.1},
    },
    "our parameter, with a chat template": {
        "parameters": {"scaling": 0.3},
        "chat_template": "auto",
    },
    "our method, with a chat template": {"merge_method": "ace", "chat_template": "auto"},
    "our method, with slices": {"merge_method": "ace", "slices": [{"sources": [{"model": "a"}]}]},
    "a source's blocks": {
        "merge_method": "linear",
        "slices": [{"sources": [{"model": "a", "layers": [0, 2]}]}],
    },
    "slices of listed models": {
        "merge_method": "linear",
        "slices": [{"sources": [{"model": "base"}, {"model": "a"}]}],
    },
    "a slice's overrides": {
        "merge_method": "linear",
        "slices": [
            {
                "sources": [{"model": "base"}, {"model": "a"}],
                "overrides": [{"blocks": "0", "weights": {"a": 0.5}}],
            }
        ],
    },
    "a named expert": {"merge_method": "karcher", "models": [{"model": "a", "name": "first"}]},
    "overrides": {"merge_method": "sce", "overrides": [{"blocks": "0", "disposition": "base"}]},
}


@pytest.mark.parametrize("said", OURS.values(), ids=OURS)
def test_what_only_we_say_makes_a_file_ours(tmp_path, said: dict[str, Any]):
    recipe = read(tmp_path, SHARED | said)
    assert not recipe.from_mergekit
    assert recipe.parameters == said.get("parameters", {})


@pytest.mark.parametrize("choice", [{}, {"chat_template": "auto"}])
def test_a_file_without_a_method_is_ours(tmp_path, choice: dict[str, str]):
    recipe = read(tmp_path, {"base_model": "base", "models": WEIGHTED} | choice)
    assert (recipe.merge_method, recipe.from_mergekit) == ("ace", False)


def test_the_blocks_of_a_source_have_a_key_in_each_language(tmp_path):
    source = {"model": "a", "layer_range": [0, 2]}
    file = {"merge_method": "passthrough", "slices": [{"sources": [source]}]}
    assert read(tmp_path, file).from_mergekit
    del source["layer_range"]
    source["layers"] = [0, 2]
    with pytest.raises(RecipeError, match=r"slices\[0\].sources\[0\].layers.*dtype"):
        read(tmp_path, file | {"dtype": "float32"})


def test_the_keys_of_both_languages_are_those_that_both_have():
    assert Document.model_fields.keys() & set(known_keys[()]) == KEYS_OF_BOTH


@pytest.mark.parametrize("schema", [2, 0, "1", True, 1.0, "x", [1]])
def test_another_schema_is_refused(tmp_path, schema: object):
    with pytest.raises(RecipeError, match="'schema'"):
        read(tmp_path, SHARED | {"schema": schema})


def test_an_empty_heading_says_nothing(tmp_path):
    entries = [{"model": "a", "parameters": None}]
    assert read(tmp_path, SHARED | {"parameters": None, "models": entries}).weights == (1.0,)


@settings(max_examples=40)
@given(
    method=st.sampled_from(["ace", "linear", "task_arithmetic", "ties", "slerp", "karcher"]),
    parameters=st.sampled_from([{}, {"density": 0.5}, {"weight": 1.0}]),
)
def test_what_we_save_is_ours_for_ever(tmp_path_factory, method: str, parameters: dict[str, float]):
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


@pytest.mark.parametrize("method", [["ties"], {"ties": 1}, True])
def test_a_method_that_is_no_name_is_refused(tmp_path, method: object):
    with pytest.raises(RecipeError, match="merge_method"):
        read(tmp_path, SHARED | {"merge_method": method, "vocabulary": "tokens"})
