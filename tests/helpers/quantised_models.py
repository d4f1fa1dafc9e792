"""Tiny Llamas whose linear layers are quantised, beside folders of the same weights in float32."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize, quantize
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from tests.helpers.gguf_files import gguf_name, gguf_of_parts
from tests.helpers.quantised_weights import FORMATS

HEADS = 4
FEWER = 2
GGUF_TYPES = {"Q4_K": GGMLQuantizationType.Q4_K, "Q8_0": GGMLQuantizationType.Q8_0}
NAMES = ("NF4, nested", "GPTQ, act order", "AWQ", "int4, zero", "NVFP4", "ModelOpt", *GGUF_TYPES)
"""The formats of whole models."""


@dataclass(frozen=True)
class Pair:
    """One model: as a quantised one is stored, and with the same weights in float32."""

    quantised: Path
    plain: Path


def config() -> LlamaConfig:
    return LlamaConfig(
        hidden_size=256,
        intermediate_size=256,
        num_hidden_layers=1,
        num_attention_heads=HEADS,
        num_key_value_heads=FEWER,
        vocab_size=32,
        bos_token_id=0,
        eos_token_id=1,
        tie_word_embeddings=False,
        dtype=torch.bfloat16,
    )


def quantised_llama(name: str, folder: Path, seed: int = 0) -> Pair:
    """A model in one of the formats ``NAMES``."""
    torch.manual_seed(100)
    weights = dict(LlamaForCausalLM(config()).state_dict())
    generator = torch.Generator().manual_seed(seed)
    for key, weight in weights.items():
        weight += 0.02 * torch.randn(weight.shape, generator=generator)
        weights[key] = weight.bfloat16().float()
    folder.mkdir(parents=True)
    make = _gguf if name in GGUF_TYPES else _safetensors
    values = make(name, weights, folder / "quantised", np.random.default_rng(seed))
    plain = folder / "plain"
    plain.mkdir()
    save_file(values, plain / "model.safetensors", metadata={"format": "pt"})
    settings = json.loads(config().to_json_string(use_diff=False))
    (plain / "config.json").write_text(json.dumps({**settings, "dtype": "float32"}))
    return Pair(quantised=folder / "quantised", plain=plain)


def _is_linear(key: str) -> bool:
    return "_proj." in key


def _safetensors(
    name: str, weights: dict[str, Tensor], folder: Path, draw: np.random.Generator
) -> dict[str, Tensor]:
    """Write a folder, and return the model's weights."""
    stored: dict[str, Tensor] = {}
    values = dict(weights)
    for key, weight in weights.items():
        if not _is_linear(key):
            stored[key] = weight.bfloat16()
            continue
        module = key.removesuffix(".weight")
        parts, exact = FORMATS[name].make(module, (weight.shape[0], weight.shape[1]), draw)
        stored |= parts
        values[key] = torch.from_numpy(np.ascontiguousarray(exact))
    folder.mkdir()
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    settings = json.loads(config().to_json_string(use_diff=False))
    settings["quantization_config"] = FORMATS[name].config
    (folder / "config.json").write_text(json.dumps(settings))
    for name_beside in ("quantize_config.json", "hf_quant_config.json"):
        (folder / name_beside).write_text("{}")
    return values


def _gguf(
    name: str, weights: dict[str, Tensor], folder: Path, draw: np.random.Generator
) -> dict[str, Tensor]:
    """Write a GGUF file beside a config, and return the model's weights."""
    kind = GGUF_TYPES[name]
    parts: dict[str, tuple[int, tuple[int, ...], bytes]] = {}
    values = dict(weights)
    for key, weight in weights.items():
        shape = tuple(weight.shape)
        if weight.ndim == 1:
            parts[gguf_name(key)] = (0, shape, weight.numpy().tobytes())
            continue
        raw = _blocks(kind, weight, draw)
        parts[gguf_name(key)] = (int(kind), shape, raw.tobytes())
        exact = torch.from_numpy(dequantize(raw, kind).reshape(shape).copy())
        heads = {"q_proj": HEADS, "k_proj": FEWER}.get(key.split(".")[-2], 0)
        if heads:  # rows of a head stand in pairs in the file
            exact = exact.view(heads, shape[0] // heads // 2, 2, -1).transpose(1, 2)
        values[key] = exact.reshape(shape).contiguous()
    metadata = {"general.architecture": "llama", "llama.attention.head_count": HEADS}
    metadata["llama.attention.head_count_kv"] = FEWER
    folder.mkdir()
    (folder / "model.gguf").write_bytes(gguf_of_parts(metadata, parts))
    settings = config().to_json_string(use_diff=False)
    (folder / "config.json").write_text(settings)
    return values


def _blocks(
    kind: GGMLQuantizationType, weight: Tensor, draw: np.random.Generator
) -> NDArray[np.uint8]:
    """Rows of a quantised type; of a type that nothing here makes, valid blocks at random."""
    if kind is GGMLQuantizationType.Q8_0:
        return quantize(weight.numpy(), kind)
    block, size = GGML_QUANT_SIZES[kind]
    rows = weight.shape[0]
    count = weight.shape[1] // block
    raw = draw.integers(0, 256, (rows, count, size), dtype=np.uint8)
    scales = struct.pack("<ee", 0.0004, 0.002)  # of values, and of minima
    raw[..., : len(scales)] = np.frombuffer(scales, dtype=np.uint8)
    return raw.reshape(rows, -1)
