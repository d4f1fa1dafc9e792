"""Quantised weights that do not fit, or lie, are refused in a sentence before memory is taken."""

from __future__ import annotations

import json
import resource
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from ace_gui.checkpoints.gguf_types import OTHER_TYPES, PLAIN_TYPES, QUANTISED_TYPES
from ace_gui.checkpoints.index import open_checkpoint
from ace_gui.checkpoints.reader import TensorReader
from ace_gui.errors import CheckpointError
from tests.helpers.checkpoints import raw_file, save_model
from tests.helpers.gguf_files import gguf_bytes, gguf_of_parts
from tests.helpers.quantised_weights import FORMATS

SHAPE = (32, 128)
LLAMA = {"general.architecture": "llama", "llama.attention.head_count": 2}
UP = "blk.0.ffn_up.weight"
DTYPES = (torch.uint8, torch.int8, torch.int32, torch.int64, torch.float16, torch.float32)


def parts_of(name: str, seed: int = 0) -> dict[str, Tensor]:
    return FORMATS[name].make("q", SHAPE, np.random.default_rng(seed))[0]


def config_of(name: str) -> dict[str, Any]:
    return {"model_type": "llama", "quantization_config": FORMATS[name].config}


def refused(folder: Path, *words: str) -> CheckpointError:
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(folder)
    sentence = caught.value.sentence
    assert sentence.isprintable()
    assert sentence.endswith(".")
    assert caught.value.tensor is not None
    for word in words:
        assert word in sentence
    return caught.value


def opened_or_refused(folder: Path) -> bool:
    """Whether it is opened, and then read without an error."""
    try:
        checkpoint = open_checkpoint(folder)
    except CheckpointError:
        return False
    with TensorReader(checkpoint) as reader:
        for tensor in checkpoint.tensors:
            reader.read(tensor)
    return True


def changed(part: Tensor, draw: st.DrawFn) -> Tensor | None:
    """Something else in place of a part; None: nothing."""
    how = draw(st.sampled_from(("missing", "dtype", "shape", "rank", "bytes")))
    if how == "missing":
        return None
    if how == "dtype":
        return torch.zeros(part.shape, dtype=draw(st.sampled_from(DTYPES)))
    if how == "bytes":
        generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
        raw = torch.randint(0, 256, (part.nbytes,), generator=generator, dtype=torch.uint8)
        return raw.view(part.dtype).reshape(part.shape)
    if how == "rank":
        return part.reshape(-1) if part.ndim != 1 else part[None]
    sizes = [draw(st.integers(0, 2 * size + 1)) for size in part.shape]
    return torch.zeros(sizes, dtype=part.dtype)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, dict[str, Tensor]]:
    """A weight of some format, one part of which is something else."""
    name = draw(st.sampled_from(sorted(FORMATS)))
    parts = parts_of(name)
    key = draw(st.sampled_from(sorted(parts)))
    replacement = changed(parts.pop(key), draw)
    return name, parts if replacement is None else {**parts, key: replacement}


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(model=damaged())
def test_a_part_that_is_something_else_is_refused_or_harmless(
    model: tuple[str, dict[str, Tensor]], tmp_path_factory: pytest.TempPathFactory
):
    name, parts = model
    folder = tmp_path_factory.mktemp("m")
    save_model(folder, {**parts, "norm.weight": torch.ones(3)}, config=config_of(name))
    opened_or_refused(folder)


STATE = {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": list(SHAPE)}
BAD_STATES = {
    "no JSON": "{",
    "a list": "[]",
    "nothing": "",
    "nested too deeply": "[" * 3000,
    "NaN": json.dumps({**STATE, "blocksize": float("nan")}),
    **{
        f"{key} {value}": json.dumps({**STATE, key: value})
        for key, values in {
            "blocksize": (0, -64, 1, 63, 2**40, 64.0, True, "64", None, [64]),
            "shape": (
                *([], [0], [-32, 128], [32.0, 128], "32", None, [True, 4096], {"0": 32}),
                *([2**62, 2**62], [10**100], [2**40, 2**40], [32, 127], [32, 130], [1] * 40),
            ),
        }.items()
        for value in values
    },
}


@pytest.mark.parametrize("case", BAD_STATES)
def test_settings_of_bitsandbytes_that_cannot_be(case: str, tmp_path):
    parts = parts_of("NF4")
    text = BAD_STATES[case].encode()
    raw = torch.tensor(list(text), dtype=torch.uint8)
    parts["q.weight.quant_state.bitsandbytes__nf4"] = raw
    error = refused(save_model(tmp_path / "m", parts, config=config_of("NF4")), "is quantised")
    assert error.tensor in ("q.weight.absmax", "q.weight")


NESTED = {"nested_blocksize": 256, "nested_offset": 0.5}


@pytest.mark.parametrize("key", NESTED)
@pytest.mark.parametrize("value", [0, -1, None, "x", 2**63, [1], 1e400])
def test_nested_settings_that_cannot_be(key: str, value: Any, tmp_path):
    if key == "nested_offset" and value in (0, -1, 2**63):
        value = None
    parts = parts_of("NF4, nested")
    text = json.dumps({**STATE, **NESTED, key: value}).encode()
    raw = torch.tensor(list(text), dtype=torch.uint8)
    parts["q.weight.quant_state.bitsandbytes__nf4"] = raw
    refused(save_model(tmp_path / "m", parts, config=config_of("NF4")), "is quantised", "nested")


@pytest.mark.parametrize("name", ["GPTQ, act order", "int4, groups"])
@pytest.mark.parametrize("group", [-1, 4, 2**31 - 1, -(2**31)])
def test_groups_that_are_not_there(name: str, group: int, tmp_path):
    parts = parts_of(name)
    key = next(key for key in parts if key.endswith("g_idx"))
    parts[key][77] = group
    folder = save_model(tmp_path / "m", parts, config=config_of(name))
    refused(folder, "g_idx", "groups that are not there")


SMALL_PARTS = {
    "int4": ("q.weight_shape", ([32, 2**62], [2**62, 128], [32, 0], [-32, 128], [32, 127], [32])),
    "HQQ, 4 bits": (
        "q.shape",
        ([32, 2**62], [2**31 - 1, 2**31 - 1], [0, 128], [-1, 4096], [31, 128], [64, 64, 1]),
    ),
}


@pytest.mark.parametrize(
    ("name", "shape"),
    [(name, shape) for name, (_, shapes) in SMALL_PARTS.items() for shape in shapes],
)
def test_shapes_that_do_not_fit_the_codes(name: str, shape: list[int], tmp_path):
    parts = {**parts_of(name), SMALL_PARTS[name][0]: torch.tensor(shape)}
    refused(save_model(tmp_path / "m", parts, config=config_of(name)), "is quantised")


@pytest.mark.parametrize(
    ("key", "value"), [("nbits", 1), ("nbits", 5), ("nbits", 2**31 - 1), ("axis", 2), ("axis", -1)]
)
def test_settings_of_hqq_that_are_not_known(key: str, value: int, tmp_path):
    parts = {**parts_of("HQQ, 4 bits"), f"q.{key}": torch.tensor(value, dtype=torch.int32)}
    folder = save_model(tmp_path / "m", parts, config=config_of("HQQ, 4 bits"))
    refused(folder, "is quantised (HQQ)")


LAYOUTS = {
    "AWQ of gemv": ("AWQ", {"version": "gemv"}, "gemv"),
    "AWQ of marlin": ("AWQ", {"version": "marlin"}, "marlin"),
    "GPTQ of marlin": ("GPTQ", {"checkpoint_format": "marlin"}, "marlin"),
    "GPTQ in planes": ("GPTQ", {"checkpoint_format": "gptq_p"}, "gptq_p"),
    "AutoRound": ("GPTQ", {"quant_method": "auto-round"}, "auto-round"),
}


@pytest.mark.parametrize("case", LAYOUTS)
def test_other_layouts_are_named(case: str, tmp_path):
    name, more, word = LAYOUTS[case]
    method = {**FORMATS[name].config, **more}
    folder = save_model(tmp_path / "m", parts_of(name), config={"quantization_config": method})
    refused(folder, word)


def test_other_kinds_of_torchao_are_named(tmp_path):
    from safetensors.torch import save_file

    folder = save_model(tmp_path / "m", parts_of("torchao"), config=config_of("torchao"))
    metadata = {"q.weight": json.dumps({"_type": "Int4Tensor"}), "tensor_names": '["q.weight"]'}
    save_file(parts_of("torchao"), folder / "model.safetensors", metadata=metadata)
    refused(folder, "Int4Tensor")
    metadata["q.weight"] = json.dumps({"_type": "Int8Tensor"})
    save_file(parts_of("torchao"), folder / "model.safetensors", metadata=metadata)
    checkpoint = open_checkpoint(folder)
    assert checkpoint.quantised == {"torchao int8": 1}
    assert not checkpoint.metadata


@pytest.mark.parametrize("name", ["GPTQ", "int4", "HQQ, 4 bits", "torchao"])
def test_a_weight_that_is_there_twice_is_refused(name: str, tmp_path):
    parts = {**parts_of(name), "q.weight": torch.ones(SHAPE)}
    refused(save_model(tmp_path / "m", parts, config=config_of(name)), "twice")


@pytest.mark.parametrize("kind", [*range(48), 255, 2**31, 2**32 - 1])
def test_every_number_of_a_type_of_gguf_is_read_or_named(kind: int, tmp_path):
    file = tmp_path / "m.gguf"
    type_ = QUANTISED_TYPES.get(kind)
    plain = kind in PLAIN_TYPES
    size = 2 * 8 * 512 if type_ is None else 2 * 512 // type_.block * type_.bytes
    if plain:
        size = {"I8": 1, "I16": 2, "F16": 2, "BF16": 2, "F64": 8, "I64": 8}.get(
            PLAIN_TYPES[kind], 4
        ) * 1024
    file.write_bytes(gguf_of_parts(LLAMA, {UP: (kind, (2, 512), bytes(size))}))
    if type_ is not None or plain:
        checkpoint = open_checkpoint(file)
        assert checkpoint.quantised == ({} if plain else {f"GGUF {type_.name if type_ else ''}": 1})
        return
    error = refused(file, OTHER_TYPES.get(kind, f"type {kind}"), "llama-quantize")
    assert error.tensor == UP


@pytest.mark.parametrize("kind", QUANTISED_TYPES)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (2, 33), (2, 2**61), (2**31, 2**31, 256)])
def test_gguf_shapes_that_are_not_whole_blocks(kind: int, shape: tuple[int, ...], tmp_path):
    file = tmp_path / "m.gguf"
    file.write_bytes(gguf_of_parts(LLAMA, {UP: (kind, shape, bytes(64))}))
    error = refused(file)
    assert error.tensor == UP


def test_more_texts_than_any_vocabulary_has(tmp_path):
    content = bytearray(
        gguf_bytes({**LLAMA, "tokens": ["a"]}, {"output_norm.weight": torch.ones(4)})
    )
    at = content.index(struct.pack("<IIQ", 9, 8, 1)) + 8
    content[at : at + 8] = struct.pack("<Q", 2**40)
    (tmp_path / "m.gguf").write_bytes(content)
    with pytest.raises(CheckpointError, match="malformed"):
        open_checkpoint(tmp_path / "m.gguf")


def sparse(folder: Path, rows: int, columns: int) -> Path:
    """A header of a GPTQ weight of this size, with a file of as many bytes, which are not there."""
    sizes = {
        "q.qweight": ("I32", [columns // 8, rows]),
        "q.qzeros": ("I32", [columns // 128, rows // 8]),
        "q.scales": ("F16", [columns // 128, rows]),
    }
    at = 0
    header = {}
    for name, (dtype, shape) in sizes.items():
        nbytes = shape[0] * shape[1] * (2 if dtype == "F16" else 4)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + nbytes]}
        at += nbytes
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    file = raw_file(folder / "model.safetensors", header)
    with file.open("r+b") as opened:
        opened.truncate(file.stat().st_size + at)
    return folder


def test_opening_takes_no_memory_for_the_weights(tmp_path):
    folder = sparse(tmp_path / "m", 1 << 17, 1 << 17)
    tracemalloc.start()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    checkpoint = open_checkpoint(folder)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert checkpoint.tensors["q.weight"].shape == (1 << 17, 1 << 17)
    assert peak < 2_000_000
    assert grown < 20_000  # kilobytes


def modelopt_folder(folder: Path, config: dict[str, Any] | None = None, **more: Tensor) -> Path:
    """A folder with a weight of ModelOpt, to which tensors are added, or which they replace."""
    parts = {**parts_of("ModelOpt"), **{f"q.{key}": part for key, part in more.items()}}
    return save_model(folder / "m", parts, config=config or config_of("ModelOpt"))


@pytest.mark.parametrize("name", ["pre_quant_scale", "svdquant_lora_a", "svdquant_lora_b"])
def test_methods_of_modelopt_that_change_the_inputs(name: str, tmp_path):
    folder = modelopt_folder(tmp_path, **{name: torch.ones(128)})
    refused(folder, "q.weight", "NVFP4 of ModelOpt", "its inputs are changed")


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("weight_scale", torch.ones(32, 8)),
        ("weight_scale", torch.ones(32, 4).to(torch.float8_e4m3fn)),
        ("weight_scale", torch.ones(128, 8).to(torch.float8_e4m3fn)),
        ("weight_scale_2", torch.ones(32)),
        ("weight_scale_2", torch.ones((), dtype=torch.float16)),
        ("weight", torch.zeros(32, 60, dtype=torch.uint8)),
        ("weight", torch.zeros(4, 32, 64, dtype=torch.uint8)),
    ],
)
def test_parts_of_modelopt_that_do_not_fit(name: str, part: Tensor, tmp_path):
    refused(modelopt_folder(tmp_path, **{name: part}), "NVFP4 of ModelOpt")


def test_nvfp4_of_another_program_is_not_taken_for_that_of_modelopt(tmp_path):
    """ComfyUI's files have the same names and sizes, with scales in the order of a GPU."""
    plain = {"model_type": "llama"}
    error = refused(modelopt_folder(tmp_path, plain), "NVFP4", "hf_quant_config.json")
    assert error.tensor == "q.weight_scale_2"
    (tmp_path / "m" / "hf_quant_config.json").write_text("{}")
    assert opened_or_refused(tmp_path / "m")
