"""Adapters that the program writes: PEFT loads them, and its merge gives what they say."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from ace_gui.engine.contract.events import Exported
from ace_gui.engine.workflow import Options, extract_adapter, merge_to_folder
from ace_gui.recipe.new_recipes import recipe_for_extraction
from tests.helpers.adapters import ATTENTION, gpt2, llama, resnet
from tests.helpers.peft_adapters import save_base_and_adapters
from tests.helpers.recipes import recipe_over

pytestmark = pytest.mark.filterwarnings("ignore")


def written(recipe: Any, out: Path) -> Path:
    events = list(merge_to_folder(recipe, out, Options(device="cpu")))
    assert isinstance(events[-1], Exported)
    return out


def loaded(base: Path, adapter: Path, make: Any) -> dict[str, Tensor]:
    """What PEFT makes of a base and an adapter."""
    model = type(make()).from_pretrained(base)
    adapted = peft.PeftModel.from_pretrained(model, adapter)
    return {
        name: tensor.double() for name, tensor in adapted.merge_and_unload().state_dict().items()
    }


def change(base: Path, adapter: Path, make: Any) -> dict[str, Tensor]:
    before = type(make()).from_pretrained(base).state_dict()
    return {n: t - before[n].double() for n, t in loaded(base, adapter, make).items()}


def assert_close(actual: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float) -> None:
    assert any(tensor.norm() > 0 for tensor in expected.values())
    for name, tensor in expected.items():
        assert (actual[name] - tensor).norm() <= tolerance * (tensor.norm() + 1e-2), name


LORAS = {
    "plain": (llama, [{"r": 4}, {"r": 2, "lora_alpha": 5}]),
    "rslora and patterns": (
        llama,
        [{"r": 4, "use_rslora": True, "rank_pattern": {"q_proj": 2}}, {"r": 3}],
    ),
    "modules that one lacks": (llama, [{"target_modules": ["q_proj"]}, {"r": 3}]),
    "embeddings": (llama, [{"target_modules": ["embed_tokens", "q_proj"]}, {"r": 3}]),
    "Conv1D": (gpt2, [{"target_modules": ["c_attn"], "fan_in_fan_out": True}] * 2),
    "convolutions": (resnet, [{"target_modules": ["convolution"]}] * 2),
    "whole modules": (llama, [{"modules_to_save": ["lm_head", "norm"]}, {"r": 2}]),
    "biases": (llama, [{"bias": "lora_only"}, {"r": 2}]),
    "dora": (llama, [{"use_dora": True}, {"r": 2}]),
}
METHODS = {
    "linear": {"merge_method": "linear"},
    "sum": {"merge_method": "task_arithmetic", "parameters": {"scaling": 0.7}},
    "ties": {"merge_method": "ties"},
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", LORAS)
def test_an_adapter_without_a_cut_is_the_merged_model(
    kind: str, method: str, tmp_path: Path
) -> None:
    make, options = LORAS[kind]
    configs = [peft.LoraConfig(**{"target_modules": ATTENTION, **option}) for option in options]
    base, experts = save_base_and_adapters(tmp_path, make, configs)
    exact = method != "ties" and kind not in ("dora",)
    more = {} if exact else {"rank": 99}
    recipe = recipe_over(base, experts, **METHODS[method], output="adapter", **more)
    out = written(recipe, tmp_path / "out")
    model_recipe = recipe_over(base, experts, **METHODS[method])
    merged = load_file(written(model_recipe, tmp_path / "whole") / "model.safetensors")
    model = type(make()).from_pretrained(tmp_path / "whole")
    assert len(merged) >= 1
    expected = {name: tensor.double() for name, tensor in model.state_dict().items()}
    assert_close(loaded(base, out, make), expected, 2e-6)


@pytest.mark.parametrize("rank", [1, 3, None])
def test_a_sum_is_that_of_peft(rank: int | None, tmp_path: Path) -> None:
    configs = [peft.LoraConfig(r=r, lora_alpha=6, target_modules=ATTENTION) for r in (4, 3)]
    base, experts = save_base_and_adapters(tmp_path, llama, configs)
    recipe = recipe_over(
        base, experts, **METHODS["sum"], output="adapter", **({"rank": rank} if rank else {})
    )
    out = written(recipe, tmp_path / "out")
    model = peft.PeftModel.from_pretrained(type(llama()).from_pretrained(base), experts[0])
    model.load_adapter(experts[1], "other")
    kind = {"combination_type": "svd", "svd_rank": rank} if rank else {"combination_type": "cat"}
    model.add_weighted_adapter(["default", "other"], [0.7, 0.7], "sum", **kind)
    model.set_adapter("sum")
    model.delete_adapter("default")
    model.delete_adapter("other")
    expected = {n: t.double() for n, t in model.merge_and_unload().state_dict().items()}
    before = type(llama()).from_pretrained(base).state_dict()
    theirs = {name: tensor - before[name].double() for name, tensor in expected.items()}
    assert_close(change(base, out, llama), theirs, 1e-5)
    settings = json.loads((out / "adapter_config.json").read_text())
    assert settings["use_rslora"] is False
    assert settings["r"] == settings["lora_alpha"] == (rank or 7)


def fine_tuned(folder: Path, make: Any, dtype: torch.dtype = torch.float32) -> tuple[Path, Path]:
    """A base, and the same with every parameter changed."""
    torch.manual_seed(0)
    model = make().to(dtype)
    model.save_pretrained(folder / "base")
    for value in model.parameters():
        value.data += (0.02 * torch.randn(value.shape)).to(dtype)
    model.save_pretrained(folder / "model")
    return folder / "base", folder / "model"


def extracted(base: Path, model: Path, out: Path, rank: int, **options: Any) -> Path:
    recipe = recipe_for_extraction(base, model, rank)
    for _ in extract_adapter(recipe, out, Options(device="cpu"), **options):
        pass
    return out


@pytest.mark.parametrize("make", [llama, partial(llama, tie_word_embeddings=True), gpt2])
def test_an_extracted_adapter_is_the_truncated_change(make: Any, tmp_path: Path) -> None:
    base, model = fine_tuned(tmp_path, make)
    out = extracted(base, model, tmp_path / "out", rank=3)
    before, after = (type(make()).from_pretrained(p).state_dict() for p in (base, model))
    factors = load_file(out / "adapter_model.safetensors")
    cut = {name.removesuffix(".lora_A.weight") for name in factors if "lora_A" in name}
    tensors = loaded(base, out, make)
    for name, tensor in after.items():
        expected = tensor.double()
        if f"base_model.model.{name.removesuffix('.weight')}" in cut:
            u, s, vh = torch.linalg.svd(expected - before[name].double())
            expected = before[name].double() + u[:, :3] * s[:3] @ vh[:3]
        assert (tensors[name] - expected).norm() <= 1e-6 * expected.norm() + 1e-12, name


def test_patterns_choose_and_unchanged_tensors_are_left_out(tmp_path: Path) -> None:
    base, model = fine_tuned(tmp_path, llama)
    out = extracted(
        base, model, tmp_path / "out", rank=2, include=["*q_proj*", "*norm*"], exclude=["*.1.*"]
    )
    names = {
        name.removeprefix("base_model.model.")
        for name in load_file(out / "adapter_model.safetensors")
    }
    assert names == {
        "model.layers.0.self_attn.q_proj.lora_A.weight",
        "model.layers.0.self_attn.q_proj.lora_B.weight",
        "model.layers.0.self_attn.q_proj.base_layer.bias",
        "model.layers.0.input_layernorm.weight",
        "model.layers.0.post_attention_layernorm.weight",
        "model.norm.weight",
    }
    assert "energy kept" in (out / "README.md").read_text()
