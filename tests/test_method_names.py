"""Methods are found by every name that people, pages and other programs give them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ace_gui
from ace_gui.engine.capabilities import method_info
from ace_gui.engine.inspecting.compare_recipes import title_of
from ace_gui.errors import MethodError, RecipeError
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.run_names import run_title
from ace_gui.method_names import OTHER_NAMES, method_id
from ace_gui.methods import METHODS, get_method, register_method
from ace_gui.paths import Sample
from ace_gui.recipe import ModelEntry, Override, Recipe
from ace_gui.recipe.new_recipes import recipe_keys
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.recipe.recommended import (
    NAME,
    SHELF,
    USUAL,
    ShelfEntry,
    merge_label,
    with_recommended,
)
from tests.helpers.command import ace_gui as command

RECIPE = load_recipe(Sample.TEXT.recipe)


def test_other_names_are_of_methods_and_of_one_each() -> None:
    assert set(OTHER_NAMES.values()) <= set(METHODS)
    assert not set(OTHER_NAMES) & set(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_found_by_its_name_and_title(name: str) -> None:
    title = METHODS[name].title
    spellings = (name, title, title.upper(), name.upper(), name.replace("_", "-"), f" {title} ")
    for spelling in spellings:
        assert method_id(spelling) == name
        assert get_method(spelling) is METHODS[name]


@given(st.sampled_from(sorted({*METHODS, *OTHER_NAMES})), st.data())
def test_case_and_separators_make_no_difference(name: str, data: st.DataObject) -> None:
    separator = st.sampled_from(["_", "-", " ", " - "])
    written = re.sub("_", lambda _: data.draw(separator), name)
    letters = (data.draw(st.sampled_from([letter, letter.upper()])) for letter in written)
    assert method_id("".join(letters)) == OTHER_NAMES.get(name, name)


@pytest.mark.parametrize("text", ["", "  ", "–", "日本"])
def test_a_name_without_letters_stays_as_it_is(text: str) -> None:
    assert method_id(text) == text
    with pytest.raises(RecipeError, match="There is no merge method"):
        get_method(text)


@pytest.mark.parametrize("entry", SHELF)
def test_the_shelf_has_the_labels_of_the_methods(entry: ShelfEntry) -> None:
    """One name for one method: in lists of methods, on the welcome page, of runs and in reports."""
    name, _, variant = entry.name.partition(":")
    recipe = replace(RECIPE, merge_method=name, parameters={"variant": variant} if variant else {})
    recipe = replace(recipe, **USUAL)
    if name == NAME:
        recipe = with_recommended(RECIPE)
    method = method_info(recipe.merge_method)
    assert title_of(recipe) == entry.title
    run = MergeRun(recipe=recipe, store=Path("/store"))
    assert run_title(run, (method,)) == entry.title
    resolved = {field.name: field.default for field in method.fields} | recipe.parameters
    assert merge_label(recipe, method.title, resolved.get("variant")) == entry.title
    if name != NAME:
        assert method.label(variant or None) == entry.title


def test_recipes_have_the_registered_name() -> None:
    models = (ModelEntry(model=Path("/a")), ModelEntry(model=Path("/b")))
    recipe = Recipe(
        base_model=Path("/base"),
        models=models,
        merge_method="Weight averaging",
        overrides=(Override(role="query", merge_method="TIES"),),
    )
    assert recipe.methods == ("linear", "ties")
    assert replace(recipe, merge_method="DARE-TIES").merge_method == "dare_ties"
    assert recipe_keys("base", ["a"], "ACE:automatic")["merge_method"] == "ace"


def test_the_command_line_and_files_take_them(tmp_path: Path) -> None:
    for name in ("averaging", "TIES", "tsv-m"):
        done = command("methods", name, "--json", "-")
        (record,) = json.loads(done.stdout)["methods"]
        assert record["name"] == method_id(name)
    models = (RECIPE.base_model, *(entry.model for entry in RECIPE.models))
    printed = command("init", *models, "--method", "Task arithmetic").stdout
    assert "merge_method: task_arithmetic" in printed
    file = tmp_path / "recipe.yaml"
    file.write_text(
        "schema: 1\nmerge_method: Averaging\nbase_model: b\nmodels: [{model: x}, {model: y}]\n"
    )
    assert ace_gui.Recipe.load(file).merge_method == "linear"


def test_another_name_cannot_be_taken() -> None:
    with pytest.raises(MethodError, match="another name of the method 'linear'"):
        register_method(name="averaging", title="Mine", summary="Mine.")(lambda deltas, *_: deltas)
    assert "averaging" not in METHODS
