"""A tower of CLIP on the whole of it, a language model on one that also sees, and the other way."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file

from ace_gui.engine.contract.plan import Disposition
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import MismatchError
from ace_gui.recipe import ModelEntry, Recipe
from tests.helpers.merges import merged_tensors

SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
}
VISION = transformers.CLIPVisionConfig(**SIZES, image_size=16, patch_size=8, projection_dim=8)
TEXT = transformers.CLIPTextConfig(
    **SIZES, vocab_size=40, max_position_embeddings=20, projection_dim=8
)
LLAMA = transformers.LlamaConfig(**SIZES, num_key_value_heads=2, vocab_size=40)
CONFIGS = {
    "CLIPModel": transformers.CLIPConfig(text_config=TEXT, vision_config=VISION, projection_dim=8),
    "CLIPVisionModel": VISION,
    "CLIPVisionModelWithProjection": VISION,
    "CLIPTextModel": TEXT,
    "LlavaForConditionalGeneration": transformers.LlavaConfig(
        text_config=LLAMA, vision_config=VISION
    ),
    "LlamaForCausalLM": LLAMA,
    "LlamaModel": LLAMA,
}


def saved(folder: Path, kind: str, seed: int) -> Path:
    torch.manual_seed(seed)
    model = getattr(transformers, kind)(CONFIGS[kind])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape))
    model.save_pretrained(folder)
    return folder


def merge_of(folder: Path, base: str, *kinds: str) -> Recipe:
    experts = [saved(folder / f"e{i}", kind, i + 1) for i, kind in enumerate(kinds)]
    return Recipe(
        base_model=saved(folder / "base", base, 0),
        models=tuple(ModelEntry(model=expert) for expert in experts),
        merge_method="linear",
    )


@pytest.mark.parametrize(
    ("complete", "part", "prefix", "part_is_base"),
    [
        ("CLIPModel", "CLIPVisionModel", "vision_model.", False),
        ("CLIPModel", "CLIPVisionModelWithProjection", "", False),
        ("CLIPModel", "CLIPTextModel", "text_model.", False),
        ("LlavaForConditionalGeneration", "LlamaForCausalLM", "language_model.", False),
        ("LlavaForConditionalGeneration", "LlamaModel", "language_model.model.", False),
        ("LlavaForConditionalGeneration", "CLIPVisionModel", "vision_tower.", False),
        ("CLIPModel", "CLIPVisionModel", "vision_model.", True),
        ("LlavaForConditionalGeneration", "LlamaForCausalLM", "language_model.", True),
    ],
)
def test_a_model_and_its_part_are_merged_where_they_meet(
    complete: str, part: str, prefix: str, part_is_base: bool, tmp_path
):
    base, kind = (part, complete) if part_is_base else (complete, part)
    recipe = merge_of(tmp_path, base, kind, kind)
    prepared = prepare(recipe)
    tensors = merged_tensors(prepared, tmp_path / "store", device="cpu", as_output=True)
    ours = [load_file(entry.model / "model.safetensors") for entry in recipe.models]
    before = load_file(recipe.base_model / "model.safetensors")
    assert tensors.keys() == before.keys()
    names = {prefix + name: name for name in (before if part_is_base else ours[0])}
    for of_whole, of_part in names.items():
        of_base, of_expert = (of_part, of_whole) if part_is_base else (of_whole, of_part)
        torch.testing.assert_close(tensors[of_base], (ours[0][of_expert] + ours[1][of_expert]) / 2)
    for name in before.keys() - (before if part_is_base else names.keys()):
        torch.testing.assert_close(tensors[name], before[name])
    per_expert = {r.name for r in prepared.plan.rows if r.disposition is Disposition.PER_EXPERT}
    assert per_expert == (ours[0].keys() - names.keys() if part_is_base else set())
    (check,) = (check for check in prepared.plan.checks if check.title == "Names")
    start = (
        f"Has more than the base: {len(per_expert)}"
        if per_expert
        else "Has only a part of the base"
    )
    assert check.sentence.startswith(start)
    assert check.subject == ", ".join(expert.name for expert in prepared.plan.experts)


def test_towers_of_two_kinds_meet_in_one_model(tmp_path):
    recipe = merge_of(tmp_path, "CLIPModel", "CLIPVisionModel", "CLIPTextModel")
    rows = {row.name: row.experts for row in prepare(recipe).plan.rows}
    assert {experts for name, experts in rows.items() if name.startswith("vision_")} == {(0,)}
    assert {experts for name, experts in rows.items() if name.startswith("text_model")} == {(1,)}


@pytest.mark.parametrize(
    ("blocks", "said"),
    [(1, "lacks 9 tensors of the base"), (3, "has 9 tensors that the base lacks")],
)
def test_a_model_of_other_blocks_is_no_part(blocks: int, said: str, tmp_path):
    recipe = merge_of(tmp_path, "LlamaForCausalLM", "LlamaForCausalLM")
    config = transformers.LlamaConfig(**{**LLAMA.to_dict(), "num_hidden_layers": blocks})
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path / "e0")
    with pytest.raises(MismatchError, match=said):
        prepare(recipe)
