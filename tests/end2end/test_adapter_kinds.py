"""Every kind of PEFT's adapters that is read gives what PEFT's own ``merge_and_unload`` gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from ace_gui.checkpoints.adapters import open_adapter
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import CheckpointError
from tests.helpers.adapters import (
    ATTENTION,
    factors,
    gpt2,
    gpt_oss,
    llama,
    mixtral,
    randomised,
    resnet,
    save_adapter,
)
from tests.helpers.merges import merged_tensors
from tests.helpers.recipes import recipe_over

STACKS = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]
PATTERNS = {"rank_pattern": {"q_proj": 5}, "alpha_pattern": {"layers.1.q_proj": 3}}

LORA: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "plain": (llama, {"target_modules": ATTENTION}),
    "dora": (llama, {"target_modules": ATTENTION, "use_dora": True}),
    "dora, patterns": (llama, {"target_modules": ATTENTION, "use_dora": True, **PATTERNS}),
    "dora of an embedding": (llama, {"target_modules": ["embed_tokens"], "use_dora": True}),
    "dora of Conv1D": (
        gpt2,
        {"target_modules": ["c_attn", "c_proj"], "use_dora": True, "fan_in_fan_out": True},
    ),
    "dora of convolutions": (resnet, {"target_modules": ["convolution"], "use_dora": True}),
    "bias": (llama, {"target_modules": ATTENTION, "lora_bias": True, **PATTERNS}),
    "bias of Conv1D": (
        gpt2,
        {"target_modules": ["c_attn"], "lora_bias": True, "fan_in_fan_out": True},
    ),
    "tokens": (llama, {"target_modules": ATTENTION, "trainable_token_indices": [7, 0, 39]}),
    "tokens, tied": (
        lambda: llama(tie_word_embeddings=True),
        {"target_modules": ATTENTION, "trainable_token_indices": {"embed_tokens": [3, 2]}},
    ),
    "tokens of both tables": (
        llama,
        {
            "target_modules": ATTENTION,
            "trainable_token_indices": {"embed_tokens": [3, 2], "lm_head": [1]},
        },
    ),
    "stacks in files by expert": (mixtral, {"target_parameters": STACKS}),
    "one stack in files by expert": (mixtral, {"target_parameters": STACKS[1:]}),
    "turned stacks": (gpt_oss, {"target_parameters": STACKS}),
    "turned square stacks": (
        lambda: gpt_oss(intermediate_size=16),
        {"target_parameters": STACKS, "rank_pattern": {"experts.down_proj": 5}},
    ),
    "a bare matrix": (gpt2, {"target_parameters": ["attn.c_attn.weight"], "target_modules": []}),
}


def merges(
    make: Callable[[], Any], config: Any, folder: Path
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What the program makes of base and adapter, and what PEFT does, by the files' names."""
    torch.manual_seed(0)
    make().save_pretrained(folder / "base")
    model = type(make()).from_pretrained(folder / "base")
    adapted = randomised(peft.get_peft_model(model, config))
    adapted.save_pretrained(folder / "adapter")
    adapted.merge_and_unload().save_pretrained(folder / "merged")
    recipe = recipe_over(folder / "base", [folder / "adapter"], merge_method="linear")
    tensors = merged_tensors(prepare(recipe), folder / "store", device="cpu", as_output=True)
    return dict(tensors), load_file(folder / "merged" / "model.safetensors")


def assert_equal(actual: dict[str, Tensor], expected: dict[str, Tensor], base: Path) -> None:
    before = load_file(base / "model.safetensors")
    assert set(actual) == set(expected)
    assert any(not torch.equal(expected[name], before[name]) for name in expected)
    for name, tensor in expected.items():
        error = (actual[name].double() - tensor.double()).norm()
        assert error <= 1e-6 * tensor.double().norm(), name


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rslora", [False, True])
@pytest.mark.parametrize("kind", LORA)
def test_lora(kind: str, rslora: bool, tmp_path: Path) -> None:
    make, options = LORA[kind]
    config = peft.LoraConfig(**{"r": 4, "lora_alpha": 6, "use_rslora": rslora, **options})
    assert_equal(*merges(make, config, tmp_path), tmp_path / "base")


LYCORIS = {
    "loha": (llama, peft.LoHaConfig(r=3, alpha=5, target_modules=ATTENTION, **PATTERNS)),
    "loha of convolutions": (resnet, peft.LoHaConfig(r=3, target_modules=["convolution"])),
    "loha, three factors": (
        resnet,
        peft.LoHaConfig(r=3, target_modules=["convolution"], use_effective_conv2d=True),
    ),
    "lokr": (llama, peft.LoKrConfig(r=2, alpha=5, target_modules=ATTENTION)),
    "lokr, both factored": (
        llama,
        peft.LoKrConfig(r=1, target_modules=ATTENTION, decompose_both=True),
    ),
    "lokr of convolutions": (resnet, peft.LoKrConfig(r=1, target_modules=["convolution"])),
    "lokr, three factors": (
        resnet,
        peft.LoKrConfig(r=1, target_modules=["convolution"], use_effective_conv2d=True),
    ),
    "tokens alone": (
        llama,
        peft.TrainableTokensConfig(token_indices=[4, 1], target_modules=["embed_tokens"]),
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", LYCORIS)
def test_other_kinds(kind: str, tmp_path: Path) -> None:
    make, config = LYCORIS[kind]
    assert_equal(*merges(make, config, tmp_path), tmp_path / "base")


def test_every_other_kind_is_refused_by_its_name(tmp_path: Path) -> None:
    read = ("LORA", "LOHA", "LOKR", "TRAINABLE_TOKENS")
    for kind in peft.PeftType:
        if kind not in read:
            save_adapter(tmp_path / kind, factors("q", 4, 4), peft_type=kind)
            with pytest.raises(CheckpointError, match=kind):
                open_adapter(tmp_path / kind)
