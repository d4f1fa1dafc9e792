"""Quantised models merge as their dequantised selves, as base, expert and base of an adapter."""

from __future__ import annotations

import json
from pathlib import Path

import peft
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from ace_gui.engine.contract.plan import CheckVerdict
from ace_gui.engine.merging.store import reports
from ace_gui.engine.planning.preflight import preflight
from ace_gui.engine.planning.prepare import prepare
from tests.helpers.command import ace_gui
from tests.helpers.merges import merged_folder, merged_tensors
from tests.helpers.pages import Page
from tests.helpers.quantised_models import NAMES, Pair, quantised_llama
from tests.helpers.recipes import file_over, recipe_over

pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")


@pytest.fixture(scope="module")
def plain_models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Plain models of the same architecture."""
    folder = tmp_path_factory.mktemp("others")
    return [quantised_llama("Q8_0", folder / str(seed), seed).plain for seed in (7, 8)]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pair]:
    folder = tmp_path_factory.mktemp("pairs")
    return {name: quantised_llama(name, folder / str(at)) for at, name in enumerate(NAMES)}


def merged(base: Path, experts: list[Path], out: Path, **changes: object) -> dict[str, Tensor]:
    recipe = recipe_over(base, experts, merge_method="ties", out_dtype="float32", **changes)
    return load_file(merged_folder(recipe, out) / "model.safetensors")


def assert_same(ours: dict[str, Tensor], exact: dict[str, Tensor]) -> None:
    assert set(ours) == set(exact)
    for name, tensor in exact.items():
        torch.testing.assert_close(ours[name], tensor, rtol=1e-6, atol=1e-8, msg=name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("role", ["base", "expert"])
def test_a_merge_is_that_of_the_dequantised_folder(
    name: str, role: str, pairs: dict[str, Pair], plain_models: list[Path], tmp_path
):
    pair = pairs[name]
    if role == "base":
        ours = merged(pair.quantised, plain_models, tmp_path / "ours")
        exact = merged(pair.plain, plain_models, tmp_path / "exact")
    else:
        ours = merged(plain_models[0], [pair.quantised, plain_models[1]], tmp_path / "ours")
        exact = merged(plain_models[0], [pair.plain, plain_models[1]], tmp_path / "exact")
    assert_same(ours, exact)


@pytest.mark.parametrize("name", NAMES)
def test_the_output_is_in_the_16_bits_of_the_config(
    name: str, pairs: dict[str, Pair], plain_models: list[Path], tmp_path
):
    recipe = recipe_over(pairs[name].quantised, plain_models, merge_method="linear")
    out = merged_folder(recipe, tmp_path / "out")
    assert {tensor.dtype for tensor in load_file(out / "model.safetensors").values()} == {
        torch.bfloat16
    }
    config = json.loads((out / "config.json").read_text())
    assert not any("quant" in key for key in config)
    assert config["dtype"] == "bfloat16"
    assert not (out / "quantize_config.json").exists()
    model, report = AutoModelForCausalLM.from_pretrained(out, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert model.dtype == torch.bfloat16


@pytest.fixture(scope="module")
def adapter(pairs: dict[str, Pair], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LoRA by PEFT for the NF4 model, as QLoRA trains it."""
    folder = tmp_path_factory.mktemp("adapter") / "lora"
    model = AutoModelForCausalLM.from_pretrained(pairs["NF4, nested"].plain)
    settings = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "down_proj"])
    tuned = peft.get_peft_model(model, settings)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in tuned.parameters():
            if parameter.requires_grad:
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    tuned.save_pretrained(folder)
    return folder


def test_an_adapter_is_merged_onto_its_quantised_base(
    pairs: dict[str, Pair], adapter: Path, tmp_path
):
    pair = pairs["NF4, nested"]
    recipe = recipe_over(pair.quantised, [adapter], merge_method="linear", out_dtype="float32")
    ours = load_file(merged_folder(recipe, tmp_path / "ours") / "model.safetensors")
    model = AutoModelForCausalLM.from_pretrained(pair.plain)
    exact = peft.PeftModel.from_pretrained(model, adapter).merge_and_unload().state_dict()
    assert_same(ours, {name: exact[name] for name in ours})
    check = next(c for c in preflight(prepare(recipe)) if c.title == "Quantisation")
    assert check.verdict is CheckVerdict.NOTE
    assert "rightly merged onto it" in check.sentence
    assert "original" not in check.sentence


def test_the_checks_say_once_that_the_original_weights_are_better(
    pairs: dict[str, Pair], plain_models: list[Path]
):
    experts = [pairs["Q4_K"].quantised, pairs["GPTQ, act order"].quantised]
    checks = preflight(prepare(recipe_over(pairs["AWQ"].quantised, experts)))
    (check,) = [c for c in checks if "original ones" in c.sentence]
    assert check.title == "Quantisation"
    assert all(word in check.sentence for word in ("AWQ 4 bits", "GPTQ 4 bits", "GGUF Q4_K"))
    assert not any(c.title == "Number format" and c.verdict is CheckVerdict.WARNING for c in checks)
    plain = preflight(prepare(recipe_over(plain_models[0], plain_models[1:])))
    assert any(c.sentence == "No model is quantised." for c in plain)


def noise(base: Path, experts: list[Path], folder: Path) -> dict[str, float | None]:
    prepared = prepare(recipe_over(base, experts, merge_method="linear"))
    merged_tensors(prepared, folder, device="cpu")
    return {name: report.quantisation_noise for name, report in reports(folder).items()}


def test_the_report_of_a_layer_says_how_much_of_the_change_is_rounding(
    plain_models: list[Path], adapter: Path, pairs: dict[str, Pair], tmp_path
):
    layer = "model.layers.0.mlp.down_proj.weight"
    with_noise = noise(pairs["Q8_0"].quantised, plain_models, tmp_path / "1")
    value = with_noise[layer]
    assert value is not None
    assert 0 < value < 0.01
    assert with_noise["model.norm.weight"] is None
    assert noise(plain_models[0], plain_models[1:], tmp_path / "2")[layer] is None
    of_few_bits = noise(plain_models[0], [pairs["Q4_K"].quantised], tmp_path / "4")[layer]
    assert of_few_bits is not None
    assert of_few_bits > value
    of_adapter = noise(pairs["NF4, nested"].quantised, [adapter], tmp_path / "3")
    assert set(of_adapter.values()) == {None}


@pytest.mark.parametrize("is_quantised", [True, False])
def test_a_report_has_the_noise_where_something_is_quantised(
    is_quantised: bool, pairs: dict[str, Pair], plain_models: list[Path], tmp_path
):
    base = pairs["NF4, nested"].quantised if is_quantised else plain_models[0]
    file = file_over(
        tmp_path, base, [*plain_models[1:], pairs["Q8_0"].plain], merge_method="linear"
    )
    result = ace_gui("report", file, "--out", tmp_path / "r.html", "--quiet")
    assert result.returncode == 0, result.stderr
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert ("quantisation noise" in text) == is_quantised
    assert ("is rounding of quantised weights" in text) == is_quantised
    if is_quantised:
        cells = Page(text).table("All tensors").column("quantisation noise").values()
        assert any(cell != "–" for cell in cells)
