"""Cuts the samples beside this file from larger ones: ``python make_samples.py FOLDER``.

FOLDER has, on 64 × 256 weights, what the libraries of each format wrote in November 2026
(``formats.safetensors``; ``TAG.KEY`` by format) and what their own functions made of it
(``formats-reference.safetensors``), and a row of 2048 numbers and more in every type of GGUF
(``all-types.gguf``, ``all-types-reference.safetensors``). Only the first rows are kept; HQQ's codes
are whole, because distant rows share words there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import gguf
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

HERE = Path(__file__).parent
ROWS = 8
COLUMNS = 256
GGUF_COLUMNS = 512


def main() -> None:
    """Write ``samples.safetensors``, ``references.safetensors`` and the two of GGUF."""
    folder = Path(sys.argv[1])
    stored = load_file(folder / "formats.safetensors")
    values = load_file(folder / "formats-reference.safetensors")
    samples = {name: cut(name, tensor) for name, tensor in stored.items()}
    references = {tag: narrow(tensor[:ROWS]) for tag, tensor in values.items()}
    save_file(samples, HERE / "samples.safetensors")
    save_file(references, HERE / "references.safetensors")
    rows = load_file(folder / "all-types-reference.safetensors")
    blocks = {}
    for tensor in gguf.GGUFReader(folder / "all-types.gguf").tensors:
        size, count = gguf.GGML_QUANT_SIZES[tensor.tensor_type]
        raw = torch.from_numpy(tensor.data[0, : GGUF_COLUMNS // size * count].copy())
        blocks[f"{int(tensor.tensor_type)}"] = raw
        blocks[f"{int(tensor.tensor_type)}.values"] = rows[tensor.name][0, :GGUF_COLUMNS].clone()
    save_file(blocks, HERE / "gguf-types.safetensors")


def cut(name: str, tensor: Tensor) -> Tensor:
    """The part of a stored tensor that belongs to the first rows."""
    tag, key = name.split(".", 1)
    elements = ROWS * COLUMNS
    if tag.startswith("hqq"):
        return tensor
    if tag.startswith("bnb"):
        if ".quant_state" in key:
            settings = json.loads(bytes(tensor.tolist()))
            text = json.dumps({**settings, "shape": [ROWS, COLUMNS]}).encode()
            return torch.tensor(list(text), dtype=torch.uint8)
        sizes = {"weight": elements // 2, "weight.absmax": elements // 64}
        return tensor[: sizes.get(key, len(tensor))].clone()
    if key == "weight_shape":
        return torch.tensor([ROWS, COLUMNS])
    if key == "weight_zero_point":
        return tensor[: ROWS // 8].clone()
    return tensor[: ROWS if len(tensor) > 1 else 1].clone()


def narrow(tensor: Tensor) -> Tensor:
    """The tensor in bfloat16, if its values are of that format."""
    half = tensor.bfloat16()
    return half if torch.equal(half.float(), tensor) else tensor.clone()


if __name__ == "__main__":
    main()
