"""A small model of RoBERTa's shape with eight experts whose changes look like fine-tuning.

O outputs, I inputs, K directions.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import RobertaConfig, RobertaForMaskedLM

TASKS = ("cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb")

_NORMS = (0.09, 0.35, 0.08, 0.26, 0.39, 0.07, 0.18, 0.12)
"""How far each task moves the weights, by and large: long trainings move them further."""

_PAIRS = {"mnli": "rte", "qqp": "mrpc"}
"""Tasks whose changes share directions."""


def glue_family(folder: Path, *, blocks: int = 12, width: int = 96, seed: int = 0) -> Path:
    """Write a base, eight experts and a recipe; the recipe's path."""
    config = RobertaConfig(
        num_hidden_layers=blocks,
        hidden_size=width,
        num_attention_heads=4,
        intermediate_size=4 * width,
        vocab_size=128,
        max_position_embeddings=40,
    )
    torch.manual_seed(seed)
    model = RobertaForMaskedLM(config)
    base = {
        name: t.clone() for name, t in model.state_dict().items() if "lm_head.decoder" not in name
    }
    _save(folder / "base", config, base)
    generator = torch.Generator().manual_seed(seed)
    shared = {
        task: int(torch.randint(1 << 30, (), generator=generator)) for task in _PAIRS.values()
    }
    for task, norm in zip(TASKS, _NORMS, strict=True):
        seeds = shared.get(_PAIRS.get(task, task))
        tuned = {
            name: weight + _change(weight, name, norm, generator, seeds)
            for name, weight in base.items()
        }
        _save(folder / task, config, tuned)
    recipe = folder / "glue.yaml"
    models = "\n".join(f"  - model: {task}" for task in TASKS)
    recipe.write_text(f"merge_method: ace\nbase_model: base\nmodels:\n{models}\n")
    return recipe


def _change(
    weight: Tensor, name: str, norm: float, generator: torch.Generator, shared: int | None
) -> Tensor:
    """A few strong directions over noise; more in late blocks and in the MLP."""
    if not weight.is_floating_point():
        return torch.zeros_like(weight)
    depth = int(name.split(".layer.")[1].split(".")[0]) if ".layer." in name else 0
    scale = norm * (0.4 + 0.08 * depth) * (1.5 if "dense" in name else 1.0)
    noise = torch.randn(weight.shape, generator=generator)
    # Heavier than a Gaussian's tails, as fine-tuning leaves them.
    noise = noise * (1 + 0.4 * torch.randn(weight.shape, generator=generator).abs())
    change = 0.35 * noise / noise.norm().clamp_min(1e-12)
    if weight.dim() == 2:
        own = _directions(weight, generator)
        change = change + own
        if shared is not None:
            change = change + 0.7 * _directions(weight, torch.Generator().manual_seed(shared))
    return scale * change


def _directions(weight_OI: Tensor, generator: torch.Generator) -> Tensor:
    """A matrix of norm about one with singular values that fall geometrically."""
    rank = min(weight_OI.shape) // 3
    left_OK = torch.linalg.qr(torch.randn(weight_OI.shape[0], rank, generator=generator))[0]
    right_IK = torch.linalg.qr(torch.randn(weight_OI.shape[1], rank, generator=generator))[0]
    sigma_K = 0.82 ** torch.arange(rank)
    return (left_OK * sigma_K / sigma_K.norm()) @ right_IK.T


def _save(folder: Path, config: RobertaConfig, tensors: dict[str, Tensor]) -> None:
    config.architectures = ["RobertaForMaskedLM"]
    config.save_pretrained(folder)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "tokenizer.json").write_text('{"version": "1.0"}')
