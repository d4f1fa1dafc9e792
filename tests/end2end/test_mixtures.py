"""Files that describe a mixture of experts, by the command line and the library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file
from torch import Tensor

import ace_gui
from ace_gui.engine.mixture_workflow import mixture_to_folder
from ace_gui.engine.mixtures.mixture_store import MixtureStore
from ace_gui.engine.mixtures.routers import TokenPrompts
from ace_gui.engine.planning.stages import forget_result
from ace_gui.engine.workflow import Options
from ace_gui.errors import RecipeError, ResumeError, WorkbenchError
from ace_gui.output_files import staging_folder
from ace_gui.recipe.mixture_file import mixture_from
from ace_gui.recipe.mixtures import GateMode, MixtureRecipe
from ace_gui.recipe.recipe_file import stage_folder
from tests.helpers.command import ace_gui as command
from tests.helpers.dense_models import dense_folder, routers_of, with_tokenizer
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
    routers = routers_of(GateMode.HIDDEN, models / "base", prompts)
    for block, router in enumerate(routers.weights_BEH):
        assert torch.equal(written[f"model.layers.{block}.block_sparse_moe.gate.weight"], router)


def test_the_written_recipe_builds_the_same_model(models: Path) -> None:
    file = _file(models, gate_mode="random", seed=5)
    first = ace_gui.merge(file, models / "first")
    assert "model.safetensors" in first.files
    again = models / "again.yaml"
    again.write_text((models / "first" / "merge_recipe.yaml").read_text())
    ace_gui.merge(again, models / "second")
    first_file, second_file = (models / name / "model.safetensors" for name in ("first", "second"))
    assert first_file.read_bytes() == second_file.read_bytes()
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
    "options",
    [["--distil"], ["--evaluate"], ["--as", "adapter"], ["--check"], ["--memory", "3"]],
)
def test_options_without_effect_are_refused(models: Path, options: list[str]) -> None:
    ended = command("merge", _file(models), "--out", models / "out", *options)
    assert ended.returncode == 1
    assert options[0] in ended.stderr
    with pytest.raises(RecipeError, match="evaluate"):
        ace_gui.merge(_file(models), models / "out", evaluate=True)


def test_the_device_is_that_of_other_merges(models: Path) -> None:
    ended = command("merge", _file(models), "--out", models / "out", "--device", "cuda:99")
    assert ended.returncode == 1
    assert "cuda:99" in ended.stderr
    assert ace_gui.merge(_file(models), models / "out", device="cpu").files


def _recipe(models: Path, **changes: Any) -> MixtureRecipe:
    recipe = mixture_from(_file(models, **changes))
    assert recipe is not None
    return recipe


def _bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("done", [1, 2, 4, 9, 20, 36])
def test_a_stopped_mixture_goes_on_where_it_was(
    models: Path, done: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = _recipe(models)
    ace_gui.merge(models / "moe.yaml", models / "whole")
    events = mixture_to_folder(recipe, models / "out", Options())
    for _ in range(done):
        next(events)
    events.close()  # type: ignore[attr-defined]
    assert not (models / "out").exists()
    written: list[str] = []
    write = MixtureStore.write

    def counted(store: MixtureStore, name: str, tensor: Tensor) -> None:
        written.append(name)
        write(store, name, tensor)

    monkeypatch.setattr(MixtureStore, "write", counted)
    result = ace_gui.merge(models / "moe.yaml", models / "out", resume=True)
    assert _bytes(result.folder) == _bytes(models / "whole")
    total = len(load_file(models / "whole" / "model.safetensors"))
    assert len(written) == total - max(0, done - 3), "three events are of routers"
    assert not (models / ".out.partial").exists()


def test_other_settings_cannot_go_on(models: Path) -> None:
    events = mixture_to_folder(_recipe(models), models / "out", Options())
    for _ in range(5):
        next(events)
    events.close()  # type: ignore[attr-defined]
    more = [{**USUAL["experts"][0], "positive_prompts": ["sea"]}, USUAL["experts"][1]]
    with pytest.raises(ResumeError, match="recipe"):
        ace_gui.merge(_file(models, experts=more), models / "out", resume=True)
    weights = models / "coder" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\0\0\0")
    with pytest.raises(ResumeError, match=r"coder.model\.safetensors"):
        ace_gui.merge(_file(models), models / "out", resume=True)
    assert ace_gui.merge(_file(models), models / "out").files


ATTENTION = {"merge_method": "ties", "parameters": {"density": 0.5}}


@pytest.mark.parametrize("settings", [ATTENTION, "linear", "recommended"])
def test_attention_by_a_method_is_that_of_a_merge_before(models: Path, settings: Any) -> None:
    """The same bytes as by merging first, and naming that folder as the base."""
    file = _file(models, attention=settings)
    ended = command("merge", file, "--out", models / "out")
    assert ended.returncode == 0, ended.stderr
    keys = settings if isinstance(settings, dict) else {"merge_method": settings}
    names = {"base_model": "base", "models": [{"model": "coder"}, {"model": "writer"}]}
    merge = models / "merge.yaml"
    merge.write_text(
        yaml.safe_dump({**keys, **names, "schema": 1, "out_dtype": "float32"}, sort_keys=False)
    )
    if settings == "recommended":
        options = [models / name for name in ("base", "coder", "writer")]
        assert command("merge", *options, "--out", models / "merged").returncode == 0
    else:
        ace_gui.merge(merge, models / "merged")
    ace_gui.merge(_file(models, base_model="merged"), models / "second")
    first, second = (
        (models / name / "model.safetensors").read_bytes() for name in ("out", "second")
    )
    assert first == second
    card = (models / "out" / "README.md").read_text()
    assert f"merged by `{mixture_recipe_method(settings)}`" in card


def mixture_recipe_method(settings: Any) -> str:
    """The id of the method of these settings."""
    if isinstance(settings, dict):
        return str(settings["merge_method"])
    return {"recommended": "ace"}.get(settings, str(settings))


def test_the_written_recipe_has_the_attention(models: Path) -> None:
    ace_gui.merge(_file(models, attention=ATTENTION), models / "out")
    written = yaml.safe_load((models / "out" / "merge_recipe.yaml").read_text())
    assert written["attention"] == ATTENTION
    again = models / "again.yaml"
    again.write_text(yaml.safe_dump(written))
    ace_gui.merge(again, models / "second")
    assert _bytes(models / "second") == _bytes(models / "out")


def test_a_stopped_merge_of_attention_goes_on(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = _recipe(models, attention="linear")
    ace_gui.merge(models / "moe.yaml", models / "whole")
    assert recipe.attention is not None
    forget_result(stage_folder(recipe.attention))
    events = mixture_to_folder(recipe, models / "out", Options())
    for _ in range(6):
        next(events)
    events.close()  # type: ignore[attr-defined]
    assert staging_folder(stage_folder(recipe.attention)).exists()
    result = ace_gui.merge(models / "moe.yaml", models / "out", resume=True)
    assert _bytes(result.folder) == _bytes(models / "whole")


@pytest.mark.parametrize(
    ("attention", "words"),
    [
        ({"merge_method": "ties", "models": []}, ["'attention'", "'models'"]),
        ({"merge_method": "tis"}, ["tis", "ties"]),
        ({"merge_method": "ties", "parameters": {"density": 7}}, ["density"]),
        (7, ["attention"]),
    ],
)
def test_attention_that_cannot_be(models: Path, attention: Any, words: list[str]) -> None:
    ended = command("merge", _file(models, attention=attention), "--out", models / "out")
    assert ended.returncode == 1
    assert all(word in ended.stderr for word in words), ended.stderr
    assert not (models / "out").exists()
    assert not (models / ".out.partial").exists()


def test_a_dry_run_says_that_a_merge_comes_first(models: Path) -> None:
    ended = command("merge", _file(models, attention="linear"), "--dry-run", "--json", "-")
    assert ended.returncode == 0, ended.stderr
    [note] = json.loads(ended.stdout)["notes"]
    assert "merged by linear first" in note


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
