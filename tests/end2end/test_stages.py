"""Files with several documents: a merge is an input of another."""

import json
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

from ace_gui.engine.workflow import Options, merge_to_folder
from ace_gui.errors import RecipeError
from ace_gui.paths import merges_folder
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.command import ace_gui as run
from tests.helpers.mergekit_files import make_models

FIRST = {
    "name": "first",
    "merge_method": "linear",
    "models": [
        {"model": "a", "parameters": {"weight": 1.0}},
        {"model": "b", "parameters": {"weight": 1.0}},
    ],
    "dtype": "float32",
}
LAST = {
    "merge_method": "task_arithmetic",
    "base_model": "base",
    "models": [
        {"model": "first", "parameters": {"weight": 0.5}},
        {"model": "c", "parameters": {"weight": 1.0}},
    ],
    "dtype": "float32",
}


def write(folder: Path, *documents: object) -> Path:
    path = folder / "file.yaml"
    path.write_text("---\n".join(yaml.safe_dump(document) for document in documents))
    return path


@pytest.mark.parametrize("turned", [False, True])
def test_a_stage_is_merged_first_and_kept(tmp_path: Path, turned: bool) -> None:
    make_models(tmp_path)
    documents = [FIRST, LAST][:: -1 if turned else 1]
    recipe = load_recipe(write(tmp_path, *documents))
    (folder,) = recipe.stages
    assert folder.parent == merges_folder()
    for _ in merge_to_folder(recipe, tmp_path / "out", Options()):
        pass
    models = {name: load_file(tmp_path / name / "model.safetensors") for name in ("base", *"abc")}
    tensors = load_file(tmp_path / "out" / "model.safetensors")
    for name, base in models["base"].items():
        first = (models["a"][name] + models["b"][name]) / 2
        expected = base + 0.5 * (first - base) + (models["c"][name] - base)
        assert torch.allclose(tensors[name], expected, atol=1e-6), name
    before = (folder / "model.safetensors").stat().st_mtime_ns
    again = load_recipe(tmp_path / "file.yaml")
    assert list(again.stages) == [folder]
    for _ in merge_to_folder(again, tmp_path / "again", Options()):
        pass
    assert (folder / "model.safetensors").stat().st_mtime_ns == before


def test_another_content_is_another_stage(tmp_path: Path) -> None:
    make_models(tmp_path)
    (first,) = load_recipe(write(tmp_path, FIRST, LAST)).stages
    (same,) = load_recipe(write(tmp_path, FIRST, {**LAST, "parameters": {"lambda": 0.5}})).stages
    (half,) = load_recipe(write(tmp_path, {**FIRST, "dtype": "float16"}, LAST)).stages
    config = tmp_path / "a" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"more": 1}))
    (changed,) = load_recipe(write(tmp_path, FIRST, LAST)).stages
    assert first == same
    assert len({first, half, changed}) == 3


@pytest.mark.parametrize(
    ("documents", "words"),
    [
        ([{**FIRST, "models": [{"model": "last"}]}, {**LAST, "name": "last"}], ["needs first"]),
        ([FIRST, FIRST, LAST], ["its own name"]),
        ([LAST, LAST], ["its own name"]),
        ([FIRST, {**LAST, "name": "second", "models": [{"model": "c"}]}], ["first", "second"]),
        ([{**FIRST, "name": ["a"]}, LAST], ["name"]),
        ([{**FIRST, "name": True}, LAST], ["name"]),
    ],
)
def test_stages_that_cannot_be_ordered(
    tmp_path: Path, documents: list[object], words: list[str]
) -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe(write(tmp_path, *documents))
    assert all(word in caught.value.sentence for word in words)


def test_a_stage_has_its_name_as_an_expert(tmp_path: Path) -> None:
    make_models(tmp_path)
    last = {
        "schema": 1,
        "merge_method": "linear",
        "base_model": "base",
        "models": [{"model": "first"}, {"model": "c"}],
        "overrides": [{"blocks": 0, "weights": {"first": 0.5}}],
    }
    recipe = load_recipe(write(tmp_path, FIRST, last))
    assert recipe.expert_names == ("first", "c")
    for _ in merge_to_folder(recipe, tmp_path / "out", Options()):
        pass
    again = load_recipe(tmp_path / "out" / "merge_recipe.yaml")
    assert again.expert_names == ("first", "c")


def test_one_expert_is_counted_as_one(tmp_path: Path) -> None:
    make_models(tmp_path)
    path = write(
        tmp_path, {"base_model": "base", "merge_method": "ties", "models": [{"model": "a"}]}
    )
    done = run("merge", path, "--out", tmp_path / "out")
    assert "Merged 1 expert in" in done.stdout
    assert "1 expert merged" in (tmp_path / "out" / "README.md").read_text()
