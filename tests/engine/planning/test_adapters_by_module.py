"""Adapters name modules of the model; files may have other names, or several in one tensor."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import CheckpointError, MismatchError
from ace_gui.recipe import ModelEntry, Recipe
from tests.helpers.adapters import PREFIX, SIZES, factors, save_adapter
from tests.helpers.merges import merged_tensors

VISION = {**SIZES, "image_size": 16, "patch_size": 8}


def llava() -> Any:
    return transformers.LlavaForConditionalGeneration(
        transformers.LlavaConfig(
            text_config=transformers.LlamaConfig(**SIZES),
            vision_config=transformers.CLIPVisionConfig(**VISION),
        )
    )


def step() -> Any:
    text = {**SIZES, "head_dim": 8, "moe_layers_enum": (), "share_expert_dim": 24}
    return transformers.Step3p7ForConditionalGeneration(
        transformers.Step3p7Config(text_config=text, vision_config=VISION)
    )


MODELS = {
    "renamed": lambda: transformers.ViTForImageClassification(transformers.ViTConfig(**VISION)),
    "towers": llava,
    # Gate and up are one tensor in the files.
    "split": lambda: transformers.Dinov2Model(
        transformers.Dinov2Config(**VISION, use_swiglu_ffn=True)
    ),
    # The files have the language model's blocks under the name that a tower's are similar to.
    "similar": step,
    "plain": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)),
}


def tensors(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def make(name: str, folder: Path) -> tuple[Any, dict[str, torch.nn.Linear]]:
    """A saved base, read again, and its linear modules."""
    torch.manual_seed(0)
    MODELS[name]().save_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder)
    model = getattr(transformers, model.config.architectures[0]).from_pretrained(folder)
    linear = {n: m for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)}
    return model, linear


def merged(base: Path, adapter: Path, store: Path) -> Mapping[str, Tensor]:
    recipe = Recipe(base_model=base, models=(ModelEntry(model=adapter),), merge_method="linear")
    return merged_tensors(prepare(recipe), store, device="cpu", as_output=True)


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_an_adapter_changes_the_modules_it_names(name: str, every: int, tmp_path):
    """As if it were added to the loaded model, which transformers then saves."""
    model, linear = make(name, tmp_path / "base")
    pairs: dict[str, Tensor] = {}
    for seed, (module, layer) in enumerate(list(linear.items())[::every]):
        pair = factors(module, *layer.weight.shape, seed=seed)
        with torch.no_grad():
            layer.weight += (
                4
                * pair[f"{PREFIX}{module}.lora_B.weight"]
                @ (pair[f"{PREFIX}{module}.lora_A.weight"])
            )
        pairs |= pair
    model.save_pretrained(tmp_path / "whole")
    adapter = save_adapter(tmp_path / "adapter", pairs)
    stored = merged(tmp_path / "base", adapter, tmp_path / "store")
    expected = tensors(tmp_path / "whole")
    before = tensors(tmp_path / "base")
    assert stored.keys() == expected.keys()
    assert sum(not torch.equal(before[n], expected[n]) for n in expected)
    for tensor in expected:
        torch.testing.assert_close(stored[tensor], expected[tensor])


def test_names_of_the_files_are_understood_too(tmp_path):
    """As adapters have them that were trained when the modules were called so."""
    make("renamed", tmp_path / "base")
    name = "vit.encoder.layer.0.attention.attention.query"
    adapter = save_adapter(tmp_path / "adapter", factors(name, 16, 16))
    stored = merged(tmp_path / "base", adapter, tmp_path / "store")
    before = tensors(tmp_path / "base")
    changed = [n for n in before if not torch.equal(before[n], stored[n])]
    assert changed == [f"{name}.weight"]


def test_a_bias_that_lies_within_another_tensor_is_refused(tmp_path):
    _, linear = make("split", tmp_path / "base")
    module = next(name for name in linear if name.endswith("up_proj"))
    outputs, inputs = linear[module].weight.shape
    pair = {**factors(module, outputs, inputs), f"{PREFIX}{module}.bias": torch.ones(outputs)}
    adapter = save_adapter(tmp_path / "adapter", pair, bias="lora_only")
    with pytest.raises(MismatchError, match="part of a larger tensor"):
        merged(tmp_path / "base", adapter, tmp_path / "store")


def tied_llama(folder: Path) -> dict[str, Tensor]:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**SIZES, tie_word_embeddings=True)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return tensors(folder)


def test_a_tied_embedding_and_head_are_changed_together(tmp_path):
    """PEFT adds both changes to the one tensor; it saves what an embedding's was added to."""
    before = tied_llama(tmp_path / "base")
    name = "model.embed_tokens"
    prefix = PREFIX
    table = factors(name, 16, 40, seed=1, form="")
    a, b = (table[f"{prefix}{name}.lora_{letter}"] for letter in "AB")
    head = factors("lm_head", 40, 16, seed=2)
    pairs = {
        f"{prefix}{name}.lora_embedding_A": a,
        f"{prefix}{name}.lora_embedding_B": b,
        f"{prefix}{name}.base_layer.weight": before[f"{name}.weight"].clone(),
        f"{prefix}lm_head.base_layer.weight": before[f"{name}.weight"].clone(),
        **head,
    }
    adapter = save_adapter(tmp_path / "adapter", pairs)
    stored = merged(tmp_path / "base", adapter, tmp_path / "store")
    change = head[f"{prefix}lm_head.lora_B.weight"] @ head[f"{prefix}lm_head.lora_A.weight"]
    expected = before[f"{name}.weight"] + 4 * ((b @ a).T + change)
    torch.testing.assert_close(stored[f"{name}.weight"], expected)
    assert stored.keys() == before.keys()


def test_an_embedding_on_another_table_than_the_bases(tmp_path):
    """What the adapter brings to be changed counts, not what the base has."""
    before = tied_llama(tmp_path / "base")
    name = "model.embed_tokens"
    table = factors(name, 16, 40, seed=1, form="")
    a, b = (table[f"{PREFIX}{name}.lora_{letter}"] for letter in "AB")
    own_table = before[f"{name}.weight"] + 1
    pairs = {
        f"{PREFIX}{name}.lora_embedding_A": a,
        f"{PREFIX}{name}.lora_embedding_B": b,
        f"{PREFIX}{name}.base_layer.weight": own_table,
    }
    adapter = save_adapter(tmp_path / "adapter", pairs)
    stored = merged(tmp_path / "base", adapter, tmp_path / "store")
    torch.testing.assert_close(stored[f"{name}.weight"], own_table + 4 * (b @ a).T)


@pytest.mark.parametrize("keeps_ties", [True, False])
def test_a_head_that_stays_tied_is_not_added(keeps_ties: bool, tmp_path):
    """PEFT saves both names of a table that was trained as one (``ensure_weight_tying``)."""
    before = tied_llama(tmp_path / "base")
    name = "model.embed_tokens.weight"
    table = before[name] + 1
    pairs = {
        **factors("model.layers.0.mlp.down_proj", 16, 24),
        f"{PREFIX}{name}": table,
        f"{PREFIX}lm_head.weight": table.clone(),
    }
    adapter = save_adapter(tmp_path / "adapter", pairs, ensure_weight_tying=keeps_ties)
    stored = merged(tmp_path / "base", adapter, tmp_path / "store")
    torch.testing.assert_close(stored[name], table)
    assert stored.keys() == before.keys()


TABLE = "model.embed_tokens.weight"
HEAD = "lm_head.weight"


@pytest.mark.parametrize("saved", [(TABLE,), (HEAD,), (TABLE, HEAD)], ids=str)
@pytest.mark.parametrize("with_head", [False, True], ids=["stored once", "stored twice"])
def test_a_table_that_was_trained_apart_from_its_head(
    with_head: bool, saved: tuple[str, ...], tmp_path
):
    """PEFT unties what it saves whole; what it does not save stays as it is in the base."""
    before = tied_llama(tmp_path / "base")
    if with_head:
        save_file(
            {**before, HEAD: before[TABLE].clone()},
            tmp_path / "base" / "model.safetensors",
            {"format": "pt"},
        )
    trained = {name: before[TABLE] + number for number, name in enumerate(saved, 1)}
    pairs = {
        **factors("model.layers.0.mlp.down_proj", 16, 24),
        **{f"{PREFIX}{name}": value for name, value in trained.items()},
    }
    adapter = save_adapter(tmp_path / "adapter", pairs)
    stored = merged(tmp_path / "base", adapter, tmp_path / "store")
    for name in (TABLE, HEAD):
        torch.testing.assert_close(stored[name], trained.get(name, before[TABLE]))


def test_new_rows_of_a_table_whose_head_was_not_saved_are_refused(tmp_path):
    before = tied_llama(tmp_path / "base")
    longer = torch.cat([before[TABLE], before[TABLE][:2]])
    pairs = {**factors("model.layers.0.mlp.down_proj", 16, 24), f"{PREFIX}{TABLE}": longer}
    adapter = save_adapter(tmp_path / "adapter", pairs)
    with pytest.raises(CheckpointError, match=r"`lm_head.weight`, which the base ties to it"):
        merged(tmp_path / "base", adapter, tmp_path / "store")


@pytest.mark.parametrize("module", ["lm_head", "model.embed_tokens", "model.layers.0.mlp.up_proj"])
def test_a_change_of_one_tied_tensor_is_said(tmp_path: Path, module: str) -> None:
    before = tied_llama(tmp_path / "base")
    shape = before.get(f"{module}.weight", before["model.embed_tokens.weight"]).shape
    adapter = save_adapter(tmp_path / "adapter", factors(module, *shape))
    recipe = Recipe(
        base_model=tmp_path / "base",
        models=(ModelEntry(model=adapter),),
        merge_method="linear",
    )
    checks = prepare(recipe).plan.checks
    said = [check for check in checks if "merge_and_unload" in check.sentence and check.is_worry]
    assert len(said) == (not module.endswith("up_proj"))
