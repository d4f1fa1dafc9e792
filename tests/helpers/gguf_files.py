"""GGUF files as llama.cpp's converter writes them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

KINDS = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 30}
NAMES = (
    ("model.embed_tokens", "token_embd"),
    ("model.norm", "output_norm"),
    ("lm_head", "output"),
    ("model.layers.", "blk."),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("self_attn.qkv_proj", "attn_qkv"),
    ("mlp.gate_up_proj", "ffn_up"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
    ("input_layernorm", "attn_norm"),
    ("pre_feedforward_layernorm", "ffn_norm"),
    ("post_feedforward_layernorm", "post_ffw_norm"),
)


def gguf_of(model: PreTrainedModel, path: Path, dtype: torch.dtype = torch.float16) -> Path:
    """A GGUF file of a model, in ``dtype`` where it is a matrix, else float32."""
    config = model.config
    gemma = "gemma" in model.config.model_type
    architecture = config.model_type.removesuffix("_text")
    heads = config.num_attention_heads
    fewer = config.num_key_value_heads
    tensors = {}
    for tensor_name, tensor in model.state_dict().items():
        if tensor_name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        name = gguf_name(tensor_name, gemma=gemma)
        value = tensor
        if architecture == "llama" and ("attn_q." in name or "attn_k." in name):
            count = heads if "attn_q." in name else fewer
            pairs = value.reshape(count, 2, value.shape[0] // count // 2, *value.shape[1:])
            value = pairs.swapaxes(1, 2).reshape(value.shape)
        if gemma and name.endswith("norm.weight"):
            value = value + 1
        tensors[name] = value.to(dtype if value.ndim > 1 else torch.float32)
    numbers = {
        "block_count": config.num_hidden_layers,
        "embedding_length": config.hidden_size,
        "attention.head_count": heads,
        "attention.head_count_kv": fewer,
    }
    metadata = {f"{architecture}.{key}": number for key, number in numbers.items()}
    path.write_bytes(gguf_bytes({"general.architecture": architecture, **metadata}, tensors))
    return path


def gguf_name(name: str, *, gemma: bool = False) -> str:
    """The name of a tensor in a file of GGUF."""
    for theirs, short in NAMES:
        name = name.replace(theirs, short)
    after = "post_attention_norm" if gemma else "ffn_norm"
    return name.replace("post_attention_layernorm", after)


Metadata = Mapping[str, str | int | list[str]]


def gguf_bytes(metadata: Metadata, tensors: Mapping[str, Tensor]) -> bytes:
    """The bytes of a file with this metadata and these tensors."""
    parts = {}
    for name, tensor in tensors.items():
        stored = tensor.contiguous().view(torch.uint8).numpy().astype(np.uint8).tobytes()
        parts[name] = (KINDS[tensor.dtype], tuple(tensor.shape), stored)
    return gguf_of_parts(metadata, parts)


def gguf_of_parts(
    metadata: Metadata, tensors: Mapping[str, tuple[int, tuple[int, ...], bytes]]
) -> bytes:
    """The bytes of a file; each tensor has the number of its type, its shape and its bytes."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(text(key) + _value(value) for key, value in metadata.items())
    data = b""
    for name, (kind, shape, stored) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *reversed(shape))
        head += struct.pack("<IQ", kind, len(data))
        data += stored + bytes(-len(stored) % 32)
    return head + bytes(-len(head) % 32) + data


def text(value: str) -> bytes:
    """A string of the format."""
    return struct.pack("<Q", len(value.encode())) + value.encode()


def _value(value: str | int | list[str]) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
