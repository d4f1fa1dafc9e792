"""Small models, and adapters on them with random weights."""

from __future__ import annotations

from typing import Any

import torch
import transformers

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
