"""Several merges in a row: what is measured, and what becomes of one that fails."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from ace_gui.cli.evaluating import merged_and_measured, variants
from ace_gui.engine.contract.events import CompareProgress, MergeFinished, MethodCompared, Variant
from ace_gui.engine.contract.findings import LayerStatistics
from ace_gui.engine.contract.matrix_figures import cosines_of, model_cosines
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.inspecting.compare_recipes import (
    by_method,
    by_value,
    compare,
    compared_record,
    title_of,
)
from ace_gui.engine.merging import surveying
from ace_gui.engine.merging.store import MODEL
from ace_gui.engine.merging.surveying import row_contribution
from ace_gui.engine.planning import prepare
from ace_gui.engine.planning.slices import open_recipe
from ace_gui.errors import RecipeError
from ace_gui.recipe import Override, Recipe
from ace_gui.recipe.recommended import NAME, TITLE, is_recommended, with_recommended
from ace_gui.steps import Steps
from tests.helpers.models import Family
from tests.helpers.recipes import recipe_of


@pytest.fixture(scope="module")
def recipe(roberta: Family) -> Recipe:
    return recipe_of(roberta, parameters={"tau": 0.4})


def test_figures_are_those_of_the_merged_weights(recipe: Recipe, roberta: Family, tmp_path):
    task_arithmetic = replace(recipe, merge_method="task_arithmetic", parameters={"scaling": 0.5})
    variants = [Variant(recipe=task_arithmetic, store=tmp_path / "store")]
    (row,) = [event for event in compare(variants, "cpu") if isinstance(event, MethodCompared)]
    merged = load_file(tmp_path / "store" / MODEL / "model.safetensors")
    base = load_file(roberta.base / "model.safetensors")
    expert = load_file(roberta.experts["task1"] / "model.safetensors")
    shared = [name for name in base if name.startswith("roberta.")]

    def flat(tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.cat([(tensors[n].double() - base[n].double()).flatten() for n in shared])

    delta = flat(merged)
    change = flat(expert)
    assert row.norm == pytest.approx(float(delta.norm()), rel=1e-5)
    assert row.expert_norms["task1"] == pytest.approx(float(change.norm()), rel=1e-5)
    distance = float((delta - change).norm() / change.norm())
    assert row.distances["task1"] == pytest.approx(distance, rel=1e-5)
    cosine = float(delta @ change / delta.norm() / change.norm())
    assert row.cosines["task1"] == pytest.approx(cosine, rel=1e-4)
    assert row.scores == ()
    assert {report.name for report in row.reports} == base.keys()
    assert row.seconds > 0
    assert row.peak_bytes > 0


def test_what_is_merged_already_is_only_measured(recipe: Recipe, tmp_path):
    def row_of(variant: Variant) -> MethodCompared:
        *_, row = compare([variant], "cpu")
        assert isinstance(row, MethodCompared)
        return row

    variant = Variant(recipe=recipe, store=tmp_path / "store")
    first = row_of(variant)
    files = {path: path.stat().st_mtime_ns for path in variant.store.rglob("*")}
    finished = MergeFinished(store=variant.store, seconds=123.0, peak_bytes=456)
    again = row_of(replace(variant, finished=finished))
    assert {path: path.stat().st_mtime_ns for path in variant.store.rglob("*")} == files
    changes = {"variant": again.variant, "seconds": 123.0, "peak_bytes": 456}
    assert replace(first, **changes, warnings=again.warnings) == again


def test_one_expert_is_where_its_merge_is(recipe: Recipe):
    alone = replace(recipe, models=recipe.models[:1], merge_method="linear", parameters={})
    (row,) = merged_and_measured([alone], "cpu")
    assert row.distances["task0"] == pytest.approx(0, abs=1e-5)
    assert row.cosines["task0"] == pytest.approx(1, abs=1e-6)
    assert row.relative_norm == pytest.approx(1, abs=1e-5)


def test_one_that_cannot_be_merged_says_why_and_the_next_goes_on(recipe: Recipe, tmp_path):
    made = by_method(recipe, ["slerp", "linear"])
    jobs = tuple(Variant(recipe=r, store=tmp_path / r.merge_method) for r in made)
    events = list(compare(jobs, "cpu"))
    first, second = (event for event in events if isinstance(event, MethodCompared))
    assert "2 experts" in first.error
    assert compared_record(first)["relative_norm"] == 0.0
    assert second.error == ""
    indices = {event.index for event in events if isinstance(event, CompareProgress)}
    assert indices == {0, 1}


def test_what_the_checks_refuse_is_not_begun(recipe: Recipe, tmp_path):
    store = tmp_path / "store"
    small = [Variant(recipe=recipe, store=store)]
    row = list(compare(small, "auto", memory_bytes=1000))[-1]
    assert row.error.startswith("Memory: ")
    assert "allowed" in row.error
    assert not store.exists()


def test_a_method_of_ones_own_keeps_its_values_and_overrides(recipe: Recipe):
    ruled = replace(recipe, overrides=(Override(role="query", disposition="base"),))
    ace, ties = by_method(ruled, ["ace", "ties", "ace"])
    assert ace == ruled
    assert (ties.merge_method, ties.parameters, ties.overrides) == ("ties", {}, ())


@pytest.mark.parametrize("now", [{}, {"variant": "automatic"}])
def test_both_variants_are_listed_whichever_the_recipe_has(recipe: Recipe, now: dict[str, str]):
    ours = replace(recipe, parameters={"epsilon": 1e-3, **now})
    published, automatic = by_method(ours, ["ace", "ace:automatic"])
    assert published.parameters == {"epsilon": 1e-3}
    assert automatic.parameters == {"epsilon": 1e-3, "variant": "automatic"}
    assert by_method(ours, ["ace"]) == (ours,)


@pytest.mark.parametrize("start", ["ace", "linear", NAME])
@pytest.mark.parametrize("tensor", [(), (Override(role="query", disposition="base"),)])
def test_the_recommended_merge_is_named_and_others_have_their_defaults(
    recipe: Recipe, start: str, tensor: tuple[Override, ...]
):
    plain = replace(recipe, merge_method="linear" if start == "linear" else "ace", parameters={})
    plain = replace(plain, overrides=tensor)
    ours = with_recommended(plain) if start == NAME else plain
    made = by_method(ours, [NAME, "ace", "ace:automatic", "linear"])
    first, *alternatives = made
    assert is_recommended(first)
    assert first.overrides == (() if start == "linear" else tensor)
    assert [alternative.choices() | {"overrides": ()} for alternative in alternatives] == [
        plain.choices() | {"overrides": ()}
    ] * 3
    assert [dict(alternative.parameters) for alternative in alternatives] == [
        {},
        {"variant": "automatic"},
        {},
    ]
    assert len({title_of(variant) for variant in made}) == 4
    assert title_of(first) == TITLE


def test_titles_tell_values_apart(recipe: Recipe):
    first, second = by_value(recipe, "tau", [0.1, 0.3])
    assert title_of(first) == "ACE, published, τ 0.1"
    assert title_of(second) == "ACE, published"


def test_what_the_command_line_says(recipe: Recipe):
    assert [r.merge_method for r in variants(recipe, "ties, linear", "")] == ["ties", "linear"]
    recipes = variants(recipe, "ties", "density=0.1,5e-1")
    assert [r.parameters for r in recipes] == [{"density": 0.1}, {"density": 0.5}]
    (word,) = variants(recipe, "ties", "trim=tensor")
    assert word.parameters == {"trim": "tensor"}


@pytest.mark.parametrize(
    ("methods", "parameter", "words"),
    [
        ("tise", "", "ties"),
        ("ties,linear", "density=0.1", "at most one method"),
        ("ties", "density", "name=value"),
        ("ties", "density=2", "density"),
        ("ties", "colour=2", "no parameter"),
    ],
)
def test_nonsense_is_refused(recipe: Recipe, methods: str, parameter: str, words: str):
    with pytest.raises(RecipeError, match=words):
        variants(recipe, methods, parameter)


def test_models_are_opened_once_for_all_settings(recipe: Recipe, monkeypatch):
    opened: list[Recipe] = []

    def counted(opened_recipe: Recipe) -> Steps[Any]:
        opened.append(opened_recipe)
        return open_recipe(opened_recipe)

    monkeypatch.setattr(prepare, "open_recipe", counted)
    settings = by_value(replace(recipe, merge_method="ace"), "scaling", [0.5, 1.0, 1.5])
    together = merged_and_measured(settings, "cpu")
    assert len(opened) == 1
    alone = [row for setting in settings for row in merged_and_measured([setting], "cpu")]
    assert [row.norm for row in together] == [row.norm for row in alone]
    assert [row.distances for row in together] == [row.distances for row in alone]


@pytest.mark.parametrize(
    ("method", "name", "values", "surveys"),
    [
        ("ties", "scaling", [0.5, 1.0], 1),
        ("ties", "density", [0.5, 0.2, 0.5], 2),
        ("pcb", "scaling", [0.5, 1.0], 1),
        ("nan", "scaling", [0.5, 1.0], 1),
        ("knots_ties", "scaling", [0.5, 1.0], 1),
    ],
)
def test_settings_share_the_survey_of_the_model(
    method: str, name: str, values: list[float], surveys: int, recipe: Recipe, monkeypatch
):
    read: list[str] = []

    def counted(row: PlanRow, *arguments: Any, **named: Any) -> Any:
        read.append(row.name)
        return row_contribution(row, *arguments, **named)

    monkeypatch.setattr(surveying, "row_contribution", counted)
    parameters = {"norms": "model"} if method == "nan" else {"trim": "model"}
    settings = by_value(replace(recipe, merge_method=method, parameters=parameters), name, values)
    alone = [row for setting in settings for row in merged_and_measured([setting], "cpu")]
    once = len(read) // len(settings)
    read.clear()
    together = merged_and_measured(settings, "cpu")
    assert once > 0
    assert len(read) == surveys * once
    assert [row.norm for row in together] == [row.norm for row in alone]
    assert [row.distances for row in together] == [row.distances for row in alone]


def layer(name: str, vectors: dict[str, np.ndarray], weight: float = 1.0) -> LayerStatistics:
    stacked = np.stack(list(vectors.values()))
    squares = weight**2 * (stacked**2).sum(axis=1)
    return LayerStatistics(
        name=name,
        energies=dict(zip(vectors, squares.tolist(), strict=True)),
        cosines=cosines_of(stacked @ stacked.T),
    )


def cosine(first: np.ndarray, second: np.ndarray) -> float:
    return float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))


@given(st.integers(2, 5), st.integers(0, 1000), st.floats(0.1, 3))
@settings(max_examples=30)
def test_over_the_model_they_are_those_of_the_whole_task_vectors(
    experts: int, seed: int, weight: float
):
    rng = np.random.default_rng(seed)
    sizes = (5, 1, 40)
    names = [f"e{t}" for t in range(experts)]
    parts = {name: [rng.standard_normal(size) * size for size in sizes] for name in names}
    layers = [
        layer(f"layer.{index}", {name: parts[name][index] for name in names}, weight)
        for index in range(len(sizes))
    ]
    cosines = model_cosines(layers, names)
    for a, first in enumerate(names):
        for b, second in enumerate(names):
            exact = cosine(np.concatenate(parts[first]), np.concatenate(parts[second]))
            assert cosines[a, b] == pytest.approx(exact)


def test_two_experts_are_compared_where_both_are():
    here = np.array([1.0, 2.0])
    there = np.array([3.0, 1.0])
    layers = [
        layer("both", {"a": here, "b": there}),
        layer("only a", {"a": np.array([50.0])}),
        layer("only c", {"c": np.array([1.0])}),
        LayerStatistics(name="unknown", energies={"a": 1.0}),
    ]
    cosines = model_cosines(layers, ["a", "b", "c"])
    assert cosines[0, 1] == pytest.approx(cosine(here, there))
    assert cosines[2, 2] == 1
    assert math.isnan(cosines[0, 2])


def test_no_change_has_no_cosine():
    still = layer("x", {"a": np.zeros(3), "b": np.ones(3)})
    assert np.isnan(still.cosines[0]).all()
    cosines = model_cosines([still, layer("y", {"a": np.ones(2), "b": np.ones(2)})], ["a", "b"])
    assert cosines[0, 1] == pytest.approx(math.sqrt(2 / 5))
