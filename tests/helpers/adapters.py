"""LoRA adapters in PEFT's form, for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
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
