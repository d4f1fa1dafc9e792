"""Checkpoints to measure whole merges on: a base model and T fine-tunes of it, made from noise.

Names and shapes are those of the model classes; nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import (
    CLIPVisionConfig,
    CLIPVisionModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)
from transformers.modeling_utils import PreTrainedModel

from tests.benchmarks.experts import norms, task_vector

CHANGE = 0.01
"""Norm of the strongest expert's change of a matrix, as a share of the norm of the matrix."""

RATIO = 5.0
"""Norm of the strongest expert's change over the weakest's."""


def gpt2_set(folder: Path, experts: int, *, layers: int = 12) -> tuple[Path, list[Path]]:
    """A GPT-2 (124 million parameters with 12 layers), 0.5 GB a model; folders written anew."""
    config = GPT2Config(n_layer=layers)
    with torch.device("meta"):
        return _write(folder, GPT2LMHeadModel(config), experts)


def vit_b32_set(folder: Path, experts: int, *, layers: int = 12) -> tuple[Path, list[Path]]:
    """The vision tower of CLIP ViT-B/32 (88 million parameters), 0.35 GB a model."""
    config = CLIPVisionConfig(patch_size=32, num_hidden_layers=layers)
    with torch.device("meta"):
        return _write(folder, CLIPVisionModel(config), experts)


def llama_set(folder: Path, experts: int, *, layers: int = 14) -> tuple[Path, list[Path]]:
    """A Llama (245 million parameters with 14 layers) in bfloat16, 0.5 GB a model."""
    config = LlamaConfig(
        hidden_size=1024,
        intermediate_size=2816,
        num_attention_heads=16,
        num_key_value_heads=16,
        num_hidden_layers=layers,
        dtype=torch.bfloat16,
    )
    with torch.device("meta"):
        return _write(folder, LlamaForCausalLM(config), experts, torch.bfloat16)


def _write(
    folder: Path, model: PreTrainedModel, experts: int, dtype: torch.dtype = torch.float32
) -> tuple[Path, list[Path]]:
    """``model`` is on the meta device. Returns the base's folder and the experts'."""
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    with torch.device("cpu"):
        base = _base(shapes)
        base_folder = _save(folder / "base", model, base, dtype)
        expert_folders = [
            _save(folder / f"expert-{t}", model, _expert(base, seed=t, size=size), dtype)
            for t, size in enumerate(norms(experts, CHANGE, RATIO), start=1)
        ]
    return base_folder, expert_folders


def _base(shapes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        name: torch.randn(shape, generator=generator).mul_(0.02) for name, shape in shapes.items()
    }


def _expert(base: Mapping[str, Tensor], seed: int, size: float) -> dict[str, Tensor]:
    """Matrices move by ``size`` of their norm, other tensors by a tenth of that."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, weight in base.items():
        norm = size * float(torch.linalg.vector_norm(weight))
        if weight.ndim == 2:
            change = task_vector(*weight.shape, norm, generator)
        else:
            change = torch.randn(weight.shape, generator=generator)
            change.mul_(0.1 * norm / torch.linalg.vector_norm(change))
        tensors[name] = change.add_(weight)
    return tensors


def _save(
    folder: Path, model: PreTrainedModel, tensors: dict[str, Tensor], dtype: torch.dtype
) -> Path:
    folder.mkdir(parents=True)
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    stored = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    return folder
