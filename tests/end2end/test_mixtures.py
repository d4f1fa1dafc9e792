"""Files that describe a mixture of experts, by the command line and the library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

import ace_gui
from ace_gui.checkpoints.index import open_checkpoint
from ace_gui.engine.mixtures.routers import TokenPrompts, routers_of_prompts
from ace_gui.errors import RecipeError, WorkbenchError
from ace_gui.recipe.mixtures import GateMode
from tests.helpers.command import ace_gui as command
from tests.helpers.dense_models import dense_folder, with_tokenizer
from tests.helpers.models import load_folder


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A base with a tokenizer and two experts."""
    for number, name in enumerate(("base", "coder", "writer")):
        with_tokenizer(dense_folder(tmp_path / name, "llama", number))
    return tmp_path


USUAL: dict[str, Any] = {
    "base_model": "base",
    "gate_mode": "hidden",
    "dtype": "float32",
    "experts": [
        {
            "source_model": "coder",
            "positive_prompts": ["the code loop", "sum of"],
            "negative_prompts": ["story"],
        },
        {"source_model": "writer", "positive_prompts": ["a king and the sea"]},
    ],
}


def _file(folder: Path, **changes: Any) -> Path:
    content = {key: value for key, value in {**USUAL, **changes}.items() if value is not None}
    file = folder / "moe.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file


@pytest.mark.parametrize("ours", [False, True])
@pytest.mark.parametrize("mode", list(GateMode))
def test_a_file_becomes_a_model(models: Path, mode: GateMode, ours: bool) -> None:
    added = {"merge_method": "moe", "schema": 1} if ours else {}
    ended = command("merge", _file(models, gate_mode=mode.value, **added), "--out", models / "out")
    assert ended.returncode == 0, ended.stderr
    assert "Built a mixture of 2 experts" in ended.stdout
    model, report = load_folder(models / "out")
    assert report.missing == report.unexpected == report.mismatched == ()
    assert model.generate(torch.tensor([[1, 4, 5]]), max_new_tokens=2).shape[1] > 3
    names = {path.name for path in (models / "out").iterdir()}
    assert {"README.md", "merge_recipe.yaml", "tokenizer.json", "config.json"} <= names


def test_the_router_is_of_the_prompts(models: Path) -> None:
    assert command("merge", _file(models), "--out", models / "out").returncode == 0
    written = load_file(models / "out" / "model.safetensors")
    prompts = [
        TokenPrompts(positive=((1, 4, 5, 7), (1, 6, 11)), negative=((1, 8),)),
        TokenPrompts(positive=((1, 12, 9, 13, 4, 10),)),
    ]
    base = open_checkpoint(models / "base")
    for block, router in enumerate(routers_of_prompts(GateMode.HIDDEN, base, prompts)):
        assert torch.equal(written[f"model.layers.{block}.block_sparse_moe.gate.weight"], router)


def test_the_written_recipe_builds_the_same_model(models: Path) -> None:
    file = _file(models, gate_mode="random", seed=5)
    first = ace_gui.merge(file, models / "first")
    assert "model.safetensors" in first.files
    again = models / "again.yaml"
    again.write_text((models / "first" / "merge_recipe.yaml").read_text())
    ace_gui.merge(again, models / "second")
    one, two = (models / name / "model.safetensors" for name in ("first", "second"))
    assert one.read_bytes() == two.read_bytes()
    card = (models / "first" / "README.md").read_text()
    assert str(models) not in card


def test_a_shared_expert_makes_qwen2_moe(models: Path) -> None:
    shared = [{"source_model": "base", "positive_prompts": ["of a"]}]
    ended = command("merge", _file(models, shared_experts=shared), "--out", models / "out")
    assert ended.returncode == 0, ended.stderr
    model, report = load_folder(models / "out")
    assert type(model).__name__ == "Qwen2MoeForCausalLM"
    assert report.missing == report.unexpected == ()


def test_a_dry_run_writes_nothing(models: Path) -> None:
    before = sorted(models.iterdir())
    ended = command("merge", _file(models), "--dry-run", "--json", "-")
    assert ended.returncode == 0, ended.stderr
    content = json.loads(ended.stdout)
    assert content["class"] == "MixtralForCausalLM"
    assert sorted(models.iterdir()) == sorted([*before, models / "moe.yaml"])
    assert command("merge", models / "moe.yaml", "--out", models / "out").returncode == 0
    written = (models / "out" / "model.safetensors").stat().st_size
    assert content["bytes"] == pytest.approx(written, rel=0.2)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gate_mode": "best"}, ["'gate_mode'", "'best'", "cheap_embed"]),
        ({"architecture": "deepseek"}, ["'architecture'", "mixtral"]),
        ({"architecture": "qwen3"}, ["qwen3_moe", "llama"]),
        ({"experts_per_token": 3}, ["3 experts per token", "1 to 2"]),
        ({"gate_mod": "random"}, ["'gate_mod'", "did you mean 'gate_mode'"]),
        ({"dtype": "int8"}, ["'int8'"]),
        ({"experts": [{"source_model": "coder", "noise_scale": 0.1}] * 2}, ["'noise_scale'"]),
        ({"experts": [{"source_model": "coder"}] * 2}, ["coder", "positive_prompts"]),
        ({"experts": [{"source_model": "nowhere"}] * 2, "gate_mode": "random"}, ["nowhere"]),
        ({"merge_method": "moe", "models": []}, ["'models'"]),
        ({"merge_method": "ties"}, ["'merge_method'", "'moe'"]),
        ({"base_model": None}, ["'base_model'", "missing"]),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(
    models: Path, changes: dict[str, Any], words: list[str]
) -> None:
    ended = command("merge", _file(models, **changes), "--out", models / "out")
    assert ended.returncode == 1
    assert all(word in ended.stderr for word in words), ended.stderr
    assert not (models / "out").exists()


def test_a_base_without_tokenizer_is_named(models: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (models / "base" / name).unlink()
    with pytest.raises(WorkbenchError, match="no tokenizer"):
        ace_gui.merge(_file(models), models / "out")


@pytest.mark.parametrize(
    "options", [["--resume"], ["--distil"], ["--evaluate"], ["--as", "adapter"], ["--check"]]
)
def test_options_without_effect_are_refused(models: Path, options: list[str]) -> None:
    ended = command("merge", _file(models), "--out", models / "out", *options)
    assert ended.returncode == 1
    assert options[0] in ended.stderr
    with pytest.raises(RecipeError, match="resume"):
        ace_gui.merge(_file(models), models / "out", resume=True)


def test_other_commands_say_what_builds_it(models: Path) -> None:
    ended = command("inspect", _file(models))
    assert ended.returncode == 1
    assert "mixture of experts" in ended.stderr
    assert "ace-gui merge" in ended.stderr


def test_equal_experts_are_noted(models: Path) -> None:
    experts = [{"source_model": "coder"}] * 3
    result = ace_gui.merge(_file(models, gate_mode="random", experts=experts), models / "out")
    assert any("same model" in note for note in result.warnings)
    assert any("power of two" in note for note in result.warnings)
