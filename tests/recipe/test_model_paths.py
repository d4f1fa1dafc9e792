"""Hub names in recipes: a local path first, then the local cache, never the network."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import RecipeError
from ace_gui.recipe.model_paths import ModelPaths, cache_folder
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.checkpoints import save_model, small_tensors

COMMITS = ("a" * 40, "ab" * 20)


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(socket, "socket", None)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def cached(cache: Path, name: str, commit: str = COMMITS[0], ref: str = "") -> Path:
    repository = cache / "--".join(("models", *name.split("/")))
    snapshot = repository / "snapshots" / commit
    snapshot.mkdir(parents=True)
    if ref:
        (repository / "refs" / ref).parent.mkdir(parents=True, exist_ok=True)
        (repository / "refs" / ref).write_text(commit)
    return snapshot


def resolved(tmp_path: Path, written: str) -> Path:
    return ModelPaths(folder=tmp_path / "recipes")(written)


def test_a_name_is_the_model_of_the_cache(tmp_path, cache: Path):
    main = cached(cache, "org/base", ref="main")
    snapshot = cached(cache, "org/base", COMMITS[1], ref="v1.0-step/2")
    gpt2 = cached(cache, "gpt2")
    assert resolved(tmp_path, "org/base") == resolved(tmp_path, "Org/BASE") == main
    assert resolved(tmp_path, f"org/base@{COMMITS[0]}") == main
    assert resolved(tmp_path, "org/base@v1.0-step/2") == snapshot
    assert resolved(tmp_path, "org/base@abababab") == snapshot
    assert resolved(tmp_path, "gpt2") == gpt2


def test_a_local_folder_wins(tmp_path, cache: Path):
    cached(cache, "org/base", ref="main")
    local = tmp_path / "recipes" / "org" / "base"
    local.mkdir(parents=True)
    assert resolved(tmp_path, "org/base") == local


@pytest.mark.parametrize(
    "written", ["org/base@nowhere", "org/other", "org/base@..", "./org/base", "org/../org/base"]
)
def test_what_is_not_in_the_cache_stays_a_path(tmp_path, cache: Path, written: str):
    cached(cache, "org/base", ref="main")
    expected = os.path.abspath(tmp_path / "recipes" / written)  # noqa: PTH100
    assert resolved(tmp_path, written) == Path(expected)


def test_revisions_without_a_main_are_not_guessed(tmp_path, cache: Path):
    cached(cache, "org/base")
    cached(cache, "org/base", COMMITS[1])
    assert not resolved(tmp_path, "org/base").is_relative_to(cache)


def test_names_of_both_kinds_of_recipe_are_looked_up_and_missed(tmp_path, cache: Path):
    save_model(cached(cache, "org/base", ref="main"), small_tensors())
    for more in ("schema: 1", "dtype: float32"):
        file = tmp_path / "recipe.yaml"
        file.write_text(
            "merge_method: linear\nbase_model: org/base\nmodels:\n"
            f"  - {{model: org/expert@v2, parameters: {{weight: 1.0}}}}\n{more}\n"
        )
        recipe = load_recipe(file)
        assert recipe.base_model.is_relative_to(cache)
        with pytest.raises(RecipeError) as caught:
            prepare(recipe)
        assert "org/expert@v2 is neither" in caught.value.sentence
        assert "`hf download org/expert --revision v2`" in caught.value.sentence


@pytest.mark.parametrize("written", ["a\0b", "~nosuchuser-at-all/x", "\ud800", "x" * 5000])
def test_what_cannot_be_a_path_is_refused(tmp_path, written: str):
    with pytest.raises(RecipeError, match="cannot be the path of a model"):
        resolved(tmp_path, written)


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"HF_HUB_CACHE": "~/elsewhere"},
        {"HF_HUB_CACHE": "$HOME/elsewhere", "HF_HOME": "/not/this"},
        {"HF_HOME": "/some/home"},
        {"XDG_CACHE_HOME": "/some/cache"},
        {"HUGGINGFACE_HUB_CACHE": "/older/name"},
    ],
)
def test_the_cache_is_where_huggingface_hub_has_it(monkeypatch, variables: dict[str, str]):
    for name in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HUGGINGFACE_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    script = "from huggingface_hub import constants as c; print(c.HF_HUB_CACHE)"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert str(cache_folder()) == answer.stdout.strip()
