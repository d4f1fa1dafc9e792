"""LoRA adapters in PEFT's form, and small models with adapters of random weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor

PREFIX = "base_model.model."


def save_adapter(folder: Path, tensors: Mapping[str, Tensor], **config: object) -> Path:
    """An adapter folder; ``tensors`` by PEFT's names."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"peft_type": "LORA", "r": 2, "lora_alpha": 8, "base_model_name_or_path": "base"}
    (folder / "adapter_config.json").write_text(json.dumps({**settings, **config}))
    save_file(dict(tensors), folder / "adapter_model.safetensors", metadata={"format": "pt"})
    return folder


def factors(
    module: str,
    outputs: int,
    inputs: int,
    *,
    rank: int = 2,
    seed: int = 0,
    form: str = ".weight",
    prefix: str = PREFIX,
) -> dict[str, Tensor]:
    """Random A (rank × inputs) and B (outputs × rank) of a linear module."""
    generator = torch.Generator().manual_seed(seed)
    return {
        f"{prefix}{module}.lora_A{form}": torch.randn(rank, inputs, generator=generator),
        f"{prefix}{module}.lora_B{form}": torch.randn(outputs, rank, generator=generator),
    }


SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "intermediate_size": 24,
    "vocab_size": 40,
}


def llama(**more: Any) -> Any:
    config = {**SIZES, "attention_bias": True, "mlp_bias": True, **more}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**config))


def gpt2() -> Any:
    config = transformers.GPT2Config(n_embd=16, n_layer=2, n_head=2, vocab_size=40, n_positions=8)
    return transformers.GPT2LMHeadModel(config)


def mixtral() -> Any:
    return transformers.MixtralForCausalLM(transformers.MixtralConfig(**SIZES, num_local_experts=3))


def gpt_oss(**more: Any) -> Any:
    sizes = {**SIZES, "head_dim": 8, "num_local_experts": 3, **more}
    return transformers.GptOssForCausalLM(transformers.GptOssConfig(**sizes))


def resnet() -> Any:
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"
    )
    return transformers.ResNetForImageClassification(config)


ATTENTION = ["q_proj", "v_proj"]


def randomised(model: Any, seed: int = 3) -> Any:
    generator = torch.Generator().manual_seed(seed)
    for name, value in model.named_parameters():
        if any(part in name for part in ("lora_", "hada_", "lokr_", "trainable_tokens")):
            sign = 1 if "magnitude" not in name else 0
            noise = torch.randn(value.shape, generator=generator) * 0.3
            value.data = noise if sign else value.data * (1 + noise).abs()
    return model
