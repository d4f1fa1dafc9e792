"""Models of any size that take no room: the headers of their files are real, the rest is a hole."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from transformers import AutoModelForCausalLM, PretrainedConfig

SHARD_BYTES = 20_000_000_000


def sparse_model(config: PretrainedConfig, folder: Path) -> Path:
    """A folder with a causal language model of this config in bfloat16, all zeros."""
    import torch

    folder.mkdir(parents=True)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    config.architectures = [type(model).__name__]
    config.dtype = torch.bfloat16
    config.save_pretrained(folder)
    shards: list[dict[str, Any]] = [{}]
    offset = 0
    for name, tensor in model.state_dict().items():
        size = tensor.numel() * 2
        if offset and offset + size > SHARD_BYTES:
            shards.append({})
            offset = 0
        shards[-1][name] = {
            "dtype": "BF16",
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + size],
        }
        offset += size
    weight_map = {}
    for number, header in enumerate(shards, 1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        weight_map |= dict.fromkeys(header, file)
        _write(folder / file, header)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def _write(file: Path, header: dict[str, Any]) -> None:
    text = json.dumps(header).encode()
    end = max(entry["data_offsets"][1] for entry in header.values())
    with file.open("wb") as sparse:
        sparse.write(struct.pack("<Q", len(text)) + text)
        sparse.truncate(8 + len(text) + end)
