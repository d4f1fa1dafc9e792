"""An old adapter, which is a pickle, and an adapter beside a whole model, in every way in."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import ace_gui
from ace_gui.engine.workflow import Options, merge_to_folder
from ace_gui.errors import CheckpointError, PickleConsentError
from ace_gui.recipe import Recipe
from ace_gui.recipe.recipe_file import recipe_from
from tests.helpers.adapters import factors, llama, save_adapter
from tests.helpers.command import ace_gui as command
from tests.helpers.recipes import file_over, recipe_over

Q = "model.layers.0.self_attn.q_proj"
OLD = {
    "enable_lora": None,
    "merge_weights": False,
    "init_lora_weights": None,
    "base_model_name_or_path": "C:\\models\\llama",
    "revision": None,
    "modules_to_save": None,
    "fan_in_fan_out": False,
    "bias": "none",
}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    llama().save_pretrained(tmp_path / "base")
    return tmp_path / "base"


def pickled(folder: Path, **config: object) -> Path:
    save_adapter(folder, factors(Q, 16, 16), **config)
    torch.save(load_file(folder / "adapter_model.safetensors"), folder / "adapter_model.bin")
    (folder / "adapter_model.safetensors").unlink()
    return folder


def merged(recipe: Recipe, out: Path, **options: Any) -> Tensor:
    for _ in merge_to_folder(recipe, out, Options(device="cpu", **options)):
        pass
    tensor: Tensor = load_file(out / "model.safetensors")[f"{Q}.weight"]
    return tensor


WAYS: dict[str, Callable[[Path, Path], dict[str, object]]] = {
    "expert": lambda _, adapter: {"models": [{"model": str(adapter)}]},
    "on": lambda base, adapter: {"models": [{"model": str(adapter), "on": str(base)}]},
    "adapter": lambda base, adapter: {
        "adapter": str(adapter),
        "models": [{"model": str(base.parent / "other")}],
    },
}


@pytest.mark.parametrize("config", [{}, OLD], ids=["new", "old"])
@pytest.mark.parametrize("way", WAYS)
def test_a_pickled_adapter_is_read_with_consent(
    way: str, config: dict[str, object], base: Path, tmp_path: Path
) -> None:
    adapter = pickled(tmp_path / "lora", **config)
    save_adapter(tmp_path / "safe", factors(Q, 16, 16), **config)
    torch.manual_seed(1)
    llama().save_pretrained(tmp_path / "other")
    results = []
    for name, folder, options in (
        ("pickle", adapter, {"convert": True}),
        ("safe", tmp_path / "safe", {}),
    ):
        keys = {"schema": 1, "base_model": str(base), "merge_method": "linear"}
        recipe = recipe_from({**keys, **WAYS[way](base, folder)})
        if options:
            with pytest.raises(PickleConsentError, match=r"adapter_model\.bin"):
                merged(recipe, tmp_path / f"{name}-out")
        results.append(merged(recipe, tmp_path / f"{name}-out", **options))
    assert torch.equal(*results)


def test_the_commands_convert_it(base: Path, tmp_path: Path) -> None:
    adapter = pickled(tmp_path / "lora")
    out = ("--out", tmp_path / "out", "--method", "linear", "--convert")
    file = file_over(tmp_path, base, [adapter], merge_method="linear")
    refused = command("inspect", file)
    assert refused.returncode == 1
    assert "convert" in refused.stderr
    assert command("inspect", file, "--convert").returncode == 0
    assert command("merge", base, adapter, *out).returncode == 0
    recipe = tmp_path / "mergekit.yaml"
    text = (
        f"merge_method: linear\nmodels:\n- model: {base}+{adapter}\n  parameters: {{weight: 1}}\n"
    )
    recipe.write_text(text)
    more = ("--out", tmp_path / "joined", "--convert")
    process = command("merge", recipe, *more)
    assert process.returncode == 0, process.stderr
    weights = [load_file(tmp_path / name / "model.safetensors") for name in ("out", "joined")]
    torch.testing.assert_close(*(tensors[f"{Q}.weight"] for tensors in weights))


def test_the_library_converts_it(base: Path, tmp_path: Path) -> None:
    adapter = pickled(tmp_path / "lora")
    recipe = recipe_over(base, [adapter], merge_method="linear")
    ace_gui.merge(recipe, tmp_path / "out", convert=True)
    assert (tmp_path / "out" / "model.safetensors").is_file()


MODELS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("adapter", ["adapter_model.safetensors", "adapter_model.bin"])
def test_an_adapter_beside_a_model_is_refused_by_both_names(
    adapter: str, model: str, base: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "both"
    shutil.copytree(base, folder)
    (pickled if adapter.endswith(".bin") else save_adapter)(
        folder, **({} if adapter.endswith(".bin") else {"tensors": factors(Q, 16, 16)})
    )
    if model != "model.safetensors":
        (folder / "model.safetensors").unlink()
        (folder / model).write_bytes(b"")
    keys = {"schema": 1, "base_model": str(base), "merge_method": "linear"}
    recipe = recipe_from({**keys, "models": [{"model": str(folder)}]})
    with pytest.raises(CheckpointError) as caught:
        merged(recipe, tmp_path / "out")
    for words in (adapter, model, "`on: MODEL`"):
        assert words in caught.value.sentence


def test_the_ways_that_the_refusal_names_work(base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "both"
    torch.manual_seed(2)
    llama().save_pretrained(folder)
    save_adapter(folder, factors(Q, 16, 16))
    save_adapter(tmp_path / "alone", factors(Q, 16, 16))
    keys = {"schema": 1, "base_model": str(base), "merge_method": "linear"}

    def result(name: str, **model: str) -> Tensor:
        return merged(recipe_from({**keys, "models": [model]}), tmp_path / name)

    tensors = load_file(folder / "model.safetensors")
    tensor = result("whole", model=str(folder / "model.safetensors"))
    torch.testing.assert_close(tensor, tensors[f"{Q}.weight"])
    on = result("on", model=str(folder), on=str(base))
    assert torch.equal(on, result("alone-out", model=str(tmp_path / "alone")))
    assert json.loads((tmp_path / "whole" / "config.json").read_text())["model_type"] == "llama"
