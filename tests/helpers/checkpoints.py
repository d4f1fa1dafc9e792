"""Small model files, right and wrong, for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from ace_gui.checkpoints.input_files import FileStamp, open_regular


def entry(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, object]:
    """One tensor's entry of a safetensors header."""
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def raw_file(path: Path, header: object, data: bytes = b"") -> Path:
    """A safetensors file of this header, be it an object for JSON, text or bytes."""
    if not isinstance(header, str | bytes):
        header = json.dumps(header)
    text = header.encode() if isinstance(header, str) else header
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def tensors_of_every_format() -> dict[str, Tensor]:
    """One random tensor for each dtype that can be read, with bytes of every value in them."""
    generator = torch.Generator().manual_seed(7)
    floats = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
    integers = (torch.int64, torch.int32, torch.int16, torch.int8)
    unsigned = (torch.uint64, torch.uint32, torch.uint16, torch.uint8)
    made = {}
    for dtype in (*floats, *integers, *unsigned, torch.complex64):
        raw = torch.randint(0, 256, (3 * 5 * dtype.itemsize,), generator=generator)
        made[str(dtype).removeprefix("torch.")] = raw.to(torch.uint8).view(dtype).reshape(3, 5)
    made["bool"] = torch.rand(3, 5, generator=generator) < 0.5
    return made


def same_bits(first: Tensor, second: Tensor) -> bool:
    """Equal dtype, shape and bytes (NaN equals itself)."""
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    return torch.equal(
        first.contiguous().reshape(-1).view(torch.uint8),
        second.contiguous().reshape(-1).view(torch.uint8),
    )


def tiny_bert(generator: torch.Generator) -> dict[str, Tensor]:
    """A matrix, its bias and an embedding, by the names they have in BERT."""
    query = "bert.encoder.layer.0.attention.self.query"
    return {
        f"{query}.weight": torch.randn(8, 8, generator=generator),
        f"{query}.bias": torch.randn(8, generator=generator),
        "bert.embeddings.word_embeddings.weight": torch.randn(12, 8, generator=generator),
    }


def save_model(
    folder: Path,
    tensors: Mapping[str, Tensor],
    *,
    config: Mapping[str, object] | None = None,
    shards: int = 1,
) -> Path:
    """A Hugging Face folder with one or several shards, written with safetensors itself."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config or {"model_type": "bert"}))
    if shards == 1:
        save_file(dict(tensors), folder / "model.safetensors", metadata={"format": "pt"})
        return folder
    weight_map = {}
    names = list(tensors)
    for number in range(shards):
        file = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
        held = names[number::shards]
        save_file({name: tensors[name] for name in held}, folder / file, {"format": "pt"})
        weight_map.update(dict.fromkeys(held, file))
    write_index(folder, weight_map)
    return folder


def write_index(folder: Path, weight_map: Mapping[str, object]) -> Path:
    """``model.safetensors.index.json`` with this weight map."""
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {}, "weight_map": dict(weight_map)}))
    return path


def small_tensors(count: int = 6) -> dict[str, Tensor]:
    """Named float32 tensors of different shapes with different values."""
    generator = torch.Generator().manual_seed(3)
    return {
        f"layer.{number}.weight": torch.randn(2 + number, 3, generator=generator)
        for number in range(count)
    }


def stamps(*paths: Path) -> tuple[FileStamp, ...]:
    """The files as they are now."""
    file_stamps = []
    for path in paths:
        with open_regular(path) as (_, stamp):
            file_stamps.append(stamp)
    return tuple(file_stamps)
