"""Every quantised format is read as its formula, and as its own library dequantises it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from ace_gui.checkpoints.dequantise import cell_widths
from ace_gui.checkpoints.gguf_types import QUANTISED_TYPES
from ace_gui.checkpoints.index import Checkpoint, open_checkpoint
from ace_gui.checkpoints.quantised_weights import QuantisedInfo
from ace_gui.checkpoints.reader import TensorReader
from tests.helpers.checkpoints import save_model
from tests.helpers.gguf_files import gguf_of_parts
from tests.helpers.quantised_weights import FORMATS, MODELOPT, Quantised, compressed

HERE = Path(__file__).parent
SHAPE = (64, 256)
OF_MODELOPT = (24, 96)
"""The shape of the sample of ModelOpt."""
LLAMA = {"general.architecture": "llama", "llama.attention.head_count": 2}
PACKED = "packed-"
"""Samples of compressed-tensors with other numbers of bits: random codes, no rounded weights."""
NORM = {"norm.weight": torch.ones(5, dtype=torch.bfloat16)}


def folder_of(format_: Quantised, path: Path, **config: Any) -> tuple[Path, Tensor]:
    """A folder with a weight of a format, and its values."""
    parts, values = format_.make("q", SHAPE, np.random.default_rng(0))
    settings = {"quantization_config": format_.config} if format_.config else {}
    save_model(path, {**NORM, **parts}, config={"model_type": "llama", **settings, **config})
    return path, torch.from_numpy(np.ascontiguousarray(values))


def read_in_parts(checkpoint: Checkpoint, name: str) -> Tensor:
    """A tensor, of which parts are the same."""
    with TensorReader(checkpoint) as reader:
        tensor = reader.read(name)
        end = tensor.numel()
        ranges = (
            (0, 0),
            (0, 1),
            (5, 61),
            (99, end - 2),
            (end // 2, end // 2 + 300),
            (end - 1, end),
        )
        for start, stop in ranges:
            assert torch.equal(reader.read_part(name, start, stop), tensor.flatten()[start:stop])
    return tensor


@pytest.mark.parametrize("format_", FORMATS.values(), ids=FORMATS)
def test_each_format_is_its_formula(format_: Quantised, tmp_path):
    folder, values = folder_of(format_, tmp_path / "m", torch_dtype="bfloat16")
    checkpoint = open_checkpoint(folder)
    assert set(checkpoint.tensors) == {"q.weight", "norm.weight"}
    info = checkpoint.tensors["q.weight"]
    assert isinstance(info, QuantisedInfo)
    assert (info.dtype, info.shape, info.nbytes) == ("F32", SHAPE, 4 * SHAPE[0] * SHAPE[1])
    assert info.written_dtype == "BF16"
    assert checkpoint.quantised == {format_.title: 1}
    assert any(format_.title in warning for warning in checkpoint.warnings)
    assert "quantization_config" not in (checkpoint.config or {})
    read = read_in_parts(checkpoint, "q.weight")
    assert read.dtype == torch.float32
    torch.testing.assert_close(read, values, rtol=2e-7, atol=1e-9)


def references() -> list[str]:
    return sorted(load_file(HERE / "references.safetensors"))


@pytest.mark.parametrize("tag", references())
def test_each_sample_is_what_its_own_library_makes_of_it(tag: str, tmp_path):
    exact = load_file(HERE / "references.safetensors")[tag]
    read = read_in_parts(open_sample(tag, tmp_path), "q.weight")[: len(exact)]
    assert torch.equal(read.to(exact.dtype), exact)


def open_sample(tag: str, folder: Path) -> Checkpoint:
    """A folder with the weight that a library wrote."""
    stored = load_file(HERE / "samples.safetensors")
    start = f"{tag}."
    parts = {name[len(start) :]: part for name, part in stored.items() if name.startswith(start)}
    if tag.startswith("hqq"):
        parts["shape"] = torch.tensor([64, 256])
    if tag.startswith("torchao"):
        parts = {f"_weight_{key}": part for key, part in parts.items()}
    named = {f"q.{key}": part for key, part in parts.items()}
    config: dict[str, Any] = {}
    if tag.startswith(PACKED):
        config = {"quantization_config": compressed(int(tag.removeprefix(PACKED)))}
    if tag.startswith("modelopt"):
        config = {"quantization_config": MODELOPT}
    return open_checkpoint(save_model(folder / "m", {**NORM, **named}, config=config))


@pytest.mark.parametrize("kind", QUANTISED_TYPES)
def test_the_table_of_gguf_types_is_the_librarys(kind: int):
    import gguf

    type_ = QUANTISED_TYPES[kind]
    theirs = gguf.GGMLQuantizationType(kind)
    assert (type_.name, type_.block, type_.bytes) == (
        theirs.name,
        *gguf.GGML_QUANT_SIZES[theirs],
    )


@pytest.mark.parametrize("kind", QUANTISED_TYPES)
def test_each_type_of_gguf_is_what_its_library_makes_of_it(kind: int, tmp_path):
    """Samples of llama.cpp's own quantisation, which the library dequantised."""
    blocks = load_file(HERE / "gguf-types.safetensors")
    raw = blocks[f"{kind}"]
    exact = blocks[f"{kind}.values"]
    tensor = (kind, (2, len(exact)), 2 * raw.numpy().tobytes())
    (tmp_path / "m.gguf").write_bytes(gguf_of_parts(LLAMA, {"blk.0.ffn_up.weight": tensor}))
    checkpoint = open_checkpoint(tmp_path / "m.gguf")
    assert checkpoint.quantised == {f"GGUF {QUANTISED_TYPES[kind].name}": 1}
    read = read_in_parts(checkpoint, "model.layers.0.mlp.up_proj.weight")
    assert torch.equal(read, torch.stack([exact, exact]))


def test_no_type_that_the_library_knows_is_missing():
    import gguf
    from gguf.quants import _type_traits

    plain = {gguf.GGMLQuantizationType.BF16}
    assert {int(kind) for kind in _type_traits if kind not in plain} == set(QUANTISED_TYPES)


@pytest.mark.parametrize("tag", [tag for tag in references() if "-" not in tag])
def test_the_rounding_is_told_by_the_steps(tag: str, tmp_path):
    exact = load_file(HERE / "references.safetensors")[tag].float()
    torch.manual_seed(0)
    original = (torch.randn(OF_MODELOPT if "modelopt" in tag else SHAPE) * 0.02)[: len(exact)]
    checkpoint = open_sample(tag, tmp_path)
    info = checkpoint.tensors["q.weight"]
    assert isinstance(info, QuantisedInfo)
    with TensorReader(checkpoint) as reader:
        share = info.rounding(reader)
    measured = float((exact - original).square().sum() / original.square().sum())
    assert measured / 1.5 < share < 1.5 * measured


def test_a_table_of_equal_levels_has_no_steps():
    assert torch.equal(cell_widths(torch.full((16,), 0.5)), torch.zeros(16))
    assert torch.equal(cell_widths(torch.tensor([0.0, 4.0, 1.0])), torch.tensor([1.0, 3.0, 2.0]))


LARGE = (512, 2048)


@pytest.mark.parametrize("name", FORMATS)
def test_little_is_needed_beside_the_result(name: str, tmp_path):
    """Grids are small, whatever the size of the weight; codes picked by columns are bytes."""
    parts, _ = FORMATS[name].make("q", LARGE, np.random.default_rng(0))
    config = {"quantization_config": FORMATS[name].config}
    checkpoint = open_checkpoint(save_model(tmp_path / "m", parts, config=config))
    info = checkpoint.tensors["q.weight"]
    assert isinstance(info, QuantisedInfo)
    with TensorReader(checkpoint) as reader:
        count = 0
        for grid in info.grids(reader, 0, -(-LARGE[0] * LARGE[1] // info.unit)):
            count += grid.codes.numel()
            assert grid.codes.numel() <= max(1 << 19, info.unit)
    assert count == LARGE[0] * LARGE[1]
