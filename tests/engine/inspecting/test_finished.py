"""Spectra that are taken from a finished merge, against the merge itself in float64."""

import dataclasses
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from ace_gui.engine.contract.findings import LayerSpectrum
from ace_gui.engine.contract.matrix_figures import NEGLIGIBLE, condition_number
from ace_gui.engine.inspecting.layer_context import InspectionCache
from ace_gui.engine.inspecting.layer_spectra import spectrum
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.recipe import ModelEntry, Recipe
from tests.helpers.ace_oracle import ace_oracle
from tests.helpers.merges import Array, deltas_of, merged_tensors, row_named, singular_values
from tests.helpers.models import Family, gpt2_family, roberta_family
from tests.helpers.recipes import recipe_of

CPU = torch.device("cpu")
UP = "layer.1.intermediate.dense.weight"
MATRIX = "layer.0.dense.weight"
HOMOGENEOUS = {"epsilon": 1e-3, "tau": 9.0}
LIKE_A_PLOT = 0.03
"""A pixel of a logarithmic axis."""


@pytest.fixture(scope="module")
def recipe(roberta: Family) -> Recipe:
    return recipe_of(roberta, parameters=HOMOGENEOUS)


@pytest.fixture(scope="module")
def store(recipe: Recipe, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("stores") / "ace"
    merged_tensors(prepare(recipe), folder, device="cpu")
    return folder


def look(
    prepared: Prepared, ending: str, cache: InspectionCache, store: Path | None
) -> LayerSpectrum:
    *_, layer = spectrum(prepared, row_named(prepared, ending), CPU, cache, store)
    assert isinstance(layer, LayerSpectrum)
    return layer


def one_matrix(folder: Path, shape: tuple[int, int], change: float = 0.1) -> Recipe:
    """A base of one matrix, and three experts that differ from it by such a share."""
    generator = torch.Generator().manual_seed(0)
    weights = 0.02 * torch.randn(4, *shape, generator=generator)
    weights[1:] = weights[0] + change * weights[1:]
    files = [folder / f"{name}.safetensors" for name in ("base", "a", "b", "c")]
    for file, weight in zip(files, weights, strict=True):
        save_file({MATRIX: weight.contiguous()}, file, {"format": "pt"})
    models = tuple(ModelEntry(model=file) for file in files[1:])
    return Recipe(base_model=files[0], models=models, parameters=HOMOGENEOUS)


def assert_plotted_alike(plotted: Array, exact: Array) -> None:
    """What counts of two spectra is alike, and as much of both counts."""
    counts = exact > NEGLIGIBLE * exact[0]
    np.testing.assert_allclose(plotted[counts], exact[counts], rtol=LIKE_A_PLOT)
    assert not plotted[~counts].any()
    assert condition_number(plotted) == pytest.approx(condition_number(exact), rel=LIKE_A_PLOT)


@pytest.mark.parametrize("shape", [(40, 24), (24, 40), (32, 32)])
def test_an_unrefined_merge_is_taken_from_its_store(
    cache: InspectionCache, tmp_path, shape: tuple[int, int]
):
    prepared = prepare(one_matrix(tmp_path, shape))
    merged_tensors(prepared, tmp_path / "store", device="cpu")
    layer = look(prepared, MATRIX, cache, tmp_path / "store")
    assert cache.latest is None, "nothing was merged"
    deltas = np.stack(list(deltas_of(prepared, row_named(prepared, MATRIX)).values()))
    exact = singular_values(ace_oracle(deltas, **HOMOGENEOUS).merged)
    assert_plotted_alike(layer.merged, exact)
    assert layer.preliminary is not None
    assert np.array_equal(layer.preliminary, layer.merged)
    merged = look(prepared, MATRIX, cache, None)
    assert cache.latest is not None, "what the store said is not taken for the merge"
    assert layer.report == dataclasses.replace(
        merged.report, delta_norm=pytest.approx(merged.report.delta_norm)
    )


def test_what_the_store_said_is_remembered(
    recipe: Recipe, store: Path, cache: InspectionCache, monkeypatch
):
    layer = look(prepare(recipe), UP, cache, store)
    monkeypatch.setattr("ace_gui.engine.inspecting.layer_spectra.finished_spectrum", None)
    again = look(prepare(recipe), UP, cache, store)
    assert cache.latest is None
    assert np.array_equal(again.merged, layer.merged)
    assert again.report == layer.report


@pytest.mark.parametrize("transposed", [False, True])
def test_methods_without_a_preliminary_solution_have_none_here_either(
    roberta: Family, cache: InspectionCache, tmp_path, transposed: bool
):
    models = gpt2_family(tmp_path / "gpt2", experts=3) if transposed else roberta
    prepared = prepare(recipe_of(models, merge_method="linear"))
    merged_tensors(prepared, tmp_path / "store", device="cpu")
    row = row_named(prepared, "h.1.mlp.c_fc.weight" if transposed else UP)
    layer = look(prepared, row.name, cache, tmp_path / "store")
    assert cache.latest is None
    assert layer.preliminary is None
    mean = np.mean(list(deltas_of(prepared, row).values()), axis=0)
    assert_plotted_alike(layer.merged, singular_values(mean))


def test_a_refined_merge_is_merged_again(recipe: Recipe, cache: InspectionCache, tmp_path):
    prepared = prepare(dataclasses.replace(recipe, parameters={**HOMOGENEOUS, "tau": 0.0}))
    merged_tensors(prepared, tmp_path / "store", device="cpu")
    layer = look(prepared, UP, cache, tmp_path / "store")
    assert cache.latest is not None
    assert layer.preliminary is not None
    assert not np.allclose(layer.preliminary, layer.merged)


@pytest.mark.parametrize(
    "change",
    [
        {"parameters": {**HOMOGENEOUS, "epsilon": 1e-4}},
        {"parameters": {**HOMOGENEOUS, "tau": 8.0}},
        {"merge_method": "linear", "parameters": {}},
        {"split_fused": True},
        "gone",
        "unfinished",
        "from before a model changed",
    ],
    ids=str,
)
def test_what_a_store_cannot_know_is_merged_again(
    recipe: Recipe, store: Path, cache: InspectionCache, change: object, tmp_path
):
    if isinstance(change, dict):
        recipe = dataclasses.replace(recipe, **change)
    elif change == "from before a model changed":
        family = roberta_family(tmp_path / "models", experts=2)
        store = tmp_path / "store"
        recipe = recipe_of(family)
        merged_tensors(prepare(recipe), store, device="cpu")
        os.utime(family.experts["task1"] / "model.safetensors", ns=(1, 1))
    else:
        if change == "unfinished":
            (tmp_path / change).mkdir()
            shutil.copy(store / "manifest.json", tmp_path / change)
        store = tmp_path / change
    look(prepare(recipe), UP, cache, store)
    assert cache.latest is not None


def test_where_rounding_would_show_the_tensor_is_merged_again(cache: InspectionCache, tmp_path):
    recipe = one_matrix(tmp_path, (24, 40), change=0.001)
    rounded = prepare(dataclasses.replace(recipe, out_dtype="bfloat16"))
    merged_tensors(rounded, tmp_path / "store", device="cpu", as_output=True)
    layer = look(rounded, MATRIX, cache, tmp_path / "store")
    assert cache.latest is not None
    merged_again = look(prepare(recipe), MATRIX, cache, None)
    np.testing.assert_allclose(layer.merged, merged_again.merged)
