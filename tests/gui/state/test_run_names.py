"""Runs are named by what differs from the first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.run_names import run_titles
from ace_gui.recipe import ModelEntry, Override, Recipe
from ace_gui.recipe.overrides import After
from ace_gui.recipe.recommended import with_recommended
from tests.gui.fakes import ACE, BASE, COLA, LINEAR, SST2, recipe

HALF = ModelEntry(model=COLA, weight=0.5)
FIRST = with_recommended(recipe(COLA, SST2))


def run_of(of: Recipe, **parameters: float) -> MergeRun:
    return MergeRun(recipe=of, store=Path("/cache/store"), parameters=parameters)


@pytest.mark.parametrize(
    ("changed", "title"),
    [
        ({"parameters": {"variant": "automatic", "tau": 0.5}}, "tau 0.5"),
        ({"after": After(spectrum=0.5, scale=1.0)}, "scale 1, no cap"),
        ({"scope": "authors-vit"}, "scope authors-vit"),
        ({"overrides": (Override(blocks="1"),)}, "1 override"),
        ({"merge_method": "linear", "parameters": {}}, "Weight averaging"),
        ({"models": (ModelEntry(model=COLA),)}, "without sst2"),
        (
            {"models": (ModelEntry(model=COLA, weight=0.5), ModelEntry(model=SST2))},
            "cola weighs 0.5",
        ),
        ({"seed": 3, "split_fused": True, "pad_to_multiple_of": 8, "scope": "x"}, " and 1 more"),
    ],
)
def test_a_run_is_named_by_its_differences(changed, title):
    runs = [run_of(FIRST), run_of(replace(FIRST, **changed))]
    first, second = run_titles(runs, (ACE, LINEAR))
    assert first == "ACE, recommended"
    assert second.endswith(title)


def test_another_variant_has_the_name_by_which_it_is_chosen():
    published = Recipe(base_model=BASE, models=FIRST.models)
    runs = [run_of(FIRST, variant="automatic"), run_of(published, variant="published", tau=0.3)]
    assert run_titles(runs, (ACE,)) == ("ACE, recommended", "ACE, published")


def test_resolved_values_tell_runs_apart_and_own_names_stay():
    plain = Recipe(base_model=BASE, models=FIRST.models)
    runs = [run_of(plain, tau=0.3), run_of(plain, tau=0.5), run_of(plain, tau=0.3)]
    assert run_titles(runs, (ACE,)) == ("ACE-Merging (1)", "tau 0.5", "ACE-Merging (2)")
    runs[1].name = "mine"
    assert run_titles(runs, (ACE,))[1] == "mine"
