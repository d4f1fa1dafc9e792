"""Overrides as a file has them, and rules made from a selection of tensors."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ace_gui.errors import RecipeError
from ace_gui.recipe import Override
from ace_gui.recipe.overrides import Tensor, describe, for_selection, in_blocks, with_names, without
from ace_gui.recipe.recipe_file import dump_recipe, load_recipe

HEAD = "base_model: base\nmodels: [{model: a}, {model: b}]\n"
ROLES = ("query", "value", "norm")
TENSORS = [
    *(
        Tensor(name=f"h.{block}.{role}", role=role, block=block)
        for block in range(4)
        for role in ROLES
    ),
    Tensor(name="norm", role="norm", block=None),
]


def write(folder: Path, overrides: str) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(f"{HEAD}overrides:\n{overrides}")
    return path


def held(rules: list[Override] | tuple[Override, ...], name: str) -> bool:
    tensor = next(tensor for tensor in TENSORS if tensor.name == name)
    return any(rule.holds_for(tensor.name, tensor.role, tensor.block) for rule in rules)


def test_a_recipe_with_overrides_runs_again_as_written(tmp_path):
    path = write(
        tmp_path,
        "- {role: value, blocks: 1-2, merge_method: ties, parameters: {density: 1e-1}}\n"
        "- {pattern: '*.mlp.*', disposition: average}\n"
        "- {tensors: [x, y], weights: {a: 0.5}}\n"
        "- {blocks: 3, disposition: base}\n",
    )
    recipe = load_recipe(path)
    assert recipe.overrides[0].parameters == {"density": 0.1}
    assert recipe.overrides[2] == Override(tensors=("x", "y"), weights={"a": 0.5})
    assert recipe.overrides[3].blocks == "3"
    path.write_text(dump_recipe(recipe, tmp_path))
    assert load_recipe(path) == recipe


@pytest.mark.parametrize(
    ("rule", "key"),
    [
        ("{rol: value, disposition: base}", "overrides[0].rol"),
        ("{blocks: 4-, disposition: keep}", "overrides[0].disposition"),
        ("{blocks: 7-4, disposition: base}", "overrides[0].blocks"),
        ("{blocks: four, disposition: base}", "overrides[0].blocks"),
        ("{role: value}", "overrides[0]"),
        ("{disposition: base}", "overrides[0]"),
        ("{role: value, weights: {a: .nan}}", "overrides[0].weights.a"),
    ],
)
def test_a_rule_that_says_nothing_or_nonsense_is_refused(tmp_path, rule: str, key: str):
    with pytest.raises(RecipeError) as caught:
        load_recipe(write(tmp_path, f"- {rule}\n"))
    assert caught.value.key == key
    assert key in caught.value.sentence


def test_blocks():
    assert [k for k in range(12) if in_blocks(k, "0, 2,5-6,9-")] == [0, 2, 5, 6, 9, 10, 11]


@settings(max_examples=60)
@given(st.sets(st.sampled_from([tensor.name for tensor in TENSORS]), min_size=1))
def test_a_rule_for_a_selection_is_for_just_that(names: set[str]):
    rule = for_selection(Override(disposition="base"), names, TENSORS)
    assert {tensor.name for tensor in TENSORS if held([rule], tensor.name)} == names


def test_a_selection_is_said_briefly():
    def said(*names: str) -> str:
        return describe(for_selection(Override(), names, TENSORS))

    assert said(*(f"h.{block}.query" for block in range(4))) == "query"
    assert said("h.1.query", "h.2.query") == "query, blocks 1-2"
    assert said(*(f"h.3.{role}" for role in ROLES)) == "blocks 3"
    assert said("h.0.query", "h.2.value") == "h.0.query and 1 more"


@settings(max_examples=60)
@given(st.sets(st.sampled_from([tensor.name for tensor in TENSORS]), min_size=1))
def test_taking_tensors_out_of_rules_leaves_the_others_as_they_were(names: set[str]):
    rules = (Override(role="query", disposition="base"), Override(blocks="1-2", disposition="base"))
    remaining = without(rules, names, TENSORS)
    for tensor in TENSORS:
        expected = held(rules, tensor.name) and tensor.name not in names
        assert held(remaining, tensor.name) == expected


def test_rules_follow_the_experts_names():
    rules = (
        Override(role="query", weights={"a": 0.5, "b": 2.0}),
        Override(role="value", weights={"b": 0.0}),
    )
    assert with_names(rules, {"a": "first"}) == (Override(role="query", weights={"first": 0.5}),)
